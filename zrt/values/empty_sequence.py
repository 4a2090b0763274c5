"""Empty sequences: ONNX Runtime has no function that creates one, so a small model returns it."""

from __future__ import annotations

import numpy as np

from zrt._common.one_node import attribute, map_type, one_node, sequence_type, tensor_type
from zrt._common.onnx_fields import Attribute, AttributeType
from zrt._native import status
from zrt._native.cdata import NULL, strings
from zrt._native.handle import Handle
from zrt._native.library import api
from zrt.environment.environment import current
from zrt.errors import UnsupportedError
from zrt.types import ElementType, LogSeverity
from zrt.values.type_info import type_name
from zrt.values.value import Value

_sequences: dict[tuple[ElementType, ElementType | None], Handle] = {}

# Names of the input and the output of the models.
_INPUT, _OUTPUT = strings([b"input 0"]), strings([b"output 0"])


def sequence(element_type: ElementType, key_type: ElementType | None, subject: str) -> Handle:
    """The process's empty sequence of tensors, or with `key_type` of maps to float; nothing writes into it."""
    wanted = (element_type, key_type)
    handle = _sequences.get(wanted)
    # Where two threads create one at the same time, the first one is kept.
    return handle if handle is not None else _sequences.setdefault(wanted, _make(element_type, key_type, subject))


def _make(element_type: ElementType, key_type: ElementType | None, subject: str) -> Handle:
    model = _of_tensors(element_type) if key_type is None else _of_maps(key_type)
    # ZipMap returns one map for each row of its input, so an input without rows gives an empty sequence.
    feeds = [] if key_type is None else [Value.from_array(np.empty((0, 1), np.float32))._open()]
    table = api()
    with status.named(
        f"{subject}: ONNX Runtime makes no empty sequence of {type_name(element_type)}", UnsupportedError
    ):
        options = Handle.make(table.ReleaseSessionOptions, [], table.CreateSessionOptions, "OrtSessionOptions")
        status.check(table.SetIntraOpNumThreads(options.pointer, 1))
        status.check(table.SetSessionLogSeverityLevel(options.pointer, int(LogSeverity.FATAL)))
        load = (table.CreateSessionFromArray, "OrtSession", current().pointer, model, len(model), options.pointer)
        session = Handle.make(table.ReleaseSession, [], *load)
        inputs = (_INPUT, [feed.pointer for feed in feeds], len(feeds))
        run = (table.Run, "OrtValue", session.pointer, NULL, *inputs, _OUTPUT, 1)
        return Handle.make(table.ReleaseValue, [], *run)


def _of_tensors(element_type: ElementType) -> bytes:
    code = element_type.onnx_code
    dtype = attribute("dtype", AttributeType.INT, Attribute.I, [code])
    return one_node("SequenceEmpty", "", 17, [], [sequence_type(tensor_type(code))], [dtype])


def _of_maps(key_type: ElementType) -> bytes:
    labels = (
        attribute("classlabels_strings", AttributeType.STRINGS, Attribute.STRINGS, ["a"])
        if key_type is ElementType.STRING
        else attribute("classlabels_int64s", AttributeType.INTS, Attribute.INTS, [0])
    )
    scores = tensor_type(ElementType.FLOAT)
    return one_node("ZipMap", "ai.onnx.ml", 3, [scores], [sequence_type(map_type(key_type, scores))], [labels])
