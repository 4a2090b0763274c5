"""`ArenaConfig`: how an arena takes memory from the system."""

from __future__ import annotations

from dataclasses import dataclass

from zrt._common.arguments import boolean, choose, integer
from zrt._common.public import public
from zrt._native.cdata import strings
from zrt._native.handle import Handle
from zrt._native.library import api
from zrt.errors import ArgumentError
from zrt.memory.allocators import MOST_BYTES
from zrt.types import ArenaExtendStrategy


@public
@dataclass(frozen=True, slots=True, kw_only=True)
class ArenaConfig:
    """How an arena takes memory from the system, in bytes (``OrtArenaCfg``).

    `None` leaves a field at ONNX Runtime's default, in parentheses below. The last three fields are for CUDA only.
    """

    max_mem: int | None = None
    """The limit of the arena (none)."""
    arena_extend_strategy: ArenaExtendStrategy | str | None = None
    """NEXT_POWER_OF_TWO: each step doubles (the default); SAME_AS_REQUESTED: each step is as large as the request."""
    initial_chunk_size_bytes: int | None = None
    """The first step (1 MiB)."""
    max_dead_bytes_per_chunk: int | None = None
    """The arena splits a block if more bytes than these would stay unused (128 MiB)."""
    initial_growth_chunk_size_bytes: int | None = None
    """The first step after the arena shrank (2 MiB), a multiple of 256."""
    max_power_of_two_extend_bytes: int | None = None
    """The largest step that doubling reaches (1 GiB), a multiple of 256."""
    use_cuda_mempool: bool | None = None
    """Whether CUDA's own memory pools replace the arena."""
    cuda_mempool_release_threshold: int | None = None
    """The bytes that CUDA's pool keeps before it releases memory."""
    cuda_mempool_bytes_to_keep_on_shrink: int | None = None
    """The bytes that CUDA's pool keeps when it shrinks."""

    def handle(self) -> Handle:
        """A new ``OrtArenaCfg`` of these settings. The error for an invalid field names it."""
        # ORT doubles a step of 0 forever, fails for steps that are no multiples of 256, and crashes for 0 dead bytes.
        limits = {
            "max_mem": (1, MOST_BYTES, 1),
            "initial_chunk_size_bytes": (1, 2**31 - 1, 1),
            "max_dead_bytes_per_chunk": (1, 2**31 - 1, 1),
            "initial_growth_chunk_size_bytes": (256, 2**31 - 1, 256),
            "max_power_of_two_extend_bytes": (256, MOST_BYTES, 256),
            "cuda_mempool_release_threshold": (0, MOST_BYTES, 1),
            "cuda_mempool_bytes_to_keep_on_shrink": (0, MOST_BYTES, 1),
        }
        settings: dict[str, int] = {}
        for name, (low, high, step) in limits.items():
            value = getattr(self, name)
            if value is None:
                continue
            settings[name] = integer(value, name, low, high)
            if value % step:
                raise ArgumentError(f"{name}: {value} is not a multiple of {step}")
        if self.arena_extend_strategy is not None:
            strategy = choose(ArenaExtendStrategy, self.arena_extend_strategy, "arena_extend_strategy")
            settings["arena_extend_strategy"] = int(strategy)
        if self.use_cuda_mempool is not None:
            settings["use_cuda_mempool"] = int(boolean(self.use_cuda_mempool, "use_cuda_mempool"))
        table = api()
        keys, values = strings(settings), list(settings.values())
        return Handle.make(table.ReleaseArenaCfg, [], table.CreateArenaCfgV2, "OrtArenaCfg", keys, values, len(values))
