"""numpy arrays over memory that numpy does not own, and the properties of arrays that ONNX Runtime needs."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np

from zrt._native.handle import Handle
from zrt.errors import ArgumentError, DTypeError, ShapeError
from zrt.types import ElementType, nbytes

# numpy's NPY_MAXDIMS, which has no name in Python.
MOST_DIMENSIONS = 64


def _foreign(
    handle: Handle, address: int, shape: tuple[int, ...], writeable: bool, typestr: str = "|u1", strides: Any = None
) -> np.ndarray[Any, Any]:
    """A view whose base keeps alive the handle that owns the memory."""
    data = {"version": 3, "shape": shape, "typestr": typestr, "data": (address, not writeable), "strides": strides}
    return np.asarray(SimpleNamespace(handle=handle, __array_interface__=data))


def view(
    handle: Handle, address: int, shape: tuple[int, ...], element_type: ElementType, writeable: bool = True
) -> np.ndarray[Any, Any]:
    """An array over the memory at `address`. The array keeps `handle` alive, which owns the memory.

    For a packed type it is the uint8 array of the packed bytes. Raises `ShapeError` where numpy has no such array.
    """
    size = nbytes(element_type, shape)
    dtype = np.dtype(np.uint8) if element_type.packed else element_type.dtype
    try:
        if size == 0:
            # numpy multiplies the other dimensions even if one is 0.
            return np.empty((0,) if element_type.packed else shape, dtype)
        raw = _foreign(handle, address, (size,), writeable)
        return raw if element_type.packed else raw.view(dtype).reshape(shape)
    except (ValueError, OverflowError) as error:
        raise ShapeError(f"shape {list(shape)}: numpy has no such array: {error}") from error


def strided(
    handle: Handle, address: int, shape: tuple[int, ...], strides: tuple[int, ...] | None, width: int
) -> np.ndarray[Any, Any]:
    """As `view`, but read-only, of unsigned integers of `width` bytes that lie `strides` bytes apart."""
    dtype = np.dtype(f"u{width}")
    if 0 in shape:
        return np.empty(shape, dtype)
    return _foreign(handle, address, shape, False, dtype.str, strides)


def check_unmasked(array: object, subject: str) -> None:
    """Raises for a masked array: ONNX Runtime would read the elements that the mask hides."""
    kind = type(array)
    # numpy.ma is not imported here, since it is slow to import; and other libraries have masked arrays too.
    if kind is not np.ndarray and hasattr(kind, "mask") and hasattr(kind, "filled"):
        raise ArgumentError(f"{subject} is a masked array, and ONNX has no masks: give array.filled(value)")


def plain(array: Any, subject: str) -> np.ndarray[Any, Any]:
    """The array that numpy makes of anything but a masked array, without a copy if possible.

    Raises `DTypeError` for what numpy makes no array of.
    """
    check_unmasked(array, subject)
    try:
        return np.asarray(array)
    except (TypeError, ValueError, OverflowError) as error:
        raise DTypeError(f"{subject}: {error}") from error


def address_of(array: np.ndarray[Any, Any]) -> int:
    """The address of the array's first element."""
    return int(array.__array_interface__["data"][0])


def element_type_of(array: np.ndarray[Any, Any], subject: str) -> ElementType:
    """The array's ONNX element type."""
    try:
        return ElementType.of(array.dtype)
    except DTypeError as error:
        raise DTypeError(f"{subject}: {error}") from error


def native(array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """The array itself, or a copy if it is not contiguous, aligned and in the machine's byte order."""
    if not array.dtype.isnative:
        array = array.astype(array.dtype.newbyteorder("="))
    return array if array.flags.c_contiguous and array.flags.aligned else array.copy(order="C")


def needs_copy(array: np.ndarray[Any, Any]) -> str | None:
    """Why ONNX Runtime cannot use the array's memory without a copy, or None."""
    if not array.dtype.isnative:
        return f"is in the other byte order ({array.dtype.str})"
    if not array.flags.c_contiguous:
        return f"is not C-contiguous (strides {array.strides})"
    if not array.flags.aligned:
        return f"begins at {address_of(array):#x}, no multiple of its elements' {array.dtype.alignment} bytes"
    return None


def is_added(dtype: np.dtype[Any]) -> bool:
    """Whether a library adds the dtype to numpy's own, as ml_dtypes does bfloat16: files have no name for it."""
    return dtype.isbuiltin == 2
