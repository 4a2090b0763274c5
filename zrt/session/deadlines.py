"""Deadlines of runs: a `timeout` becomes the time at which C ends the run (watch.c)."""

from __future__ import annotations

import threading

from zrt._common.arguments import seconds
from zrt._native import lib, ort_messages
from zrt.errors import AllocationError

if lib.zrt_watch_open(threading.main_thread().ident, ort_messages.RUN_TERMINATED.words.encode()):
    raise AllocationError("no memory for deadlines")


def end_of(timeout: float | None) -> int:
    """The time at which a run that starts now ends, for C; 0 if `timeout` is None. Raises for no number of seconds."""
    if timeout is None:
        return 0
    return int(lib.zrt_clock()) + int(seconds(timeout, "timeout") * 1e9)
