"""Steps with allocators that are registered with the environment: `environment_allocators.py FUNCTION` runs one."""

from __future__ import annotations

import sys

import pytest

import zrt
from tests.support.threads import MODEL, check
from zrt import ArenaConfig, Environment, MemoryInfo, Session, SessionOptions
from zrt.errors import AllocationError, ArgumentError, DTypeError, ProviderError, UnsupportedError

SHARING = SessionOptions(use_env_allocators=True, log_severity_level="FATAL")


def sessions_share_it():
    arena = ArenaConfig(max_mem=1 << 26, arena_extend_strategy="same_as_requested")
    Environment().register_allocator(arena=arena)
    shared = [Session(MODEL, SHARING) for _ in range(2)]
    own = Session(MODEL)
    first, second = [session.allocator() for session in shared]
    assert first.stats().bytes_limit == 1 << 26
    before = second.stats()
    held = first.allocate(1 << 20)
    change = second.stats() - before
    assert (change.bytes_in_use, change.num_allocs, change.num_arena_extensions) == (held.nbytes, 1, 1)
    assert held.nbytes == 1 << 20
    assert own.allocator().stats().bytes_limit != 1 << 26
    for session in (*shared, own):
        check(session)


def limit():
    Environment().register_allocator(arena=ArenaConfig(max_mem=1 << 20))
    allocator = Session(MODEL, SHARING).allocator()
    too_large = "Available memory of 1048576 is smaller than requested bytes of 2097152"
    with pytest.raises(AllocationError, match=f"^no memory for .*{too_large}"):
        allocator.allocate(1 << 21)
    held = allocator.allocate(1 << 18)
    with pytest.raises(AllocationError, match=r"^no memory for"):
        allocator.allocate(1 << 20)
    held.close()


def replaced_and_unregistered():
    environment = Environment()
    none = "^memory 'Cpu': No allocator for this device has been registered"
    with pytest.raises(ArgumentError, match=none):
        environment.unregister_allocator()
    environment.register_allocator(arena=ArenaConfig(max_mem=1 << 25))
    first = Session(MODEL, SHARING)
    environment.register_allocator(arena=ArenaConfig(max_mem=1 << 26))
    second = Session(MODEL, SHARING)
    environment.unregister_allocator()
    with pytest.raises(ArgumentError, match=none):
        environment.unregister_allocator()
    third = Session(MODEL, SHARING)
    limits = [session.allocator().stats().bytes_limit for session in (first, second, third)]
    assert limits[:2] == [1 << 25, 1 << 26]
    assert limits[2] not in limits[:2], limits
    for session in (first, second, third):
        check(session)


def no_arena():
    Environment().register_allocator()
    session = Session(MODEL, SHARING)
    check(session)
    assert session.allocator().stats().num_allocs == 0
    held = session.allocator().allocate(100)
    held.numpy()[...] = 1


def refused():
    environment = Environment()
    for memory in (MemoryInfo.of("mine", "NPU"), MemoryInfo("Nope")):
        with pytest.raises(UnsupportedError):
            environment.register_allocator(memory)
    with pytest.raises(DTypeError):
        environment.register_allocator(5)
    with pytest.raises(DTypeError):
        environment.register_allocator(arena=5)
    with pytest.raises(DTypeError):
        environment.unregister_allocator(5)
    with pytest.raises(ArgumentError):
        environment.unregister_allocator(MemoryInfo.cuda())
    if zrt.providers.usable("CUDA"):
        with pytest.raises(ProviderError):
            environment.register_allocator(MemoryInfo.cuda())
    check(Session(MODEL))


def cuda():
    Environment().register_allocator(MemoryInfo.cuda(), ArenaConfig(max_mem=1 << 28))
    session = Session(MODEL, SessionOptions(use_env_allocators=True), ["CUDA"])
    assert session.allocator(MemoryInfo.cuda()).stats().bytes_limit == 1 << 28
    check(session)


if __name__ == "__main__":
    globals()[sys.argv[1]](*sys.argv[2:])
