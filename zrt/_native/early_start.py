"""Opens ONNX Runtime on a thread while Python imports the modules of a session.

The first environment of a process registers all operators, which takes longer than opening the library; a later one
takes microseconds. So the thread makes an environment and releases it. It does all that in one call of C: between two
calls a thread can wait for the interpreter for longer than the calls take. Only time depends on it: a load looks for
the library again, and reports whatever went wrong here.
"""

from __future__ import annotations

import os
import threading
from contextlib import suppress

from zrt._native import ffi, lib, library
from zrt._native.thread_start import start_thread
from zrt.errors import AllocationError

# Empty until the thread is made. Of threads that start at the same time one wins.
_threads: dict[str, threading.Thread] = {}


def start() -> None:
    """Starts the thread, at the first call in a process whose library is not loaded yet."""
    if _threads or library.loaded():
        return
    path = library.first_path()
    try:
        file = ffi.NULL if path is None else ffi.new("char[]", os.fsencode(library.for_loader(path)))
    except library.UnusableError:
        # The load says so.
        return
    # No daemon: Python ends after the thread.
    thread = threading.Thread(target=lib.zrt_library_start, args=(file,), name="zrt-open", daemon=False)
    if _threads.setdefault("first", thread) is thread:
        # Where the system has no thread, the load does all of the work.
        with suppress(AllocationError):
            start_thread(thread)


def wait() -> None:
    """Waits until the thread has ended: as long as its environment is there, ONNX Runtime makes no other."""
    thread = _threads.get("first")
    if thread is not None and thread.is_alive():
        thread.join()


# A child has no such thread, and would find ONNX Runtime's locks as the thread left them.
os.register_at_fork(before=wait)
