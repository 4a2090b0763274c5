"""Waits for forked processes, for a bounded time."""

from __future__ import annotations

import os
import signal
import time


def wait(process: int, seconds: float = 60) -> None:
    """Waits for a child, which must exit with status 0 in that time; a child that waits for its own takes less."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        ended, code = os.waitpid(process, os.WNOHANG)
        if ended:
            assert code == 0, f"the forked process ended with {code}"
            return
        time.sleep(0.005)
    os.kill(process, signal.SIGKILL)
    os.waitpid(process, 0)
    raise AssertionError("the forked process hangs")
