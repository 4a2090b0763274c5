"""Ctrl-C at any moment of `submit`, and with the second argument "results" of `result` too.

The runs that were started end, each future that was returned completes, and later runs are right.
"""

import concurrent.futures
import random
import signal
import sys
import time

import zrt
from tests.robustness.loops import THREADS
from tests.robustness.prologue import FEEDS, SUM, session
from zrt.session import async_runs

armed = False
waits = sys.argv[2:] == ["results"]
rounds = 400 if waits else 200


# A function, because Python 3.14 does not catch an interrupt that comes while an `if` at the end of a loop jumps back.
def wait(future: concurrent.futures.Future) -> None:
    if waits:
        future.result(60)


def interrupt(*_):
    if armed:
        raise KeyboardInterrupt


signal.signal(signal.SIGALRM, interrupt)
one = session(zrt.SessionOptions(intra_op_num_threads=THREADS))
interrupted = 0
for _ in range(rounds):
    future = None
    try:
        armed = True
        signal.setitimer(signal.ITIMER_REAL, random.random() * 1e-3 + 1e-6)
        for _ in range(100):
            future = one.submit(FEEDS)
            wait(future)
        armed = False
    except KeyboardInterrupt:
        armed = False
        interrupted += 1
        if future is not None:
            assert concurrent.futures.wait([future], 30).done, future
assert interrupted > rounds / 4, interrupted
end = time.monotonic() + 30
while async_runs._under_way:
    assert time.monotonic() < end, async_runs._under_way
    time.sleep(0.001)
assert one.submit(FEEDS).result(60)[0].tolist() == SUM.tolist()
