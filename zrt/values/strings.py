"""Tensors of strings: converts strings of Python and numpy, and back. One C call takes any number of them."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

import numpy as np

from zrt._common.arguments import wrong_type
from zrt._native import lib, status
from zrt._native.cdata import buffer_at, from_buffer, new_array
from zrt._native.handle import Handle
from zrt._native.library import api
from zrt.errors import AllocationError, ArgumentError, DTypeError, Error, ShapeError
from zrt.memory import arrays
from zrt.memory.allocators import default_allocator
from zrt.types import ElementType


def encode(texts: Any, subject: str) -> tuple[list[bytes], tuple[int, ...]]:
    """The UTF-8 of each string in an array, a nested list or a single `str` or `bytes`, and the shape."""
    arrays.check_unmasked(texts, subject)
    if not isinstance(texts, np.ndarray):
        try:
            # An array of objects: numpy's own string types drop NULs at the end of a string.
            texts = np.array(texts, object)
        except ValueError as error:
            raise DTypeError(f"{subject}: {error}") from error
    if texts.dtype.kind not in "OSTU":
        raise DTypeError(f"{subject}: expected strings, got {texts.dtype}")
    flat = texts.reshape(-1).tolist()
    return [_utf8(text, index, subject) for index, text in enumerate(flat)], texts.shape


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
    encoded, found = encode(texts, subject)
    wanted = found if shape is None else arrays.check_dims(shape, subject)
    if math.prod(wanted) != len(encoded):
        raise ShapeError(f"{subject}: shape {wanted} has room for {math.prod(wanted)} strings, got {len(encoded)}")
    table = api()
    dims = new_array("int64_t", wanted)
    try:
        handle = Handle.make(
            table.ReleaseValue,
            [],
            table.CreateTensorAsOrtValue,
            "OrtValue",
            default_allocator(),
            dims,
            len(wanted),
            int(ElementType.STRING),
        )
        write(handle.pointer, encoded)
    except Error as error:
        raise AllocationError(f"{subject}: {error}") from error
    return handle


def write(pointer: Any, encoded: list[bytes]) -> None:
    """Writes strings into a tensor of as many elements."""
    # A subclass of bytes may override __len__ with another length than that of its memory.
    lengths = np.fromiter(map(bytes.__len__, encoded), np.uintp, len(encoded))
    # cffi passes the address of a bytes object's own memory.
    code = lib.zrt_text_fill(api(), pointer, b"".join(encoded), from_buffer("size_t[]", lengths), len(encoded))
    if code:
        raise status.to_error(code)


def size(handle: Handle) -> int:
    """The total size of a tensor's strings in UTF-8, in bytes; the tensor is dense or sparse."""
    return int(status.fetch(api().GetStringTensorDataLength, "size_t", handle.pointer))


def read(handle: Handle, count: int) -> list[str]:
    """The `count` strings of a tensor, dense or sparse."""
    if not count:
        return []
    total = size(handle)
    text, offsets = new_array("char", total or 1), np.empty(count, np.uintp)
    places = from_buffer("size_t[]", offsets)
    status.check(api().GetStringTensorContent(handle.pointer, text, total, places, count))
    data = buffer_at(text, total)[:]
    starts = offsets.tolist()
    ends = [*starts[1:], total]
    if data.isascii():
        letters = data.decode("ascii")
        return [letters[start:end] for start, end in zip(starts, ends, strict=True)]
    # A model may output bytes that are no UTF-8.
    return [data[start:end].decode(errors="surrogateescape") for start, end in zip(starts, ends, strict=True)]


def as_array(texts: Iterable[str], shape: tuple[int, ...]) -> np.ndarray[Any, Any]:
    """Strings as a numpy array of objects."""
    array = np.empty(math.prod(shape), object)
    array[:] = list(texts)
    return array.reshape(shape)
