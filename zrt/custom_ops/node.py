"""A model of one node, written as protobuf: loading it checks what ONNX Runtime does not check for a lone kernel."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from zrt._common.protobuf_writer import field
from zrt._native import lib
from zrt.types import ElementType

# Fields by number: of ModelProto, OperatorSetIdProto, GraphProto, NodeProto, AttributeProto, ValueInfoProto, TypeProto,
# its Tensor, TensorShapeProto and its Dimension.
IR_VERSION, GRAPH, OPSET_IMPORT = 1, 7, 8
OPSET_DOMAIN, OPSET_VERSION = 1, 2
NODE, GRAPH_NAME, GRAPH_INPUT, GRAPH_OUTPUT = 1, 2, 11, 12
NODE_INPUT, NODE_OUTPUT, OP_TYPE, ATTRIBUTE, NODE_DOMAIN = 1, 2, 4, 5, 7
NAME, FLOAT, INT, STRING, FLOATS, INTS, STRINGS, KIND = 1, 2, 3, 4, 7, 8, 9, 20
TYPE, TENSOR, ELEMENT_TYPE, SHAPE, DIM, DIM_VALUE = 2, 1, 1, 2, 1, 1

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
    lib.ORT_OP_ATTR_INT: (2, INT, INTS),
    lib.ORT_OP_ATTR_FLOAT: (1, FLOAT, FLOATS),
    lib.ORT_OP_ATTR_STRING: (3, STRING, STRINGS),
}


def _attribute(attribute: Attr) -> bytes:
    kind, one, many = _KINDS[attribute.kind]
    message = field(NAME, attribute.name)
    message += b"".join(field(many if attribute.is_list else one, value) for value in attribute.values)
    # In AttributeProto the kind of a list is five above that of its elements.
    return message + field(KIND, kind + 5 * attribute.is_list)


def _port(name: str, element_type: ElementType, shape: tuple[int, ...] | None) -> bytes:
    tensor = field(ELEMENT_TYPE, element_type.onnx_code)
    if shape is not None:
        tensor += field(SHAPE, b"".join(field(DIM, field(DIM_VALUE, size)) for size in shape))
    return field(NAME, name) + field(TYPE, field(TENSOR, tensor))


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
    node = b"".join(field(NODE_INPUT, name) for name in fed) + b"".join(field(NODE_OUTPUT, name) for name in made)
    node += field(OP_TYPE, op_type) + field(NODE_DOMAIN, domain)
    node += b"".join(field(ATTRIBUTE, _attribute(each)) for each in attributes)
    graph = field(NODE, node) + field(GRAPH_NAME, op_type)
    known = iter(shapes or ())
    for each, name in zip(inputs, fed, strict=True):
        if each is not None:
            graph += field(GRAPH_INPUT, _port(name, each, next(known, None)))
    for each, name in zip(outputs, made, strict=True):
        if each is not None:
            graph += field(GRAPH_OUTPUT, _port(name, each, None))
    opset = field(OPSET_DOMAIN, domain) + field(OPSET_VERSION, version)
    return field(IR_VERSION, NEWEST_IR) + field(GRAPH, graph) + field(OPSET_IMPORT, opset)
