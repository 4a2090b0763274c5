"""`Settings`: how an application batches, and the limits that it keeps."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from zrt._common.arguments import integer, seconds
from zrt.environment.pool_options import MOST_THREADS
from zrt.errors import ArgumentError

MAX_BATCH = 32
MAX_WAIT = 0
LANES = 2
MAX_QUEUE = 256
MAX_BODY = 64 << 20
COMPRESS_FROM = 1024


@dataclass(frozen=True, slots=True)
class Settings:
    """The settings of an application, the same for each of its models."""

    max_batch: int = MAX_BATCH
    """The most rows of requests that share a run."""
    max_wait: int = MAX_WAIT
    """The microseconds that a request may wait for others to share its run."""
    lanes: int = LANES
    """The runs of a model at the same time."""
    max_queue: int = MAX_QUEUE
    """The most requests of a model that wait for a run."""
    max_body: int = MAX_BODY
    """The most bytes of a request's body, before and after its content coding is undone."""
    timeout: float | None = None
    """The seconds in which a request is answered; a request may ask for less."""

    @classmethod
    def checked(cls, **given: Any) -> Settings:
        """The settings with these values; raises for a wrong one."""
        for name, low in (("max_batch", 1), ("max_wait", 0), ("max_queue", 1), ("max_body", 1)):
            integer(given[name], name, low)
        integer(given["lanes"], "lanes", 1, MOST_THREADS)
        if given["timeout"] is not None and not seconds(given["timeout"], "timeout"):
            raise ArgumentError("timeout: 0 seconds are too short for any request; None means no limit")
        return cls(**given)
