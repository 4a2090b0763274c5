"""Starts a thread of Python so that an interrupt comes out as itself."""

from __future__ import annotations

import sys
import threading


def start_thread(thread: threading.Thread) -> None:
    """Like `threading.Thread.start`.

    An interrupt inside `start` leaves the locks of `threading` in a wrong state, and `start` raises a ``RuntimeError``
    about them, as it does where the system has no thread. Here the interrupt itself is raised.
    """
    handled = sys.exception()
    try:
        thread.start()
    except RuntimeError as error:
        interrupt = error.__context__
        if interrupt is None or interrupt is handled or isinstance(interrupt, Exception):
            raise
        raise interrupt from None
