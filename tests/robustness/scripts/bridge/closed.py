"""Lanes, runs, tasks and futures in threads, while their session is closed and replaced."""

import asyncio
import threading
import time

import numpy as np

import tests.robustness.prologue  # noqa: F401
import zrt
from tests.robustness.loops import looping

current = [looping()]
ends = {"right": 0, "closed": 0}
stop = time.monotonic() + 1
few = {"n": np.array(3), "x": np.ones(4, np.float32)}


def by_lane(one):
    with one.lane({"n": (), "x": 4}) as lane:
        for name, feed in few.items():
            lane.inputs[name][...] = feed
        lane.run()
        return lane.outputs["y"].copy()


async def by_tasks(one):
    return (await asyncio.gather(*(one.run_async(few) for _ in range(5))))[-1][0]


ways = [
    by_lane,
    lambda one: one.run(few)[0],
    lambda one: one.submit(few).result(60)[0],
    lambda one: asyncio.run(by_tasks(one)),
]


def going():
    return time.monotonic() < stop or ends["right"] <= 20


def work(way):
    while going():
        try:
            assert way(current[0]).tolist() == [8.0] * 4
            ends["right"] += 1
        except zrt.errors.ClosedError:
            ends["closed"] += 1


workers = [threading.Thread(target=work, args=(way,)) for way in ways]
for worker in workers:
    worker.start()
while going():
    time.sleep(0.01)
    old, current[0] = current[0], looping()
    old.close()
for worker in workers:
    worker.join(60)
assert not any(worker.is_alive() for worker in workers)
