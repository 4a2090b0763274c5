"""Finds, creates and releases the environment's allocators for devices' memory."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from zrt._common.arguments import wrong_type
from zrt._native import status
from zrt._native.handle import Handle
from zrt._native.library import api
from zrt.environment import allocator_registry, provider_libraries
from zrt.environment.device_memory import DeviceMemory
from zrt.errors import ArgumentError, Error, UnsupportedError
from zrt.memory.allocators import Allocator, MemoryInfo, write_pairs
from zrt.types import AllocatorType, DeviceMemType


def find(environment: Any, memory: MemoryInfo) -> Allocator | None:
    """The allocator for a memory, None if there is none."""
    if not isinstance(memory, MemoryInfo):
        raise wrong_type("memory", "a MemoryInfo", memory)
    where = memory.handle()
    with provider_libraries.lock:
        provider_libraries.check_whole()
        pointer = _get(environment, where)
        if not pointer:
            return None
        place = allocator_registry.place_of(where.pointer)
        # ORT keeps the host's own allocator to the end of the process, unless a library brings another.
        plain = place == allocator_registry.HOST and not provider_libraries.offers(place)
        return Allocator._adopt(Handle.borrow(pointer) if plain else allocator_registry.lend(pointer, place))


def create(environment: Any, memory: MemoryInfo, options: Mapping[str, str] | None) -> Allocator:
    """Replaces the allocator for a device's memory by a new one."""
    device, kind = _device_of(memory)
    pairs = write_pairs(options, "options")
    where = memory.handle()
    subject = f"shared allocator of {memory.name!r}"
    table = api()
    with provider_libraries.freeing([allocator_registry.place_of(where.pointer)], subject):
        provider_libraries.check_whole()
        before = _get(environment, where)
        if before:
            # Where the old allocator has another name, ORT frees it but leaves it in a list that it walks later.
            there = status.fetch(table.AllocatorGetInfo, "const OrtMemoryInfo *", before)
            if MemoryInfo._read(there).name != memory.name:
                status.check(table.UnregisterAllocator(environment, there))
        made = (table.CreateSharedAllocator, "OrtAllocator", environment, device.pointer, kind)
        try:
            pointer = status.make(*made, int(AllocatorType.DEVICE), pairs.pointer)
        except Error as error:
            raise status.about(subject, error) from error
        return Allocator._adopt(allocator_registry.lend(pointer, allocator_registry.place_of(where.pointer)))


def release(environment: Any, memory: MemoryInfo) -> None:
    """Releases a device's allocator."""
    device, kind = _device_of(memory)
    where = memory.handle()
    with provider_libraries.freeing(
        [allocator_registry.place_of(where.pointer)], f"shared allocator of {memory.name!r}"
    ):
        provider_libraries.check_whole()
        try:
            status.check(api().ReleaseSharedAllocator(environment, device.pointer, kind))
        except Error as error:
            raise ArgumentError(f"memory {memory.name!r}: {error}") from error


def _get(environment: Any, where: Handle) -> Any:
    return status.make(api().GetSharedAllocator, "OrtAllocator", environment, where.pointer)


def _device_of(memory: MemoryInfo) -> tuple[Handle, DeviceMemType]:
    if memory is None:
        raise UnsupportedError("memory: this device computes in the host's memory, for which there is no allocator")
    if not isinstance(memory, MemoryInfo):
        raise wrong_type("memory", "the memory of an EpDevice", memory)
    if not isinstance(memory, DeviceMemory):
        raise UnsupportedError(
            f"memory {memory.name!r}: a device makes the allocator: give the memory or host_memory of an EpDevice"
        )
    return memory.device()
