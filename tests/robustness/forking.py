"""Forks for scripts, with children that end in a bounded time."""

import os
import signal
import sys
import time
import traceback

import zrt


def fork(work, seconds=60, end=sys.exit):
    """Calls a function in a forked child, which ends by `end`; it must not raise, and end in that time.

    A child that forks gives its own child less time.
    """
    process = os.fork()
    if not process:
        failed = True
        try:
            work()
            failed = False
        except SystemExit:
            # The end of a child of this child.
            raise
        except BaseException:
            traceback.print_exc()
        end(int(failed))
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        ended, code = os.waitpid(process, os.WNOHANG)
        if ended:
            assert code == 0, f"the forked process ended with {code}"
            return
        time.sleep(0.005)
    # faulthandler prints the traceback.
    os.kill(process, signal.SIGABRT)
    os.waitpid(process, 0)
    raise AssertionError("the forked process hangs")


def refused(uses):
    """Each of these functions raises, as its session is the parent's."""
    for name, use in uses.items():
        try:
            use()
        except zrt.errors.ForkedError:
            continue
        raise AssertionError(f"{name}: no error")
