"""Runs with timeouts before a fork, in its child, and in its parent afterwards."""

from __future__ import annotations

import os
import signal
import sys
import threading
import time

import numpy as np

import zrt
from tests.support import models

QUIET = zrt.SessionOptions(intra_op_num_threads=1, log_severity_level="FATAL")
model = models.counting_loop()
feeds = {"turns": np.array(2**40), "start": np.zeros(2, np.float32)}
counting = zrt.Session(model, QUIET)


def use(session):
    for run in (session.run, lambda *given, **limits: session.submit(*given, **limits).result()):
        try:
            run(feeds, timeout=0.05)
        except zrt.errors.TimeoutError:
            print("timeout")
    sender = threading.Timer(0.1, os.kill, (os.getpid(), signal.SIGINT))
    sender.start()
    try:
        session.run(feeds, timeout=100)
    except KeyboardInterrupt:
        print("interrupted")
    sender.join()


signal.signal(signal.SIGINT, signal.default_int_handler)
use(counting)
# Deadlines of other threads are under way at the fork, and those of the child's main thread are not theirs.
stop = zrt.RunOptions(log_severity_level="FATAL")
others = [counting.submit(feeds, options=stop, timeout=100) for _ in range(2)]
time.sleep(0.05)
sys.stdout.flush()
child = os.fork()
if child == 0:
    with zrt.Session(model, QUIET) as own:
        use(own)
    sys.stdout.flush()
    os._exit(0)
assert os.waitpid(child, 0)[1] == 0
stop.terminate()
for future in others:
    assert isinstance(future.exception(60), zrt.errors.TerminatedError)
try:
    counting.run(feeds, timeout=0.05)
except zrt.errors.TimeoutError:
    print("timeout")
