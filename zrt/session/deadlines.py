"""Deadlines of runs: a `timeout` becomes the time at which C ends the run (watch.c)."""

from __future__ import annotations

import os
from _thread import RLock

from zrt._common.arguments import seconds
from zrt._native import lib
from zrt.errors import AllocationError

# A signal handler may run a session while its own thread prepares the first deadline.
_lock = RLock()
_opened = False


def end_of(timeout: float | None) -> int:
    """The time at which a run that starts now ends, for C; 0 if `timeout` is None. Raises for no number of seconds."""
    if timeout is None:
        return 0
    limit = seconds(timeout, "timeout")
    if not _opened:
        _open()
    return int(lib.zrt_watch_end_in(limit))


def _open() -> None:
    """Prepares watch.c for the first deadline of the process."""
    global _opened
    # Deferred: most processes have no deadline.
    import threading

    from zrt._native import ort_messages

    with _lock:
        words = ort_messages.RUN_TERMINATED.words.encode()
        if lib.zrt_watch_open(threading.main_thread().ident, words):
            raise AllocationError("no memory for deadlines")
        _opened = True


def _forked() -> None:
    # Another thread may have held the lock when the process forked.
    global _lock
    _lock = RLock()


os.register_at_fork(after_in_child=_forked)
