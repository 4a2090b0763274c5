"""A receiver forks: a new thread delivers the child's lines."""

import os

from tests.support.log_queue import handler, log, received
from zrt._native import bridge

children = []


def fork(record):
    received.append(record.getMessage())
    if record.getMessage() != "fork":
        return
    child = os.fork()
    if child == 0:
        received.clear()
        log("from the child")
        os._exit(0 if bridge.flush(30) and received == ["from the child"] else 1)
    children.append(child)


handler.emit = fork
log("fork")
log("after")
assert bridge.flush(60)
assert received == ["fork", "after"]
assert os.waitstatus_to_exitcode(os.waitpid(children[0], 0)[1]) == 0
