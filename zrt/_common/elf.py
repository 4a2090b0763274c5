"""Reads a shared library's file (ELF, 64 bits): the libraries it needs, where the loader looks for them, its length."""

from __future__ import annotations

import os
import struct
from typing import BinaryIO, NamedTuple

_LOADED, _DYNAMIC = 1, 2
# The most bytes that are read of a table of segments or a dynamic section; real ones have a few hundred.
_MOST_BYTES = 2**16
_DAMAGED = (OSError, LookupError, OverflowError, StopIteration, ValueError, struct.error)
_NEEDED, _STRINGS, _RPATH, _RUNPATH = 1, 5, 15, 29


class SharedLibrary(NamedTuple):
    """The dynamic section of a shared library: the names that it needs, and the folders of its run path."""

    needed: tuple[str, ...] = ()
    run_path: tuple[str, ...] = ()


def read(path: str) -> SharedLibrary:
    """The names and places in a file; none if it is no little-endian ELF library of 64 bits, or cannot be read."""
    try:
        with open(path, "rb") as file:
            return _read(file, os.path.dirname(os.path.realpath(path)))
    except _DAMAGED:
        return SharedLibrary()


def is_cut(path: str | bytes) -> bool:
    """Whether the file ends before its segments do. The system's loader maps them, and the process ends by SIGBUS."""
    try:
        with open(path, "rb") as file:
            length = os.fstat(file.fileno()).st_size
            return any(kind == _LOADED and offset + size > length for kind, offset, _, size in _segments(file))
    except _DAMAGED:
        return False


def _segments(file: BinaryIO) -> list[tuple[int, int, int, int]]:
    """The kind of each segment, its offset in the file, its address and its size in the file."""
    header = file.read(64)
    if header[:6] != b"\x7fELF\x02\x01":
        return []
    start = struct.unpack_from("<Q", header, 32)[0]
    size, count = struct.unpack_from("<HH", header, 54)
    file.seek(start)
    table = file.read(min(size * count, _MOST_BYTES))
    return [struct.unpack_from("<I4xQQ8xQ", table, size * index) for index in range(count)]


def _read(file: BinaryIO, origin: str) -> SharedLibrary:
    segments = _segments(file)
    dynamic = next((segment for segment in segments if segment[0] == _DYNAMIC), None)
    if dynamic is None:
        return SharedLibrary()
    file.seek(dynamic[1])
    entries = list(struct.iter_unpack("<QQ", file.read(min(dynamic[3], _MOST_BYTES) // 16 * 16)))
    address = dict(entries)[_STRINGS]
    strings = next(
        offset + address - base
        for kind, offset, base, length in segments
        if kind == _LOADED and base <= address < base + length
    )

    def text(offset: int) -> str:
        file.seek(strings + offset)
        return file.read(4096).split(b"\0", 1)[0].decode(errors="surrogateescape")

    def folder(place: str) -> str:
        absolute = place.replace("${ORIGIN}", origin).replace("$ORIGIN", origin)
        # A link that the library names is kept; the origin has none.
        return absolute if absolute == place else os.path.realpath(absolute)

    paths = ":".join(text(value) for tag, value in entries if tag in (_RPATH, _RUNPATH))
    needed = tuple(text(value) for tag, value in entries if tag == _NEEDED)
    return SharedLibrary(needed, tuple(folder(place) for place in paths.split(":") if place))
