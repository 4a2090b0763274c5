"""A session is closed and dropped while eight threads run it: the runs that have begun finish."""

from __future__ import annotations

import gc
import threading
import time

import numpy as np

import zrt
from tests.robustness.prologue import QUIET, same
from tests.support import models

whole = []
for _ in range(10):
    one = zrt.Session(models.counting_loop(), QUIET)
    feeds = {"turns": np.array(30_000), "start": np.zeros(2, np.float32)}
    barrier = threading.Barrier(9)

    def run(one):
        barrier.wait()
        try:
            whole.append(one.run(feeds)[0])
        except zrt.errors.ClosedError:
            # The session was closed before this run began.
            pass

    threads = [threading.Thread(target=run, args=(one,)) for _ in range(8)]
    for thread in threads:
        thread.start()
    barrier.wait()
    time.sleep(0.005)
    one.close()
    del one
    gc.collect()
    for thread in threads:
        thread.join()
assert whole
for result in whole:
    same(result, [30_000, 30_000])
