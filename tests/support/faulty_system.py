"""A system in which chosen calls fail: files, memory, threads, as on a full disk or a machine without memory."""

from __future__ import annotations

import errno
import os
from pathlib import Path

from tests.support import compiler
from tests.support.faults import Faults


def build(target: Path) -> Path:
    """Compiles the library, which ``LD_PRELOAD`` must name; skips the test without a C compiler."""
    source = Path(__file__).with_suffix(".c").read_text()
    return compiler.shared_library(target, source, "-O1", "-fno-builtin", "-ldl")


# An error has one of these words: the system's own, zrt's, Python's, or ONNX Runtime's where the system refuses
# something to it.
NUMBERS = (errno.EIO, errno.ENOSPC, errno.EACCES, errno.ENOMEM, errno.EMFILE, errno.EAGAIN)
REASONS = [
    *map(os.strerror, NUMBERS),
    "no memory",
    "can't start new thread",
    "system error number",
    "Protobuf parsing failed",
    "Protobuf serialization failed",
    "Invalid fd was supplied",
    "SystemError : ",
    "ONNX Runtime could not write it",
]


class SystemFaults(Faults):
    """The faults of the library of `build`."""

    def __init__(self) -> None:
        super().__init__(None)

    def alive(self) -> dict[str, int]:
        """How many file descriptors and threads there are."""
        return {"descriptors": len(os.listdir("/proc/self/fd")), "threads": len(os.listdir("/proc/self/task"))}
