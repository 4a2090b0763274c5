"""Forks while threads log: parent and child each get their own lines."""

import os
import threading
import time
import warnings

from tests.support.log_queue import log, received
from zrt._native import bridge

# Python itself warns of forks among threads, since 3.12.
warnings.filterwarnings("ignore", ".*multi-threaded, use of fork", DeprecationWarning)
stop = False


def forever():
    count = 0
    while not stop:
        log("parent")
        time.sleep(0.0001)
        if count % 100 == 99:
            bridge.flush(60)
        count += 1


threads = [threading.Thread(target=forever) for _ in range(3)]
for thread in threads:
    thread.start()
for _ in range(12):
    time.sleep(0.002)
    child = os.fork()
    if child == 0:
        received.clear()
        log("child")
        good = bridge.flush(30) and [record.getMessage() for record in received] == ["child"]
        os._exit(0 if good else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
stop = True
for thread in threads:
    thread.join()
assert bridge.flush(60)
assert {record.getMessage() for record in received} == {"parent"}
