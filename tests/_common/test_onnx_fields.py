"""The numbers of onnx.proto are those of the onnx package."""

from typing import Any

import onnx
import pytest

from zrt._common import onnx_fields

MESSAGES = {
    onnx_fields.Model: onnx.ModelProto,
    onnx_fields.OperatorSet: onnx.OperatorSetIdProto,
    onnx_fields.Function: onnx.FunctionProto,
    onnx_fields.Graph: onnx.GraphProto,
    onnx_fields.SparseTensorFields: onnx.SparseTensorProto,
    onnx_fields.Node: onnx.NodeProto,
    onnx_fields.Attribute: onnx.AttributeProto,
    onnx_fields.Tensor: onnx.TensorProto,
    onnx_fields.StringStringEntry: onnx.StringStringEntryProto,
    onnx_fields.ValueInfo: onnx.ValueInfoProto,
    onnx_fields.Type: onnx.TypeProto,
    onnx_fields.TensorType: onnx.TypeProto.Tensor,
    onnx_fields.TensorShape: onnx.TensorShapeProto,
    onnx_fields.Dimension: onnx.TensorShapeProto.Dimension,
    onnx_fields.SequenceType: onnx.TypeProto.Sequence,
    onnx_fields.MapType: onnx.TypeProto.Map,
}
ENUMS = {
    onnx_fields.AttributeType: onnx.AttributeProto.AttributeType,
    onnx_fields.DataLocation: onnx.TensorProto.DataLocation,
}


def numbers_of(kind: type) -> dict[str, int]:
    return {name: number for name, number in vars(kind).items() if isinstance(number, int) and name[0] != "_"}


def name_of(kind: Any) -> str:
    return kind.__name__ if isinstance(kind, type) else ""


@pytest.mark.parametrize(("kind", "message"), MESSAGES.items(), ids=name_of)
def test_fields_have_the_numbers_of_onnx(kind, message):
    fields = message.DESCRIPTOR.fields_by_name
    assert numbers_of(kind) == {name: fields[name.lower()].number for name in numbers_of(kind)}


@pytest.mark.parametrize(("kind", "enum"), ENUMS.items(), ids=name_of)
def test_enums_have_the_values_of_onnx(kind, enum):
    assert numbers_of(kind) == {name: enum.Value(name) for name in numbers_of(kind)}


def test_every_class_is_compared():
    classes = {kind for kind in vars(onnx_fields).values() if isinstance(kind, type)}
    assert classes == MESSAGES.keys() | ENUMS.keys()
