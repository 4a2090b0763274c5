"""A model of one node, spelled in protobuf: ONNX Runtime checks by it what it does not check of a kernel alone."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Any, NamedTuple

from zrt.types import ElementType

# Fields by number: of ModelProto, OperatorSetIdProto, GraphProto, NodeProto, AttributeProto, ValueInfoProto, TypeProto,
# its Tensor, TensorShapeProto and its Dimension.
IR_VERSION, GRAPH, OPSET_IMPORT = 1, 7, 8
OPSET_DOMAIN, OPSET_VERSION = 1, 2
NODE, GRAPH_NAME, GRAPH_INPUT, GRAPH_OUTPUT = 1, 2, 11, 12
NODE_INPUT, NODE_OUTPUT, OP_TYPE, ATTRIBUTE, NODE_DOMAIN = 1, 2, 4, 5, 7
NAME, FLOAT, INT, STRING, FLOATS, INTS, STRINGS, KIND = 1, 2, 3, 4, 7, 8, 9, 20
TYPE, TENSOR, ELEMENT_TYPE, SHAPE, DIM, DIM_VALUE = 2, 1, 1, 2, 1, 1

# The last one that every library of API version 27 reads.
NEWEST_IR = 10


class Attr(NamedTuple):
    """An attribute of a kind that kernels can be made with: its name, its ``AttributeProto`` kind, and its values."""

    name: str
    kind: int
    values: Sequence[Any]
    is_list: bool


# For each kind of ``OrtOpAttrType`` that has one value, ``AttributeProto``'s kind, and its fields for one and for many.
_KINDS = {1: (2, INT, INTS), 3: (1, FLOAT, FLOATS), 5: (3, STRING, STRINGS)}


def _varint(value: int) -> bytes:
    value &= 2**64 - 1
    data = bytearray()
    while value > 127:
        data.append(value & 127 | 128)
        value >>= 7
    data.append(value)
    return bytes(data)


def _field(number: int, value: int | float | str | bytes) -> bytes:
    if isinstance(value, float):
        return _varint(number << 3 | 5) + struct.pack("<f", value)
    if isinstance(value, int):
        return _varint(number << 3) + _varint(value)
    content = value.encode() if isinstance(value, str) else value
    return _varint(number << 3 | 2) + _varint(len(content)) + content


def _attribute(attribute: Attr) -> bytes:
    kind, one, many = _KINDS[attribute.kind]
    message = _field(NAME, attribute.name)
    message += b"".join(_field(many if attribute.is_list else one, value) for value in attribute.values)
    # A list's kind is five above that of one.
    return message + _field(KIND, kind + 5 * attribute.is_list)


def _port(name: str, element_type: ElementType, shape: tuple[int, ...] | None) -> bytes:
    tensor = _field(ELEMENT_TYPE, element_type.onnx_code)
    if shape is not None:
        tensor += _field(SHAPE, b"".join(_field(DIM, _field(DIM_VALUE, size)) for size in shape))
    return _field(NAME, name) + _field(TYPE, _field(TENSOR, tensor))


def one_node(
    op_type: str,
    domain: str,
    version: int,
    inputs: Sequence[ElementType | None],
    outputs: Sequence[ElementType | None],
    attributes: Sequence[Attr],
    shapes: Sequence[tuple[int, ...]] | None = None,
) -> bytes:
    """The model of a node with these inputs and outputs, None for an absent one, and the present inputs' `shapes`."""
    fed = [f"input {i}" if each is not None else "" for i, each in enumerate(inputs)]
    made = [f"output {i}" if each is not None else "" for i, each in enumerate(outputs)]
    node = b"".join(_field(NODE_INPUT, name) for name in fed) + b"".join(_field(NODE_OUTPUT, name) for name in made)
    node += _field(OP_TYPE, op_type) + _field(NODE_DOMAIN, domain)
    node += b"".join(_field(ATTRIBUTE, _attribute(each)) for each in attributes)
    graph = _field(NODE, node) + _field(GRAPH_NAME, op_type)
    known = iter(shapes or ())
    for each, name in zip(inputs, fed, strict=True):
        if each is not None:
            graph += _field(GRAPH_INPUT, _port(name, each, next(known, None)))
    for each, name in zip(outputs, made, strict=True):
        if each is not None:
            graph += _field(GRAPH_OUTPUT, _port(name, each, None))
    opset = _field(OPSET_DOMAIN, domain) + _field(OPSET_VERSION, version)
    return _field(IR_VERSION, NEWEST_IR) + _field(GRAPH, graph) + _field(OPSET_IMPORT, opset)
