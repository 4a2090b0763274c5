"""threading.excepthook gets the exceptions of receivers, and delivery goes on."""

import threading

from tests.support.log_queue import handler, log, received
from zrt._native import bridge


def fail(record):
    received.append(record)
    raise {0: ZeroDivisionError, 1: SystemExit, 2: KeyboardInterrupt}[len(received) % 3](record.getMessage())


handler.emit = fail
hooked = []
threading.excepthook = hooked.append
for count in range(30):
    log(str(count))
assert bridge.flush(60)
assert len(received) == len(hooked) == 30
assert [str(each.exc_value) for each in hooked] == [str(count) for count in range(30)]
assert {each.thread.name for each in hooked} == {"zrt-bridge"}


def also(arguments):
    raise OSError("the hook as well")


threading.excepthook = also
log("last")
assert bridge.flush(60)
handler.emit = received.append
log("and on")
assert bridge.flush(60)
assert len(received) == 32
