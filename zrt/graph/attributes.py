"""Attributes of nodes: converts Python values to ``onnx.AttributeProto``."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from zrt._common.arguments import shown
from zrt.errors import ArgumentError, DTypeError
from zrt.graph import types
from zrt.graph.model_proto import package
from zrt.memory import arrays
from zrt.types import ElementType

_LEAST, _MOST = -(1 << 63), (1 << 63) - 1


class _Mismatch(Exception):  # noqa: N818 (never raised out of this module)
    """The value does not have the wanted kind; the argument describes it, or is empty."""


def make(name: str, value: Any, kind: int | None, subject: str) -> Any:
    """The ``onnx.AttributeProto`` of a value; `kind` is the schema's, or None to derive it from the value.

    `value` is an int, a float, a string, bytes, an array, a graph's proto, a type, a list of one of these, or a
    message of the onnx package.
    """
    onnx = package()
    proto = onnx.AttributeProto
    if isinstance(value, proto):
        if value.name != name or (kind is not None and value.type != kind):
            came = proto.AttributeType.Name(value.type)
            raise DTypeError(f"{subject}: got an AttributeProto of name {value.name!r} and type {came}")
        return value
    try:
        found = _kind(onnx, value) if kind is None else kind
        made = proto(name=name, type=found)
        _FILL[proto.AttributeType.Name(found)](made, value)
        return made
    except _Mismatch as error:
        wanted = "no attribute holds " if kind is None else f"expected {_WORDS[proto.AttributeType.Name(kind)]}, got "
        raise DTypeError(f"{subject}: {wanted}{error.args[0] or type(value).__name__} {shown(value)}") from None
    except ArgumentError as error:
        raise ArgumentError(f"{subject}: {error}") from None


def _kind(onnx: Any, value: Any) -> int:
    """The kind of attribute that follows from a value's type."""
    kinds = onnx.AttributeProto
    if isinstance(value, (list, tuple)):
        if not value:
            raise _Mismatch("an empty list, whose type only an onnx.AttributeProto can give:")
        inner = {_kind(onnx, each) for each in value}
        if inner == {kinds.INT, kinds.FLOAT}:
            inner = {kinds.FLOAT}
        plural = {
            kinds.INT: kinds.INTS,
            kinds.FLOAT: kinds.FLOATS,
            kinds.STRING: kinds.STRINGS,
            kinds.TENSOR: kinds.TENSORS,
            kinds.GRAPH: kinds.GRAPHS,
            kinds.TYPE_PROTO: kinds.TYPE_PROTOS,
            kinds.SPARSE_TENSOR: kinds.SPARSE_TENSORS,
        }
        if len(inner) != 1 or not inner & plural.keys():
            raise _Mismatch("a list of different kinds:")
        return int(plural[inner.pop()])
    for python, kind in (
        ((bool, int, np.integer, np.bool_), kinds.INT),
        ((float, np.floating), kinds.FLOAT),
        ((str, bytes), kinds.STRING),
        ((np.ndarray, onnx.TensorProto), kinds.TENSOR),
        (onnx.GraphProto, kinds.GRAPH),
        ((*types.KINDS, onnx.TypeProto), kinds.TYPE_PROTO),
        (onnx.SparseTensorProto, kinds.SPARSE_TENSOR),
    ):
        if isinstance(value, python):
            return int(kind)
    raise _Mismatch("")


def _int(value: Any) -> int:
    if isinstance(value, ElementType):
        # Operators take ONNX's number, which differs from ONNX Runtime's for some types.
        return value.onnx_code
    if not isinstance(value, (int, np.integer, np.bool_)):
        raise _Mismatch("")
    if not _LEAST <= int(value) <= _MOST:
        raise ArgumentError(f"{value} is not between {_LEAST} and {_MOST}")
    return int(value)


def _float(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float, np.integer, np.floating)):
        raise _Mismatch("")
    try:
        number = float(value)
    except OverflowError:
        number = math.inf
    infinite = isinstance(value, (float, np.floating)) and math.isinf(value)
    if abs(number) > float(np.finfo(np.float32).max) and not infinite:
        raise ArgumentError(f"{shown(value)} is larger than any float32")
    return number


