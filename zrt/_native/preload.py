"""Opens libonnxruntime on a thread of C while Python imports the modules of a session (preload.c).

Only time depends on it: `library` looks for the library again and reports whatever went wrong here.
"""

from __future__ import annotations

import atexit
import os
from typing import Any

from zrt._native import ffi, lib, library_files

# Microsoft's builds since 1.29 report to Microsoft which models a process loads, unless this variable is set. A process
# that is forked beside the reporting thread hangs or crashes when it exits: there is no such thread to join. ONNX
# Runtime reads the variable once, when it creates the environment.
os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")


def start() -> None:
    """Starts the thread, on the library that `library` would look at first; not where one has been opened."""
    path = first_path()
    lib.zrt_preload_start(os.fsencode(path) if path else ffi.NULL)
    # The thread must not run while the library's own handlers of the process's end do.
    atexit.register(wait)


def wait() -> None:
    """Waits until the thread has ended, if it was started."""
    lib.zrt_preload_wait()


def pass_on_log(options: Any) -> None:
    """Logs the lines that ONNX Runtime logged on the thread, as ``OrtEnvCreationOptions`` ask."""
    lib.zrt_preload_log(
        options.logging_severity_level, options.log_id, options.custom_logging_function, options.custom_logging_param
    )


def first_path() -> str | None:
    """The file that `library` looks at first, or a name for the system's loader; None for the core built into zrt."""
    named = os.environ.get("ZRT_ORT_LIBRARY")
    if named or lib.zrt_library_builtin():
        return named or None
    named = os.environ.get("ORT_DYLIB_PATH")
    if named:
        return named
    for name in library_files.DISTRIBUTIONS:
        info = library_files.metadata(name)
        file = None if info is None else library_files.library_file(info)
        if file is not None:
            return file
    return library_files.LOADER_NAMES[0]
