"""Tensors of strings: converts strings of Python and numpy, and back. One C call (text.c) takes any number of them."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from zrt._common.arguments import wrong_type
from zrt._native import lib, status
from zrt._native.handle import Handle
from zrt._native.library import api
from zrt.errors import AllocationError, ArgumentError, DTypeError, Error, ShapeError
from zrt.memory import arrays
from zrt.memory.allocators import default_allocator
from zrt.types import ElementType, as_shape, new_tensor


def array_of(texts: Any, subject: str) -> np.ndarray[Any, Any]:
    """The array of objects or of numpy's strings for an array, a nested list or a single `str` or `bytes`."""
    arrays.check_unmasked(texts, subject)
    if not isinstance(texts, np.ndarray):
        try:
            # An array of objects: numpy's own string types drop NULs at the end of a string.
            texts = np.array(texts, object)
        except ValueError as error:
            raise DTypeError(f"{subject}: {error}") from error
    if texts.dtype.kind not in "OSTU":
        raise DTypeError(f"{subject}: expected strings, got {texts.dtype}")
    # Only numpy reads its strings of variable width.
    return np.asarray(texts if texts.dtype.kind != "T" else texts.astype(object))


def encode(array: np.ndarray[Any, Any], subject: str) -> list[bytes]:
    """The UTF-8 of each string in an array; raises for the first element that has none."""
    return [_utf8(text, index, subject) for index, text in enumerate(array.reshape(-1).tolist())]


def _utf8(text: Any, index: int, subject: str) -> bytes:
    try:
        if isinstance(text, str):
            return str.encode(text)
        if isinstance(text, bytes):
            bytes.decode(text)
            return text
    except (UnicodeEncodeError, UnicodeDecodeError) as error:
        raise ArgumentError(f"{subject}: string {index}, {text!r:.80}, is no UTF-8: {error.reason}") from None
    raise wrong_type(f"{subject}: element {index}", "a str or bytes", text)


def tensor(texts: Any, shape: Any, subject: str) -> Handle:
    """A new tensor of strings; None as `shape` means the shape of `texts`."""
    array = array_of(texts, subject)
    wanted = array.shape if shape is None else as_shape(shape, subject)
    if math.prod(wanted) != array.size:
        raise ShapeError(f"{subject}: shape {wanted} is that of {math.prod(wanted)} strings, got {array.size}")
    try:
        handle = new_tensor(api().CreateTensorAsOrtValue, (default_allocator(),), wanted, ElementType.STRING)
    except Error as error:
        raise AllocationError(f"{subject}: {error}") from error
    write(handle.pointer, array, subject)
    return handle


def write(pointer: Any, array: np.ndarray[Any, Any], subject: str) -> None:
    """Writes an array that `array_of` returned into a tensor of as many strings."""
    ready = arrays.native(array)
    code = lib.zrt_text_write(api(), pointer, id(ready))
    if code == status.NO_TEXT:
        # It raises for the culprit, unless another thread has replaced that.
        encode(array, subject)
        raise ArgumentError(f"{subject}: the array changed while its strings were read")
    if code == status.NO_MEMORY:
        raise AllocationError(f"{subject}: no memory for the strings")
    if code:
        raise status.about(subject, status.to_error(code))


def size(handle: Handle) -> int:
    """The total size of a tensor's strings in UTF-8, in bytes; the tensor is dense or sparse."""
    return int(status.fetch(api().GetStringTensorDataLength, "size_t", handle.pointer))


def blank(shape: tuple[int, ...]) -> np.ndarray[Any, Any]:
    """A new array for strings, all None; `ShapeError` where numpy has no such array."""
    try:
        return np.empty(shape, object)
    except ValueError as error:
        raise ShapeError(f"shape {list(shape)}: numpy has no such array: {error}") from error


def read(handle: Handle, shape: tuple[int, ...]) -> np.ndarray[Any, Any]:
    """The strings of a tensor, dense or sparse, as a new array of objects.

    A model may output bytes that are no UTF-8: they become surrogate escapes. Raises `ShapeError` where numpy has no
    such array.
    """
    texts = blank(shape)
    code = lib.zrt_text_read(api(), handle.pointer, id(texts))
    if code == status.NO_TEXT:
        raise AllocationError("no memory for the strings of a tensor")
    status.check(code)
    return texts
