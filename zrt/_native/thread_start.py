"""Starts a thread of Python so that an interrupt comes out as itself, and a lack of threads as an error of zrt's."""

from __future__ import annotations

import sys
import threading

from zrt.errors import AllocationError


def start_thread(thread: threading.Thread) -> None:
    """Like `threading.Thread.start`, but raises `AllocationError` where the system has no thread.

    An interrupt inside `start` leaves the locks of `threading` in a wrong state, and `start` raises a ``RuntimeError``
    about them, as it does for a lack of threads. Here the interrupt itself is raised.
    """
    handled = sys.exception()
    try:
        thread.start()
    except RuntimeError as error:
        interrupt = error.__context__
        if interrupt is None or interrupt is handled or isinstance(interrupt, Exception):
            raise AllocationError(f"the system has no thread: {error}") from error
        raise interrupt from None
