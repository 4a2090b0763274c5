"""`PoolOptions`: options of ONNX Runtime's that create thread pools."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self

from zrt._native.handle import Handle

if TYPE_CHECKING:
    from zrt.environment.thread_factory import Crew

# ONNX Runtime hangs or ends the process when the system has no thread left, so larger numbers are refused.
MOST_THREADS = 1024


class PoolOptions(Handle):
    """Options of ORT's that create thread pools, with the crew that makes their threads or with the pools to share."""

    __slots__ = ("crew", "entries", "pools")

    crew: Crew | None
    entries: dict[bytes, bool]
    """Whether ORT has a config entry of that key, where `has_entry` or `add_entry` found out."""
    pools: Handle | None
    """The handle of the environment's pools, for a session that uses those."""

    def __init__(self, reference: Any, pointer: Any, kept: tuple[object, ...] = ()) -> None:
        super().__init__(reference, pointer, kept)
        self.crew = self.pools = None
        self.entries = {}

    def holding(self, *others: Handle) -> Self:
        """The same options, which keep these other handles alive too."""
        held = super().holding(*others)
        held.crew, held.pools = self.crew, self.pools
        return held
