"""`Settings`: how an application batches, and the limits that it keeps."""

from __future__ import annotations

from dataclasses import dataclass

from zrt._common.arguments import duration, integer
from zrt.environment.pool_options import MOST_THREADS
from zrt.errors import ArgumentError

# The seconds that a client may take until its first request begins, for a head, and between two parts of a body; and
# those in which it has to take a part of what is sent to it.
PATIENCE = 60.0


@dataclass(frozen=True, slots=True)
class Settings:
    """The settings of an application, the same for each of its models."""

    max_batch: int
    """The most rows of requests that share a run; with 1 no requests do."""
    max_wait: int
    """The microseconds that a request may wait for others to share its run."""
    lanes: int
    """The runs of a model at the same time."""
    max_queue: int
    """The most requests of a model that wait for a run."""
    max_body: int
    """The most bytes of a request's body, before and after its content coding is undone."""
    timeout: float | None
    """The seconds in which a request is answered; a request may ask for less."""
    record: str | None
    """The folder for capsules of runs that fail, or that are slow; None records no run."""
    slower_than: float | None
    """The seconds from which a run is slow; None for never."""

    def __post_init__(self) -> None:
        for name, least in (("max_batch", 1), ("max_wait", 0), ("max_queue", 1), ("max_body", 1)):
            integer(getattr(self, name), name, least)
        integer(self.lanes, "lanes", 1, MOST_THREADS)
        for name in ("timeout", "slower_than"):
            if getattr(self, name) is not None:
                duration(getattr(self, name), name)
        if self.record is None and self.slower_than is not None:
            raise ArgumentError("record: name a folder for capsules: slower_than is about them")
