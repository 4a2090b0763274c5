"""Empty sequences: ONNX Runtime has no function that creates one, so a small model returns it."""

from __future__ import annotations

import numpy as np

from zrt._common.onnx_fields import (
    Attribute,
    AttributeType,
    Graph,
    MapType,
    Model,
    Node,
    OperatorSet,
    SequenceType,
    TensorType,
    Type,
    ValueInfo,
)
from zrt._common.protobuf_writer import field
from zrt._native import status
from zrt._native.cdata import NULL, strings
from zrt._native.handle import Handle
from zrt._native.library import api
from zrt.environment.environment import current
from zrt.errors import Error, UnsupportedError
from zrt.types import ElementType, LogSeverity
from zrt.values.type_info import type_name
from zrt.values.value import Value

_made: dict[tuple[ElementType, ElementType | None], Handle] = {}

# Names of the input and the output of the models.
_INPUT, _OUTPUT = strings([b"x"]), strings([b"s"])


def sequence(element_type: ElementType, key_type: ElementType | None, subject: str) -> Handle:
    """The process's empty sequence of tensors, or with `key_type` of maps to float; nothing writes into it."""
    wanted = (element_type, key_type)
    found = _made.get(wanted)
    # Where two threads create one at the same time, the first one is kept.
    return found if found is not None else _made.setdefault(wanted, _make(element_type, key_type, subject))


def _make(element_type: ElementType, key_type: ElementType | None, subject: str) -> Handle:
    model = _of_tensors(element_type) if key_type is None else _of_maps(key_type)
    # ZipMap returns one map for each row of its input, so an input without rows gives an empty sequence.
    feeds = [] if key_type is None else [Value.from_array(np.empty((0, 1), np.float32))._open()]
    table = api()
    try:
        options = Handle.make(table.ReleaseSessionOptions, [], table.CreateSessionOptions, "OrtSessionOptions")
        status.check(table.SetIntraOpNumThreads(options.pointer, 1))
        status.check(table.SetSessionLogSeverityLevel(options.pointer, int(LogSeverity.FATAL)))
        load = (table.CreateSessionFromArray, "OrtSession", current().pointer, model, len(model), options.pointer)
        session = Handle.make(table.ReleaseSession, [], *load)
        inputs = (_INPUT, [feed.pointer for feed in feeds], len(feeds))
        run = (table.Run, "OrtValue", session.pointer, NULL, *inputs, _OUTPUT, 1)
        return Handle.make(table.ReleaseValue, [], *run)
    except Error as error:
        raise UnsupportedError(
            f"{subject}: ONNX Runtime makes no empty sequence of {type_name(element_type)}: {error}"
        ) from error


def _of_tensors(element_type: ElementType) -> bytes:
    code = element_type.onnx_code
    node = (
        field(Node.OUTPUT, b"s")
        + field(Node.OP_TYPE, b"SequenceEmpty")
        + field(Node.ATTRIBUTE, _attribute(b"dtype", AttributeType.INT, Attribute.I, code))
    )
    return _model(node, _value(b"s", _sequence_type(_tensor_type(code))))


def _of_maps(key_type: ElementType) -> bytes:
    labels = (
        _attribute(b"classlabels_strings", AttributeType.STRINGS, Attribute.STRINGS, b"a")
        if key_type is ElementType.STRING
        else _attribute(b"classlabels_int64s", AttributeType.INTS, Attribute.INTS, 0)
    )
    scores = _tensor_type(ElementType.FLOAT)
    kind = field(Type.MAP_TYPE, field(MapType.KEY_TYPE, key_type) + field(MapType.VALUE_TYPE, scores))
    node = (
        field(Node.INPUT, b"x")
        + field(Node.OUTPUT, b"s")
        + field(Node.OP_TYPE, b"ZipMap")
        + field(Node.ATTRIBUTE, labels)
        + field(Node.DOMAIN, b"ai.onnx.ml")
    )
    return _model(node, _value(b"s", _sequence_type(kind)), _value(b"x", scores))


# The functions below serialize an ``onnx.ModelProto`` without the onnx package.


def _tensor_type(code: int) -> bytes:
    return field(Type.TENSOR_TYPE, field(TensorType.ELEM_TYPE, code))


def _sequence_type(kind: bytes) -> bytes:
    return field(Type.SEQUENCE_TYPE, field(SequenceType.ELEM_TYPE, kind))


def _attribute(name: bytes, kind: int, number: int, content: int | bytes) -> bytes:
    return field(Attribute.NAME, name) + field(number, content) + field(Attribute.TYPE, kind)


def _value(name: bytes, kind: bytes) -> bytes:
    return field(ValueInfo.NAME, name) + field(ValueInfo.TYPE, kind)


def _model(node: bytes, output: bytes, feed: bytes = b"") -> bytes:
    graph = field(Graph.NODE, node) + field(Graph.NAME, b"empty")
    graph += (field(Graph.INPUT, feed) if feed else b"") + field(Graph.OUTPUT, output)
    model = field(Model.IR_VERSION, 8) + field(Model.GRAPH, graph)
    for domain, version in ((b"", 17), (b"ai.onnx.ml", 3)):
        opset = field(OperatorSet.DOMAIN, domain) + field(OperatorSet.VERSION, version)
        model += field(Model.OPSET_IMPORT, opset)
    return model
