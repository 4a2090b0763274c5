"""The environment's shared allocators that zrt handed out, counted by the place of their memory.

ONNX Runtime frees such an allocator, whoever uses it, when another takes its place, when it is taken away, and when a
provider library with memory of that place is unregistered. Who is about to do one of these asks here first
(`zrt.environment.provider_libraries.freeing`). To be used under `zrt.environment.provider_libraries.lock`.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, TypeAlias

from zrt._native import ffi, status
from zrt._native.handle import Handle
from zrt._native.library import api

# Device type, kind of memory, vendor, device: what ORT goes by, apart from the alignment, of which nothing tells.
Place: TypeAlias = tuple[int, int, int, int]

HOST: Place = (0, 0, 0, 0)

# Nothing but the count of references is of use: each allocator that was handed out is a child.
_lent: dict[Place, Handle] = {}


def place_of(memory: Any) -> Place:
    """The place that an ``OrtMemoryInfo`` describes."""
    table = api()
    device = ffi.new("OrtMemoryInfoDeviceType *")
    table.MemoryInfoGetDeviceType(memory, device)
    number = status.fetch(table.MemoryInfoGetId, "int", memory)
    kind, vendor = table.MemoryInfoGetDeviceMemType(memory), table.MemoryInfoGetVendorId(memory)
    return int(device[0]), int(kind), int(vendor), int(number)


def lend(pointer: Any, place: Place) -> Handle:
    """A handle of an allocator that the environment owns; as long as it is there, `lent` says so."""
    if place not in _lent:
        _lent[place] = Handle.block("char")
    return Handle(Handle.block("char", [_lent[place]]).reference, pointer)


def lent(places: Iterable[Place]) -> bool:
    """Whether an allocator of one of these places, or what it allocated, is alive."""
    return any(place in _lent and _lent[place].reference.references > 1 for place in places)
