"""Deadlines of runs: a `timeout` becomes the time at which C ends the run (watch.c)."""

from __future__ import annotations

import threading

from zrt._common.arguments import seconds
from zrt._native import ffi, lib, ort_messages
from zrt.errors import AllocationError

_words = ffi.new("char[]", ort_messages.RUN_TERMINATED.words.encode())

if lib.zrt_watch_open(threading.main_thread().ident, _words):
    raise AllocationError("no memory for the fork handlers of deadlines")


def end_of(timeout: float | None) -> int:
    """The time at which a run that starts now ends, for C; 0 if `timeout` is None. Raises for no number of seconds."""
    return 0 if timeout is None else int(lib.zrt_watch_end_in(seconds(timeout, "timeout")))
