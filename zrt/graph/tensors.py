"""Arrays, values and borrowed memory as ``onnx.TensorProto``, and the content of one as bytes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from copy import deepcopy
from typing import Any

import numpy as np

from zrt._common.arguments import shown
from zrt._native import status
from zrt.errors import ArgumentError, DTypeError, ModelError, UnsupportedError
from zrt.graph import types
from zrt.graph.model_proto import package
from zrt.memory import arrays
from zrt.types import ElementType, nbytes
from zrt.values.value import Value

# The least size in bytes of an initializer that ONNX Runtime can borrow.
LEAST_BORROWED = 128

# The fields of ``onnx.TensorProto`` that hold the elements where `raw_data` does not.
TYPED_FIELDS = ("float_data", "int32_data", "string_data", "int64_data", "double_data", "uint64_data")


class MismatchError(Exception):
    """A value does not have the wanted kind; the message may say why. It stays within `zrt.graph`."""


def utf8(value: Any) -> bytes:
    """A string's bytes, which ONNX wants as UTF-8."""
    if isinstance(value, bytes):
        return value
    if not isinstance(value, str):
        raise MismatchError
    try:
        return value.encode()
    except UnicodeEncodeError:
        raise ArgumentError(f"{shown(value)} cannot be written as UTF-8") from None


def tensor(value: Any, name: str = "") -> Any:
    """An array, or one of numpy's scalars, as an ``onnx.TensorProto``; raises `MismatchError`."""
    onnx = package()
    if isinstance(value, onnx.TensorProto):
        proto = deepcopy(value)
        proto.name = name or value.name
        return proto
    if not isinstance(value, (np.ndarray, np.generic)):
        raise MismatchError
    array = arrays.plain(value, "it")
    try:
        kind = ElementType.of(array.dtype)
        if kind is not ElementType.STRING:
            return onnx.numpy_helper.from_array(array.astype(array.dtype.newbyteorder("="), copy=False), name)
        elements = [utf8(each) for each in array.reshape(-1).tolist()]
    except MismatchError:
        raise MismatchError("its objects are not strings") from None
    except ArgumentError:
        raise
    except (DTypeError, TypeError, ValueError, NotImplementedError) as error:
        raise MismatchError(str(error)) from None
    return onnx.TensorProto(name=name, data_type=kind.onnx_code, dims=array.shape, string_data=elements)


def copied(source: Any, name: str, subject: str) -> Any:
    """An initializer with a copy of an array, a scalar, a `Value` or an ``onnx.TensorProto``."""
    onnx = package()
    with status.named(subject):
        if isinstance(source, Value):
            if source._tensor() and source.element_type.packed:
                code = source.element_type.onnx_code
                return onnx.TensorProto(name=name, data_type=code, dims=source.shape, raw_data=source.numpy().tobytes())
            source = source.numpy()
        try:
            proto = tensor(source, name)
        except MismatchError as error:
            detail = f" ({error})" if str(error) else ""
            raise DTypeError(f"expected an array, got {type(source).__name__} {shown(source)}{detail}") from None
        if onnx.external_data_helper.uses_external_data(proto):
            raise UnsupportedError("its content lies in a file; from_onnx reads models with such weights")
        return proto


def borrowed(source: Any, subject: str) -> Value:
    """The value over the memory to borrow; an error where it cannot be borrowed."""
    value = source if isinstance(source, Value) else Value.from_array(source, subject)
    with status.named(subject):
        value._tensor()
    if not value.memory.is_host:
        raise UnsupportedError(f"{subject}: it lies on {value.memory.name}; initializers must be in host memory")
    if value.element_type is ElementType.STRING:
        raise UnsupportedError(f"{subject}: strings cannot be borrowed; copy them")
    if value.nbytes < LEAST_BORROWED:
        raise ArgumentError(
            f"{subject}: it has {value.nbytes} bytes, and ONNX Runtime borrows {LEAST_BORROWED} or more: copy it"
        )
    return value


def outside(name: str, code: int, dims: Sequence[int], location: str, offset: int, size: int) -> Any:
    """An initializer whose `size` bytes lie in another file."""
    own = package().TensorProto
    proto = own(name=name, data_type=code, dims=dims, data_location=own.EXTERNAL)
    for key, entry in (("location", location), ("offset", offset), ("length", size)):
        proto.external_data.add(key=key, value=str(entry))
    return proto


def raw(proto: Any) -> bytes:
    """A tensor's content as ONNX stores it: packed, little-endian."""
    if proto.HasField("raw_data"):
        return bytes(proto.raw_data)
    helper = package().numpy_helper
    try:
        return bytes(helper.from_array(helper.to_array(proto)).raw_data)
    # Where the number of elements does not match the shape, the onnx package and numpy raise various classes.
    except Exception as error:
        raise ModelError(f"initializer {proto.name!r}: {error}") from error


def check_amount(proto: Any) -> None:
    """Raises a `ModelError` where an initializer's data does not fill its shape, which ONNX's checker accepts."""
    if proto.data_location == type(proto).EXTERNAL:
        return
    subject = f"initializer {proto.name!r}"
    kind = types.of_code(proto.data_type, subject)
    if proto.HasField("raw_data"):
        size, came, unit = nbytes(kind, proto.dims), len(proto.raw_data), "bytes"
    else:
        # Each number is one byte of packed elements, or half of a complex one.
        numbers = 2 if kind in (ElementType.COMPLEX64, ElementType.COMPLEX128) else 1
        size = nbytes(kind, proto.dims) if kind.packed else numbers * math.prod(proto.dims)
        came, unit = sum(len(getattr(proto, field)) for field in TYPED_FIELDS), "numbers or strings"
    if came != size:
        raise ModelError(f"{subject}: {list(proto.dims)} of its type takes {size} {unit}, it has {came}")
