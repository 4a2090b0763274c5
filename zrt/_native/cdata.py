"""C data for calls of the C API: strings, arrays, addresses and Python's own memory.

The result of each function owns its memory and everything that it points to, so a caller that stores it in a struct
only has to keep the result alive.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from zrt._native import ffi

NULL: Any = ffi.NULL

buffer_at = ffi.buffer
"""The memory at a pointer, as a writable Python buffer."""
from_buffer = ffi.from_buffer
"""The memory of a Python object, without a copy; it locks the object's size until `release`, or until it is freed."""
release = ffi.release
sizeof = ffi.sizeof


def strings(texts: Iterable[str | bytes]) -> Any:
    """An array of C strings, ``const char *[]``; str is encoded as UTF-8."""
    encoded = [text.encode() if isinstance(text, str) else text for text in texts]
    size = len(encoded) * sizeof("char *")
    # One block for the pointers and the strings behind them: the array owns both. It is no memoryview: CPython crashes
    # where its garbage collector clears one that cffi still exports.
    block = bytearray(size) + b"".join(text + b"\0" for text in encoded)
    array = from_buffer(f"const char *[{len(encoded)}]", block)
    address = address_of(array) + size
    for index, text in enumerate(encoded):
        array[index] = pointer_to(address, "char")
        address += len(text) + 1
    return array


def new_array(kind: str, values: Sequence[Any] | int) -> Any:
    """A C array of `values`, or of that many zeros; `kind` is the type of an element."""
    return ffi.new(f"{kind}[]", values)


def address_of(pointer: Any) -> int:
    """The address in a pointer; 0 for NULL."""
    return int(ffi.cast("uintptr_t", pointer))


def pointer_to(address: int, kind: str = "void") -> Any:
    """The pointer to a `kind` at an address, whose memory it does not own."""
    return ffi.cast(f"{kind} *", address)


def numbers(pointer: Any, count: int) -> tuple[Any, ...]:
    """The `count` numbers at a pointer, which may be NULL for none."""
    return tuple(ffi.unpack(pointer, count)) if count else ()
