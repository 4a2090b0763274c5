"""The environment's allocators: registers, finds, creates and releases them."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from typing import Any

from zrt._common.arguments import require_type, text
from zrt._native import status
from zrt._native.cdata import NULL
from zrt._native.handle import Handle
from zrt._native.library import api
from zrt.environment import provider_libraries
from zrt.environment.devices import DeviceMemory
from zrt.environment.provider_libraries import HOST, lend, place_of
from zrt.errors import ArgumentError, BusyError, ProviderError, UnsupportedError
from zrt.memory.allocators import CPU, Allocator, MemoryInfo, write_pairs
from zrt.memory.arena import ArenaConfig
from zrt.types import AllocatorType, DeviceMemType

# Whether a user has registered an allocator of the host, and whether a load has one. Guarded by the lock of `freeing`.
_host_registered = False
_lent_to_load = False


def register(environment: Any, memory: MemoryInfo, arena: ArenaConfig | None) -> None:
    """See `Environment.register_allocator`."""
    global _host_registered
    _require_memory(memory)
    require_type(arena, ArenaConfig | None, "arena", "an ArenaConfig")
    provider = _provider_of(memory)
    config = (arena or ArenaConfig()).handle()
    info = (memory if arena is None else replace(memory, allocator_type=AllocatorType.ARENA)).handle()
    function = api().CreateAndRegisterAllocatorV2
    with _freeing(info, f"memory {memory.name!r}"):
        status.check(function(environment, provider, info.pointer, config.pointer, NULL, NULL, 0))
        _host_registered = _host_registered or place_of(info.pointer) == HOST


@contextmanager
def lent_to_load(environment: Any, arena: ArenaConfig) -> Iterator[Handle]:
    """Registers an arena of the host for the one load in the block; a session that has it keeps it.

    Loads that read the environment's allocators wait meanwhile. Yields a handle for the session to keep: ONNX Runtime
    gives it the allocators of registered libraries too.
    """
    global _lent_to_load
    memory = replace(CPU, allocator_type=AllocatorType.ARENA).handle()
    config = arena.handle()
    function = api().CreateAndRegisterAllocatorV2
    with _freeing(memory, "memory, memory_limit", wait=True):
        if _host_registered:
            raise ArgumentError(
                "memory, memory_limit: the environment has a registered allocator of the host, which the arena of this "
                "session would replace; unregister it, or load the session with use_env_allocators=True"
            )
        if _lent_to_load:
            raise BusyError("memory, memory_limit: the load of such a session has called this one")
        libraries = provider_libraries.hold_all()
        _lent_to_load = True
        try:
            status.check(function(environment, b"CPUExecutionProvider", memory.pointer, config.pointer, NULL, NULL, 0))
            yield libraries
        finally:
            _lent_to_load = False
            # It fails only where the registration failed.
            status.dismiss(api().UnregisterAllocator(environment, memory.pointer))


def _provider_of(memory: MemoryInfo) -> bytes:
    """The provider that creates allocators for a memory: in ONNX Runtime 1.27 only the CPU's and CUDA's do."""
    text(memory.name, "MemoryInfo.name")
    if memory.name in ("Cpu", "CpuAligned4K"):
        return b"CPUExecutionProvider"
    if memory.name in ("Cuda", "CudaPinned"):
        # An import that goes up: docs/architecture.md lists it.
        from zrt.providers import usable

        # Without CUDA, ORT throws a C++ exception through its C API, which ends the process.
        reason = usable("CUDA")
        if reason is None:
            return b"CUDAExecutionProvider"
        raise ProviderError(f"memory {memory.name!r}: {reason}")
    raise UnsupportedError(f"memory {memory.name!r}: ONNX Runtime registers allocators of the host and of CUDA")


def unregister(environment: Any, memory: MemoryInfo) -> None:
    """See `Environment.unregister_allocator`."""
    global _host_registered
    _require_memory(memory)
    info = memory.handle()
    with _freeing(info, f"memory {memory.name!r}"):
        with status.named(f"memory {memory.name!r}", ArgumentError):
            status.check(api().UnregisterAllocator(environment, info.pointer))
        _host_registered = _host_registered and place_of(info.pointer) != HOST


def find(environment: Any, memory: MemoryInfo) -> Allocator | None:
    """See `Environment.shared_allocator`."""
    _require_memory(memory)
    info = memory.handle()
    with provider_libraries.lock:
        provider_libraries.check_whole()
        pointer = _get(environment, info)
        if not pointer:
            return None
        place = place_of(info.pointer)
        # ORT keeps the host's own allocator to the end of the process, unless a library brings another.
        permanent = place == HOST and not provider_libraries.offers(place)
        return Allocator._adopt(Handle.borrow(pointer) if permanent else lend(pointer, place))


def create(environment: Any, memory: MemoryInfo, options: Mapping[str, str] | None) -> Allocator:
    """See `Environment.create_shared_allocator`."""
    device, kind = _device_of(memory)
    pairs = write_pairs(options, "options")
    info = memory.handle()
    subject = f"shared allocator of {memory.name!r}"
    table = api()
    with _freeing(info, subject):
        provider_libraries.check_whole()
        before = _get(environment, info)
        if before:
            # Where the old allocator has another name, ORT frees it but leaves it in a list that it walks later.
            info_before = status.fetch(table.AllocatorGetInfo, "const OrtMemoryInfo *", before)
            if MemoryInfo._read(info_before).name != memory.name:
                status.check(table.UnregisterAllocator(environment, info_before))
        function = table.CreateSharedAllocator
        arguments = (environment, device.pointer, kind, int(AllocatorType.DEVICE), pairs.pointer)
        with status.named(subject):
            pointer = status.make(function, "OrtAllocator", *arguments)
        return Allocator._adopt(lend(pointer, place_of(info.pointer)))


def release(environment: Any, memory: MemoryInfo) -> None:
    """See `Environment.release_shared_allocator`."""
    device, kind = _device_of(memory)
    with _freeing(memory.handle(), f"shared allocator of {memory.name!r}"):
        provider_libraries.check_whole()
        with status.named(f"memory {memory.name!r}", ArgumentError):
            status.check(api().ReleaseSharedAllocator(environment, device.pointer, kind))


def _freeing(memory: Handle, subject: str, wait: bool = False) -> AbstractContextManager[None]:
    """Lets its block free the environment's allocator of this memory, which is the subject of a `BusyError`."""
    return provider_libraries.freeing([place_of(memory.pointer)], subject, wait)


def _get(environment: Any, info: Handle) -> Any:
    return status.make(api().GetSharedAllocator, "OrtAllocator", environment, info.pointer)


def _require_memory(memory: Any) -> None:
    require_type(memory, MemoryInfo, "memory", "a MemoryInfo")


def _device_of(memory: MemoryInfo) -> tuple[Handle, DeviceMemType]:
    if memory is None:
        raise UnsupportedError("memory: this device computes in the host's memory, for which there is no allocator")
    _require_memory(memory)
    if not isinstance(memory, DeviceMemory):
        raise UnsupportedError(
            f"memory {memory.name!r}: a device makes the allocator: give the memory or host_memory of an EpDevice"
        )
    return memory.device()


def _forked() -> None:
    # Another thread's load does not go on here.
    global _lent_to_load
    _lent_to_load = False


os.register_at_fork(after_in_child=_forked)
