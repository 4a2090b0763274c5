"""Empty sequences, which ``OrtApi::CreateValue`` refuses: small models make them, one for each type."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from zrt._common.protobuf_writer import field
from zrt._native.handle import Handle
from zrt.errors import Error, UnsupportedError
from zrt.types import ElementType
from zrt.values.type_info import type_name

if TYPE_CHECKING:
    from zrt.values.value import Value

_made: dict[tuple[ElementType, ElementType | None], Handle] = {}

# ONNX's own numbers for what an attribute holds.
_INT, _INTS, _STRINGS = 2, 7, 8


def sequence(element_type: ElementType, key_type: ElementType | None, subject: str) -> Handle:
    """An empty sequence of tensors, or with `key_type` of maps to float; nothing ever writes into it.

    There is one for each type in the process.
    """
    wanted = (element_type, key_type)
    found = _made.get(wanted)
    # Two threads may make one each: the first to be there stays.
    return found if found is not None else _made.setdefault(wanted, _make(element_type, key_type, subject))


def _make(element_type: ElementType, key_type: ElementType | None, subject: str) -> Handle:
    # Above this module: values know nothing of sessions otherwise.
    from zrt.loading.session_options import SessionOptions
    from zrt.session.session import Session

    model = _of_tensors(element_type) if key_type is None else _of_maps(key_type)
    options = SessionOptions(intra_op_num_threads=1, log_severity_level="FATAL")
    try:
        with Session(model, options) as session, session.binding() as binding:
            if key_type is not None:
                # No rows of scores: no maps.
                binding.bind_input("x", np.empty((0, 1), np.float32))
            binding.bind_output("s")
            binding.run()
            made: Value = binding.outputs()["s"]
            return made._open()
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


# What ``onnx.ModelProto`` serializes to, of which so little is needed that the onnx package is not.


def _attribute(name: bytes, kind: int, number: int, content: int | bytes) -> bytes:
    return field(1, name) + field(number, content) + field(20, kind)


def _value(name: bytes, kind: bytes) -> bytes:
    return field(1, name) + field(2, kind)


def _model(node: bytes, output: bytes, feed: bytes = b"") -> bytes:
    graph = field(1, node) + field(2, b"empty") + (field(11, feed) if feed else b"") + field(12, output)
    opsets = (field(1, domain) + field(2, version) for domain, version in ((b"", 17), (b"ai.onnx.ml", 3)))
    return field(1, 8) + field(7, graph) + b"".join(field(8, opset) for opset in opsets)
