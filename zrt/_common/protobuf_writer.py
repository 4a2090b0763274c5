"""Messages of protobuf, written field by field without the onnx package."""

from __future__ import annotations

import struct

# Wire types.
VARINT, FIXED64, LENGTH, FIXED32 = 0, 1, 2, 5


def varint(value: int) -> bytes:
    """The varint of an int; a negative one is written as an int64."""
    value &= 2**64 - 1
    data = bytearray()
    while value > 127:
        data.append(value & 127 | 128)
        value >>= 7
    data.append(value)
    return bytes(data)


def head(number: int, size: int) -> bytes:
    """The tag and the length of a field of `size` bytes."""
    return varint(number << 3 | LENGTH) + varint(size)


def field(number: int, content: int | float | str | bytes) -> bytes:
    """A field: an int64, a float32, a text, or the bytes of a message."""
    if isinstance(content, float):
        return varint(number << 3 | FIXED32) + struct.pack("<f", content)
    if isinstance(content, int):
        return varint(number << 3 | VARINT) + varint(content)
    data = content.encode() if isinstance(content, str) else content
    return head(number, len(data)) + data
