"""A receiver calls flush, which cannot wait for itself."""

from tests.support.log_queue import handler, log, received
from zrt._native import bridge

handler.emit = lambda record: received.append(bridge.flush())
log("one")
assert bridge.flush(60)
assert received == [False]
