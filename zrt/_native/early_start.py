"""Opens ONNX Runtime on a thread while Python imports the modules of a session.

The first environment of a process registers all operators, which takes longer than opening the library; a later one
takes microseconds. So the thread makes an environment and releases it. Only time depends on that: a load looks for the
library again, and reports whatever went wrong here.
"""

from __future__ import annotations

import os
import threading
from contextlib import suppress

from zrt._native import ffi, lib, library, status
from zrt._native.thread_start import start_thread
from zrt.errors import Error

# The default level of `zrt.Environment`, which logs to standard error.
_WARNING = 2

# Empty until the thread is made. Of threads that start at the same time one wins.
_threads: dict[str, threading.Thread] = {}


def start() -> None:
    """Starts the thread, at the first call in a process whose library is not loaded yet."""
    if _threads or library.loaded():
        return
    # No daemon: Python ends after the thread.
    thread = threading.Thread(target=_open, name="zrt-open", daemon=False)
    if _threads.setdefault("first", thread) is thread:
        # Where the system has no thread, the load does all of the work.
        with suppress(RuntimeError):
            start_thread(thread)


def wait() -> None:
    """Waits until the thread has ended: as long as its environment is there, ONNX Runtime makes no other."""
    thread = _threads.get("first")
    if thread is not None and thread.is_alive():
        thread.join()


def _open() -> None:
    with suppress(Error):
        table, _ = library.find()
        options = ffi.new("OrtEnvCreationOptions *")
        options.version = lib.ZRT_API_VERSION
        options.logging_severity_level = _WARNING
        options.log_id = identifier = ffi.new("char[]", b"zrt")
        try:
            table.ReleaseEnv(status.make(table.CreateEnvWithOptions, "OrtEnv", options))
        finally:
            del identifier


# A child has no such thread, and would find ONNX Runtime's locks as the thread left them.
os.register_at_fork(before=wait)
