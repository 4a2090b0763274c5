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
    """The settings of an application, which `zrt.serving.application` explains, the same for each of its models."""

    max_batch: int
    max_wait: int
    lanes: int
    max_queue: int
    max_body: int
    """The most bytes before and after the body's content coding is undone."""
    timeout: float | None
    record: str | None
    slower_than: float | None

    def __post_init__(self) -> None:
        for name, least in (("max_batch", 1), ("max_wait", 0), ("max_queue", 1), ("max_body", 1)):
            integer(getattr(self, name), name, least)
        integer(self.lanes, "lanes", 1, MOST_THREADS)
        for name in ("timeout", "slower_than"):
            if getattr(self, name) is not None:
                duration(getattr(self, name), name)
        if self.record is None and self.slower_than is not None:
            raise ArgumentError("record: name a folder for capsules: slower_than is about them")
