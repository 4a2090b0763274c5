"""Starting a thread of Python's so that an interrupt stays one."""

from __future__ import annotations

import sys
import threading


def start_thread(thread: threading.Thread) -> None:
    """`threading.Thread.start`; raises what that raises.

    An interrupt between `threading`'s own steps leaves its locks in disorder, and what comes out is the
    ``RuntimeError`` about them, as where the system has no thread.
    """
    handled = sys.exception()
    try:
        thread.start()
    except RuntimeError as error:
        interrupt = error.__context__
        if interrupt is None or interrupt is handled or isinstance(interrupt, Exception):
            raise
        raise interrupt from None
