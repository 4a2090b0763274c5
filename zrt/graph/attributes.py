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

# The kinds of a single value, each with its words, its classes, and its conversion, if it needs one.
_Kinds: TypeAlias = "dict[str, tuple[str, Any, Callable[[Any], Any] | None]]"

_LEAST, _MOST = -(1 << 63), (1 << 63) - 1


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
    # The kind of a list has the name of its elements' kind with an S behind it.
    of, wants_list = wanted.removesuffix("S"), wanted.endswith("S")
    kinds = _kinds()
    if wants_list and isinstance(value, np.ndarray) and value.ndim == 1:
        value = value.tolist()
    is_list = isinstance(value, (list, tuple))
    try:
        if wanted and is_list != wants_list:
            raise MismatchError
        content = [_content(each, of, kinds) for each in value] if is_list else _content(value, of, kinds)
        return onnx.helper.make_attribute(name, content, attr_type=kind)
    except ArgumentError as error:
        raise ArgumentError(f"{subject}: {error}") from None
    except (MismatchError, TypeError, ValueError) as error:
        each = "a list, each element " if wants_list else ""
        reason = f"expected {each}{kinds[of][0]}, got" if of else "no attribute holds"
        detail = f" ({error})" if str(error) else ""
        raise DTypeError(f"{subject}: {reason} {type(value).__name__} {shown(value)}{detail}") from None


def _kinds() -> _Kinds:
    onnx = package()
    return {
        "INT": ("an int", (int, np.integer, np.bool_), _int),
        "FLOAT": ("a float", (float, np.floating), as_float32),
        "STRING": ("a string", (str, bytes), utf8),
        "TENSOR": ("an array", (np.ndarray, onnx.TensorProto), tensor),
        "GRAPH": ("a graph", onnx.GraphProto, None),
        "TYPE_PROTO": ("a type", (*types.KINDS, onnx.TypeProto), _type),
        "SPARSE_TENSOR": ("an onnx.SparseTensorProto", onnx.SparseTensorProto, None),
    }


def _content(value: Any, wanted: str, kinds: _Kinds) -> Any:
    """A value, or an element of a list, as ``make_attribute`` takes it; `wanted` is "" if the kind is not known."""
    if wanted == "TENSOR":
        return tensor(value)
    if wanted == "FLOAT" and isinstance(value, (int, np.integer)) and not isinstance(value, bool):
        return as_float32(value)
    for kind, (_, classes, convert) in kinds.items():
        if isinstance(value, classes) and wanted in ("", kind):
            return value if convert is None else convert(value)
    raise MismatchError


def _type(value: Any) -> Any:
    return types.to_proto(value) if isinstance(value, types.KINDS) else value


def _int(value: Any) -> int:
    if isinstance(value, ElementType):
        # Operators take ONNX's number, which differs from ONNX Runtime's for some types.
        return value.onnx_code
    if not _LEAST <= int(value) <= _MOST:
        raise ArgumentError(f"{value} is not between {_LEAST} and {_MOST}")
    return int(value)