def _bytes(value: Any) -> bytes:
    if isinstance(value, bytes):
        return value
    if not isinstance(value, str):
        raise _Mismatch("")
    try:
        return value.encode()
    except UnicodeEncodeError:
        raise ArgumentError(f"{shown(value)} cannot be written as UTF-8") from None


def tensor(value: Any, name: str = "") -> Any:
    """An array, or one of numpy's scalars, as an ``onnx.TensorProto``."""
    onnx = package()
    if isinstance(value, onnx.TensorProto):
        made = onnx.TensorProto()
        made.CopyFrom(value)
        made.name = name or value.name
        return made
    if not isinstance(value, (np.ndarray, np.generic)):
        raise _Mismatch("")
    array = arrays.plain(value, "it")
    try:
        kind = ElementType.of(array.dtype)
        if kind is not ElementType.STRING:
            return onnx.numpy_helper.from_array(array.astype(array.dtype.newbyteorder("="), copy=False), name)
        elements = [_bytes(each) for each in array.reshape(-1).tolist()]
    except _Mismatch:
        raise _Mismatch("an array of objects that are not strings:") from None
    except ArgumentError:
        raise
    except (DTypeError, TypeError, ValueError, NotImplementedError) as error:
        raise _Mismatch(f"an array that ONNX has no type for ({error}):") from None
    return onnx.TensorProto(name=name, data_type=kind.onnx_code, dims=array.shape, string_data=elements)


def _graph(value: Any) -> Any:
    if not isinstance(value, package().GraphProto):
        raise _Mismatch("")
    return value


def _type(value: Any) -> Any:
    if isinstance(value, package().TypeProto):
        return value
    if not isinstance(value, types.KINDS):
        raise _Mismatch("")
    return types.to_proto(value)


def _sparse(value: Any) -> Any:
    if not isinstance(value, package().SparseTensorProto):
        raise _Mismatch("")
    return value


def _one(field: str, convert: Callable[[Any], Any]) -> Callable[[Any, Any], None]:
    def fill(made: Any, value: Any) -> None:
        content = convert(value)
        if isinstance(content, (int, float, bytes)):
            setattr(made, field, content)
        else:
            getattr(made, field).CopyFrom(content)

    return fill


def _many(field: str, convert: Callable[[Any], Any]) -> Callable[[Any, Any], None]:
    def fill(made: Any, value: Any) -> None:
        if isinstance(value, np.ndarray) and value.ndim == 1:
            value = value.tolist()
        if not isinstance(value, (list, tuple)):
            raise _Mismatch("")
        getattr(made, field).extend([convert(each) for each in value])

    return fill


_FILL: dict[str, Callable[[Any, Any], None]] = {
    "INT": _one("i", _int),
    "FLOAT": _one("f", _float),
    "STRING": _one("s", _bytes),
    "TENSOR": _one("t", tensor),
    "GRAPH": _one("g", _graph),
    "TYPE_PROTO": _one("tp", _type),
    "SPARSE_TENSOR": _one("sparse_tensor", _sparse),
    "INTS": _many("ints", _int),
    "FLOATS": _many("floats", _float),
    "STRINGS": _many("strings", _bytes),
    "TENSORS": _many("tensors", tensor),
    "GRAPHS": _many("graphs", _graph),
    "TYPE_PROTOS": _many("type_protos", _type),
    "SPARSE_TENSORS": _many("sparse_tensors", _sparse),
}

_WORDS = {
    "INT": "an int",
    "FLOAT": "a float",
    "STRING": "a string",
    "TENSOR": "an array",
    "GRAPH": "a graph",
    "TYPE_PROTO": "a type",
    "SPARSE_TENSOR": "an onnx.SparseTensorProto",
    "INTS": "a list of ints",
    "FLOATS": "a list of floats",
    "STRINGS": "a list of strings",
    "TENSORS": "a list of arrays",
    "GRAPHS": "a list of graphs",
    "TYPE_PROTOS": "a list of types",
    "SPARSE_TENSORS": "a list of onnx.SparseTensorProto",
}


def initializer(array: Any, name: str, subject: str) -> Any:
    """The ``onnx.TensorProto`` of an initializer."""
    try:
        return tensor(array, name)
    except _Mismatch as error:
        came = error.args[0] or type(array).__name__
        raise DTypeError(f"{subject}: expected an array, got {came} {shown(array)}") from None
    except ArgumentError as error:
        raise ArgumentError(f"{subject}: {error}") from None
