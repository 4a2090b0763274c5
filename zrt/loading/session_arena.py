"""Sessions with bounded memory: an arena of their own, which has a limit and returns what it does not use."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import numpy as np

from zrt._common.arguments import byte_count
from zrt._common.config_keys import SessionConfigKey
from zrt._common.one_node import one_node, tensor_type
from zrt._native import lib, status
from zrt._native.cdata import strings
from zrt._native.handle import Handle
from zrt._native.library import api
from zrt._native.session_handle import SessionHandle
from zrt.environment import shared_allocators
from zrt.environment.environment import current
from zrt.environment.pool_options import PoolOptions
from zrt.errors import AllocationError, MemoryLimitError, UnsupportedError
from zrt.loading.run_options import RunOptions
from zrt.loading.session_options import SessionOptions
from zrt.memory.allocators import CPU, Allocator
from zrt.memory.arena import ArenaConfig
from zrt.types import ElementType
from zrt.values.value import Value

# The arena's regions double from this size, which results that a caller holds can keep from going back.
FIRST_REGION = 16 << 20
# The first region, and the most that a block of the arena wastes.
SMALL = 1 << 18
# The largest first region: ORT's size of it is an int.
LARGEST_REGION = 2**31 - 256


class Wish(NamedTuple):
    """How a session's memory is bounded."""

    bounded: bool
    """Whether the arena returns what it does not use."""
    limit: int | None
    """The most bytes of the arena."""


def wish_of(options: SessionOptions, by_policy: bool) -> Wish | None:
    """The bounds for a session of these options, its own and those of the environment; None if there are none.

    The environment's are no bounds of sessions with other allocators, and of those whose devices a policy chooses.
    """
    own = options.memory is not None or options.memory_limit is not None
    if by_policy and own:
        raise UnsupportedError("memory, memory_limit: a session whose devices a policy chooses has no arena of its own")
    if by_policy or options._other_allocators():
        return None
    environment = current()
    memory = options.memory or environment.memory
    limit = (
        environment.memory_limit if options.memory_limit is None else byte_count(options.memory_limit, "memory_limit")
    )
    return None if memory is None and limit is None else Wish(memory is not None, limit)


@contextmanager
def arena_for(options: PoolOptions) -> Iterator[Handle]:
    """The ``zrt_arena`` of the one session that its block loads with `options`.

    ONNX Runtime takes a configured arena from the environment only: it is registered for the time of the load.
    """
    wish: Wish = options.wish
    region = FIRST_REGION if wish.limit is None else min(max(wish.limit & -256, 256), LARGEST_REGION)
    config = ArenaConfig(
        max_mem=wish.limit,
        arena_extend_strategy="next_power_of_two",
        initial_chunk_size_bytes=SMALL,
        max_dead_bytes_per_chunk=SMALL,
        initial_growth_chunk_size_bytes=region,
    )
    own = SessionOptions(use_env_allocators=True, intra_op_num_threads=1, inter_op_num_threads=1).handle()
    options.add_config_entry(SessionConfigKey.USE_ENV_ALLOCATORS, b"1")
    status.check(api().DisableMemPattern(options.pointer))
    with shared_allocators.lent_to_load(current().pointer, config) as libraries:
        arena = _with_shrinker(own, libraries, wish)
        yield arena
    # A region that the load took may be larger than those that runs need.
    status.check(lib.zrt_arena_shrink(arena.pointer))
    arena.pointer.base = arena.pointer.held


def check_load(arena: Handle, wish: Wish) -> None:
    """Raises if the load has taken more than the limit: memory that ORT reserves for weights is not refused."""
    held = Allocator._adopt(Handle.borrow(arena.pointer.allocator)).stats().total_allocated_bytes
    if wish.limit is not None and held > wish.limit:
        raise MemoryLimitError(f"memory_limit: the load took {held:,} bytes, and the limit is {wish.limit:,}")


def _with_shrinker(options: Handle, libraries: Handle, wish: Wish) -> Handle:
    """A ``zrt_arena`` over the environment's arena of the host."""
    kind = tensor_type(int(ElementType.FLOAT), [1])
    model = one_node("Identity", "", 13, [kind], [kind], [])
    create = (api().CreateSessionFromArray, "OrtSession", current().pointer, model, len(model), options.pointer)
    session = SessionHandle.make(api().ReleaseSession, [options, libraries], *create)
    allocator = Allocator._of(session)
    try:
        # The arena never returns its first region: this one, which is small.
        allocator.allocate(1).close()
    except AllocationError as error:
        if wish.limit is None:
            raise
        raise MemoryLimitError(f"memory_limit: {wish.limit} bytes are too few for any load ({error})") from error
    runs = RunOptions(shrink_arenas=[CPU])._open()
    values = [Value.from_array(np.zeros(1, np.float32))._open() for _ in range(2)]
    names = strings(["input 0"]), strings(["output 0"])
    lender = allocator._open()
    block = Handle.block("zrt_arena", [session, lender, runs, *values, Handle.pin(names)])
    arena: Any = block.pointer
    arena.api = session.table.pointer
    arena.shrinker, arena.shrinking, arena.allocator = session.pointer, runs.pointer, lender.pointer
    arena.input_names, arena.output_names = names
    arena.input, arena.output = (value.pointer for value in values)
    return block
