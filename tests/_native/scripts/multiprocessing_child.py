"""A child of multiprocessing delivers its lines before it ends; argv[1] says whether the parent used zrt before."""

import multiprocessing
import os
import sys
import time

from tests.support.log_queue import handler, log, logger
from zrt._native import bridge
from zrt.environment import log_sink


def slow(record):
    time.sleep(0.001)
    os.write(1, b"heard\n")


handler.emit = slow


def work():
    log_sink.sink(logger)
    for _ in range(100):
        log("in the child")


if sys.argv[1] == "False":
    # As in a process whose first use of zrt is in the child.
    bridge._thread = None
child = multiprocessing.get_context("fork").Process(target=work)
child.start()
child.join()
assert child.exitcode == 0
