"""Forks while threads submit, cancel and log: the child works, whichever locks they hold."""

import itertools
import os
import threading
import time

import zrt
from tests.robustness.forking import fork
from tests.robustness.prologue import ADD, FEEDS, SUM, same, session

stop = False
one = zrt.Session(ADD, zrt.SessionOptions(intra_op_num_threads=1, logger="x", log_severity_level="VERBOSE"))
latest = [None] * 4


def work(number):
    for turn in itertools.count():
        if stop:
            break
        if turn % 50 == 0:
            # Log lines come faster than Python takes them: without a pause the queue only grows.
            zrt.Environment.flush_log(60)
        latest[number] = future = one.submit(FEEDS)
        if number % 2:
            future.cancel()
        else:
            future.result(60)


def child():
    own = session(zrt.SessionOptions(intra_op_num_threads=1, logger="x", log_severity_level="VERBOSE"))
    same(own.submit(FEEDS).result(30)[0], SUM)
    assert zrt.Environment.flush_log(30)


workers = [threading.Thread(target=work, args=(number,)) for number in range(4)]
for worker in workers:
    worker.start()
for _ in range(10):
    time.sleep(0.005)
    fork(child, end=os._exit)
stop = True
for worker in workers:
    worker.join()
