"""`PoolOptions`: an ``OrtSessionOptions`` or ``OrtThreadingOptions``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self

from zrt._common.public import public_in
from zrt._native import status
from zrt._native.handle import Handle
from zrt._native.library import api, load_api
from zrt.memory.allocators import fetch_pairs

if TYPE_CHECKING:
    from zrt.environment.thread_factory import Crew

# ONNX Runtime hangs or ends the process when the system has no thread left, so larger numbers are refused.
MOST_THREADS = 1024


@public_in("zrt.typing")
class PoolOptions(Handle):
    """Options of ORT's that create thread pools, with the crew that makes their threads or with the pools to share.

    The methods about config entries are for an ``OrtSessionOptions``.
    """

    __slots__ = ("bound", "crew", "pools", "threads", "wish")

    bound: bool
    """Whether under a budget of CPUs runs keep to the threads of their callers: with operators of the caller's, which
    may look at their thread, and on devices, whose providers may keep something for each thread."""

    crew: Crew | None
    pools: Handle | None
    """The handle of the environment's pools, for a session that uses those."""
    threads: int
    """The threads within an operator of a session; 0: ONNX Runtime's choice."""
    wish: Any
    """The bounds of a session's memory: a `session_arena.Wish`, or None."""

    def __init__(self, reference: Any, pointer: Any, kept: tuple[object, ...] = ()) -> None:
        super().__init__(reference, pointer, kept)
        self.crew = self.pools = self.wish = None
        self.threads = 0
        self.bound = False

    def holding(self, *others: Handle) -> Self:
        """The same options, which keep these other handles alive too."""
        held = super().holding(*others)
        held.crew, held.pools, held.threads = self.crew, self.pools, self.threads
        held.bound, held.wish = self.bound, self.wish
        return held

    def add_config_entry(self, key: str, value: bytes) -> None:
        """Sets an entry, in place of an earlier one of that key."""
        status.check(api().AddSessionConfigEntry(self.pointer, key.encode(), value))

    def has_config_entry(self, key: str) -> bool:
        """Whether there is an entry of that key."""
        return bool(status.fetch(load_api().HasSessionConfigEntry, "int", self.pointer, key.encode()))

    def config_entries(self) -> dict[str, str]:
        """All entries."""
        return fetch_pairs(api().GetSessionOptionsConfigEntries, self.pointer)
