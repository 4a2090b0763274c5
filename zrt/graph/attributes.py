"""Attributes of nodes: converts Python values to ``onnx.AttributeProto``."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np

from zrt._common.arguments import as_float32, shown
from zrt.errors import ArgumentError, DTypeError
from zrt.graph import types
from zrt.graph.model_proto import package
from zrt.graph.tensors import MismatchError, tensor, utf8
from zrt.types import ElementType

_Kind: TypeAlias = "tuple[str, Any, Callable[[Any], Any] | None]"

_LEAST, _MOST = -(1 << 63), (1 << 63) - 1

# The kinds of a single value. The kind of a list of them has the same name with an S behind it.
_WORDS = {
    "INT": "an int",
    "FLOAT": "a float",
    "STRING": "a string",
    "TENSOR": "an array",
    "GRAPH": "a graph",
    "TYPE_PROTO": "a type",
    "SPARSE_TENSOR": "an onnx.SparseTensorProto",
}


def make(name: str, value: Any, kind: int | None, subject: str) -> Any:
    """The ``onnx.AttributeProto`` of a value; `kind` is the schema's, or None to derive it from the value.

    `value` is an int, a float, a string, bytes, an array, a graph's proto, a type, a list of one of these, or a
    message of the onnx package.
    """
    onnx = package()
    proto = onnx.AttributeProto
    wanted = "" if kind is None else proto.AttributeType.Name(kind)
    if isinstance(value, proto):
        if value.name != name or (kind is not None and value.type != kind):
            came = proto.AttributeType.Name(value.type)
            raise DTypeError(f"{subject}: got an AttributeProto of name {value.name!r} and type {came}")
        return value
    of, wants_list = wanted.removesuffix("S"), wanted.endswith("S")
    if wants_list and isinstance(value, np.ndarray) and value.ndim == 1:
        value = value.tolist()
    is_list = isinstance(value, (list, tuple))
    try:
        if wanted and is_list != wants_list:
            raise MismatchError
        kinds = _kinds()
        content = [_content(each, of, kinds) for each in value] if is_list else _content(value, of, kinds)
        return onnx.helper.make_attribute(name, content, attr_type=kind)
    except ArgumentError as error:
        raise ArgumentError(f"{subject}: {error}") from None
    except (MismatchError, TypeError, ValueError) as error:
        each = "a list, each element " if wants_list else ""
        reason = f"expected {each}{_WORDS[of]}, got" if of else "no attribute holds"
        detail = f" ({error})" if str(error) else ""
        raise DTypeError(f"{subject}: {reason} {type(value).__name__} {shown(value)}{detail}") from None


def _kinds() -> tuple[_Kind, ...]:
    """For each kind of value: its name, its classes, and its conversion, if it needs one."""
    onnx = package()
    return (
        ("INT", (int, np.integer, np.bool_), _int),
        ("FLOAT", (float, np.floating), as_float32),
        ("STRING", (str, bytes), utf8),
        ("TENSOR", (np.ndarray, onnx.TensorProto), tensor),
        ("GRAPH", onnx.GraphProto, None),
        ("TYPE_PROTO", types.KINDS, types.to_proto),
        ("TYPE_PROTO", onnx.TypeProto, None),
        ("SPARSE_TENSOR", onnx.SparseTensorProto, None),
    )


def _content(value: Any, wanted: str, kinds: tuple[_Kind, ...]) -> Any:
    """A value, or an element of a list, as ``make_attribute`` takes it; `wanted` is "" if the kind is not known."""
    if wanted == "TENSOR":
        return tensor(value)
    if wanted == "FLOAT" and isinstance(value, (int, np.integer)) and not isinstance(value, bool):
        return as_float32(value)
    for kind, classes, convert in kinds:
        if isinstance(value, classes) and wanted in ("", kind):
            return value if convert is None else convert(value)
    raise MismatchError


def _int(value: Any) -> int:
    if isinstance(value, ElementType):
        # Operators take ONNX's number, which differs from ONNX Runtime's for some types.
        return value.onnx_code
    if not _LEAST <= int(value) <= _MOST:
        raise ArgumentError(f"{value} is not between {_LEAST} and {_MOST}")
    return int(value)
