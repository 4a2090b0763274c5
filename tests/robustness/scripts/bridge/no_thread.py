"""A submit whose thread cannot be started raises AllocationError, and keeps no feeds."""

import gc
import threading
import weakref

import zrt
from tests.robustness.prologue import FEEDS, session


def refuse(thread):
    raise RuntimeError("can't start new thread")


start, threading.Thread.start = threading.Thread.start, refuse
feeds = {name: feed.copy() for name, feed in FEEDS.items()}
x = weakref.ref(feeds["x"])
try:
    session().submit(feeds)
except zrt.errors.AllocationError as error:
    assert "no thread" in str(error), error
else:
    raise SystemExit("a thread was started")
del feeds
gc.collect()
assert x() is None
