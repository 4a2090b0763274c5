"""Empty sequences: ONNX Runtime has no function that creates one, so a small model returns it."""

from __future__ import annotations

import numpy as np

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

# Members of ``AttributeProto.AttributeType``.
_INT, _INTS, _STRINGS = 2, 7, 8

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
    tensor = field(1, field(1, element_type.onnx_code))
    made = field(2, b"s") + field(4, b"SequenceEmpty") + field(5, _attribute(b"dtype", _INT, 3, element_type.onnx_code))
    return _model(made, _value(b"s", field(4, field(1, tensor))))


def _of_maps(key_type: ElementType) -> bytes:
    labels = (
        _attribute(b"classlabels_strings", _STRINGS, 9, b"a")
        if key_type is ElementType.STRING
        else _attribute(b"classlabels_int64s", _INTS, 8, 0)
    )
    scores = field(1, field(1, ElementType.FLOAT))
    kind = field(5, field(1, key_type) + field(2, scores))
    node = field(1, b"x") + field(2, b"s") + field(4, b"ZipMap") + field(5, labels) + field(7, b"ai.onnx.ml")
    return _model(node, _value(b"s", field(4, field(1, kind))), _value(b"x", scores))


# The functions below serialize an ``onnx.ModelProto`` without the onnx package.


def _attribute(name: bytes, kind: int, number: int, content: int | bytes) -> bytes:
    return field(1, name) + field(number, content) + field(20, kind)


def _value(name: bytes, kind: bytes) -> bytes:
    return field(1, name) + field(2, kind)


def _model(node: bytes, output: bytes, feed: bytes = b"") -> bytes:
    graph = field(1, node) + field(2, b"empty") + (field(11, feed) if feed else b"") + field(12, output)
    opsets = (field(1, domain) + field(2, version) for domain, version in ((b"", 17), (b"ai.onnx.ml", 3)))
    return field(1, 8) + field(7, graph) + b"".join(field(8, opset) for opset in opsets)
