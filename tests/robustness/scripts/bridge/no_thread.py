"""A submit whose thread cannot be started raises AllocationError."""

import threading

import zrt
from tests.robustness.prologue import FEEDS, session


def refuse(thread):
    raise RuntimeError("can't start new thread")


start, threading.Thread.start = threading.Thread.start, refuse
try:
    session().submit(FEEDS)
except zrt.errors.AllocationError as error:
    assert "no thread" in str(error), error
else:
    raise SystemExit("a thread was started")
