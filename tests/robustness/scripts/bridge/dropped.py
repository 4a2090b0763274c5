"""Sessions, feeds, options and futures are dropped in random order; each awaited result is right."""

import gc
import random
import time

import numpy as np

import zrt
from tests.robustness.loops import THREADS
from tests.robustness.prologue import session
from zrt.session import async_runs

random.seed(7)
gc.set_threshold(50)
held = []
for number in range(300):
    if number % 40 == 0:
        one = session(zrt.SessionOptions(intra_op_num_threads=THREADS))
    feeds = {"x": np.full(4, number, np.float32), "y": np.ones(4, np.float32)}
    if number % 5 == 0:
        feeds = {name: zrt.Value.from_array(feed) for name, feed in feeds.items()}
    options = zrt.RunOptions(tag=str(number)) if number % 3 == 0 else None
    future = one.submit(feeds, options=options)
    choice = random.random()
    if choice < 0.3:
        held.append((number, future))
    elif choice < 0.5:
        future.cancel()
    elif choice < 0.6:
        cycle = [future, feeds, one]
        cycle.append(cycle)
    if random.random() < 0.1:
        one.close()
        one = session(zrt.SessionOptions(intra_op_num_threads=THREADS))
    if random.random() < 0.1 and held:
        expected, asked = held.pop(random.randrange(len(held)))
        assert asked.result(60)[0].tolist() == [expected + 1.0] * 4
del one, feeds, options, future
gc.collect()
for expected, asked in held:
    assert asked.result(60)[0].tolist() == [expected + 1.0] * 4
while async_runs._under_way:
    time.sleep(0.001)
