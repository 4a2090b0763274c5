"""Counts the environment's shared allocators that zrt handed out, by the place of their memory.

ONNX Runtime frees such an allocator, even one that is in use, when it is replaced or released, and when a provider
library with memory of that place is unregistered. Code that does one of these asks this registry first
(`zrt.environment.provider_libraries.freeing`). Use it under `zrt.environment.provider_libraries.lock`.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, TypeAlias

from zrt._native import status
from zrt._native.handle import Handle
from zrt._native.library import api

# Device type, kind of memory, vendor, device. ORT compares the alignment as well, which the C API does not return.
Place: TypeAlias = tuple[int, int, int, int]

HOST: Place = (0, 0, 0, 0)

# Only the reference counts are used: each allocator that was handed out is a child of its place's handle.
_lent: dict[Place, Handle] = {}


def place_of(memory: Any) -> Place:
    """The place that an ``OrtMemoryInfo`` describes."""
    table = api()
    device = status.fetch(table.MemoryInfoGetDeviceType, "OrtMemoryInfoDeviceType", memory)
    number = status.fetch(table.MemoryInfoGetId, "int", memory)
    kind, vendor = table.MemoryInfoGetDeviceMemType(memory), table.MemoryInfoGetVendorId(memory)
    return int(device), int(kind), int(vendor), int(number)


def lend(pointer: Any, place: Place) -> Handle:
    """A handle of an allocator that the environment owns; while the handle is alive, `lent` returns True."""
    if place not in _lent:
        _lent[place] = Handle.block("char")
    return Handle(Handle.block("char", [_lent[place]]).reference, pointer)


def lent(places: Iterable[Place]) -> bool:
    """Whether an allocator of one of these places, or an allocation of it, is alive."""
    return any(place in _lent and _lent[place].reference.references > 1 for place in places)
