"""A model of one node, written as protobuf: loading it checks what ONNX Runtime does not check for a lone kernel."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from zrt._common.onnx_fields import (
    Attribute,
    AttributeType,
    Dimension,
    Graph,
    Model,
    Node,
    OperatorSet,
    TensorShape,
    TensorType,
    Type,
    ValueInfo,
)
from zrt._common.protobuf_writer import field
from zrt._native import lib
from zrt.types import ElementType

# The newest IR version that every library of API version 27 reads.
NEWEST_IR = 10


class Attr(NamedTuple):
    """An attribute; `kind` is the ``OrtOpAttrType`` of one of its values, also for a list."""

    name: str
    kind: int
    values: Sequence[Any]
    is_list: bool


# For each scalar ``OrtOpAttrType``: its number in ``AttributeProto``, and the fields for one value and for a list.
_KINDS = {
    lib.ORT_OP_ATTR_INT: (AttributeType.INT, Attribute.I, Attribute.INTS),
    lib.ORT_OP_ATTR_FLOAT: (AttributeType.FLOAT, Attribute.F, Attribute.FLOATS),
    lib.ORT_OP_ATTR_STRING: (AttributeType.STRING, Attribute.S, Attribute.STRINGS),
}


def _attribute(attribute: Attr) -> bytes:
    kind, one, many = _KINDS[attribute.kind]
    message = field(Attribute.NAME, attribute.name)
    message += b"".join(field(many if attribute.is_list else one, value) for value in attribute.values)
    # In AttributeProto the kind of a list is five above that of its elements.
    return message + field(Attribute.TYPE, kind + 5 * attribute.is_list)


def _port(name: str, element_type: ElementType, shape: tuple[int, ...] | None) -> bytes:
    tensor = field(TensorType.ELEM_TYPE, element_type.onnx_code)
    if shape is not None:
        tensor += field(
            TensorType.SHAPE, b"".join(field(TensorShape.DIM, field(Dimension.DIM_VALUE, size)) for size in shape)
        )
    return field(ValueInfo.NAME, name) + field(ValueInfo.TYPE, field(Type.TENSOR_TYPE, tensor))


def one_node(
    op_type: str,
    domain: str,
    version: int,
    inputs: Sequence[ElementType | None],
    outputs: Sequence[ElementType | None],
    attributes: Sequence[Attr],
    shapes: Sequence[tuple[int, ...]] | None = None,
) -> bytes:
    """A model of one node; None stands for an absent input or output, `shapes` are those of the present inputs."""
    fed = [f"input {i}" if each is not None else "" for i, each in enumerate(inputs)]
    made = [f"output {i}" if each is not None else "" for i, each in enumerate(outputs)]
    node = b"".join(field(Node.INPUT, name) for name in fed) + b"".join(field(Node.OUTPUT, name) for name in made)
    node += field(Node.OP_TYPE, op_type) + field(Node.DOMAIN, domain)
    node += b"".join(field(Node.ATTRIBUTE, _attribute(each)) for each in attributes)
    graph = field(Graph.NODE, node) + field(Graph.NAME, op_type)
    known = iter(shapes or ())
    for each, name in zip(inputs, fed, strict=True):
        if each is not None:
            graph += field(Graph.INPUT, _port(name, each, next(known, None)))
    for each, name in zip(outputs, made, strict=True):
        if each is not None:
            graph += field(Graph.OUTPUT, _port(name, each, None))
    opset = field(OperatorSet.DOMAIN, domain) + field(OperatorSet.VERSION, version)
    return field(Model.IR_VERSION, NEWEST_IR) + field(Model.GRAPH, graph) + field(Model.OPSET_IMPORT, opset)
