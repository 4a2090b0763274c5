"""Models of one node, written without the onnx package."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from zrt._common.onnx_fields import (
    Attribute,
    Dimension,
    Graph,
    MapType,
    Model,
    Node,
    OperatorSet,
    SequenceType,
    TensorShape,
    TensorType,
    Type,
    ValueInfo,
)
from zrt._common.protobuf_writer import field

# The newest IR version that every library of API version 27 reads.
NEWEST_IR = 10


def attribute(name: str, kind: int, number: int, values: Iterable[Any]) -> bytes:
    """An ``AttributeProto`` of that kind (`AttributeType`), whose values are in the field `number` (`Attribute`)."""
    content = b"".join(field(number, value) for value in values)
    return field(Attribute.NAME, name) + content + field(Attribute.TYPE, kind)


def tensor_type(code: int, shape: Sequence[int] | None = None) -> bytes:
    """The ``TypeProto`` of a tensor; `code` is ONNX's number of the element type."""
    tensor = field(TensorType.ELEM_TYPE, code)
    if shape is not None:
        dims = b"".join(field(TensorShape.DIM, field(Dimension.DIM_VALUE, size)) for size in shape)
        tensor += field(TensorType.SHAPE, dims)
    return field(Type.TENSOR_TYPE, tensor)


def sequence_type(element: bytes) -> bytes:
    """The ``TypeProto`` of a sequence of elements of that type."""
    return field(Type.SEQUENCE_TYPE, field(SequenceType.ELEM_TYPE, element))


def map_type(key: int, value: bytes) -> bytes:
    """The ``TypeProto`` of a map; `key` is ONNX's number of the keys' type."""
    return field(Type.MAP_TYPE, field(MapType.KEY_TYPE, key) + field(MapType.VALUE_TYPE, value))


def one_node(
    op_type: str,
    domain: str,
    version: int,
    inputs: Sequence[bytes | None],
    outputs: Sequence[bytes | None],
    attributes: Iterable[bytes],
) -> bytes:
    """A model of one node, from the types of its inputs and outputs; None stands for an absent one.

    The values are called "input 0", "input 1" ... and "output 0", "output 1" ...
    """
    node = field(Node.OP_TYPE, op_type) + field(Node.DOMAIN, domain)
    node += b"".join(field(Node.ATTRIBUTE, each) for each in attributes)
    graph = field(Graph.NAME, op_type)
    for role, types, of_node, of_graph in (
        ("input", inputs, Node.INPUT, Graph.INPUT),
        ("output", outputs, Node.OUTPUT, Graph.OUTPUT),
    ):
        for index, kind in enumerate(types):
            name = "" if kind is None else f"{role} {index}"
            node += field(of_node, name)
            if kind is not None:
                graph += field(of_graph, field(ValueInfo.NAME, name) + field(ValueInfo.TYPE, kind))
    graph += field(Graph.NODE, node)
    opset = field(OperatorSet.DOMAIN, domain) + field(OperatorSet.VERSION, version)
    return field(Model.IR_VERSION, NEWEST_IR) + field(Model.GRAPH, graph) + field(Model.OPSET_IMPORT, opset)
