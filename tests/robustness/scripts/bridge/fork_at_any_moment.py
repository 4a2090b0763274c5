"""Forks while threads submit, cancel and log: the child works, whichever locks they hold."""

from __future__ import annotations

import faulthandler
import os
import threading
import time

import zrt
from tests.robustness.prologue import ADD, FEEDS, SUM, session

stop = False
one = zrt.Session(ADD, zrt.SessionOptions(intra_op_num_threads=1, logger="x", log_severity_level="VERBOSE"))
latest = [None] * 4


def work(number):
    while not stop:
        latest[number] = future = one.submit(FEEDS)
        if number % 2:
            future.cancel()
        else:
            future.result(60)


workers = [threading.Thread(target=work, args=(number,)) for number in range(4)]
for worker in workers:
    worker.start()
for _ in range(10):
    time.sleep(0.005)
    forked = os.fork()
    if forked == 0:
        faulthandler.dump_traceback_later(60, exit=True)
        mine = session(zrt.SessionOptions(intra_op_num_threads=1, logger="x", log_severity_level="VERBOSE"))
        assert mine.submit(FEEDS).result(30)[0].tolist() == SUM.tolist()
        assert zrt.Environment.flush_log(30)
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(forked, 0)[1]) == 0
stop = True
for worker in workers:
    worker.join()
