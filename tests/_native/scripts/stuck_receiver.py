"""30,000 lines pass while the receiver is stuck."""

import threading

from tests.support.log_queue import handler, log, received
from zrt._native import bridge

gate = threading.Event()
handler.emit = lambda record: (gate.wait(60), received.append(record))
for count in range(30_000):
    log(str(count))
assert not received
assert not bridge.flush(0.01)
gate.set()
assert bridge.flush(60)
assert len(received) == 30_000
