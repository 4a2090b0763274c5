"""Threads that each make random operations on shared objects and on their own: every result is right, or refused.

Arguments: the operations of each thread, the CPUs of a budget or 0 for none, and a folder for a cache.
"""

import dataclasses
import random
import sys
import threading

import numpy as np

import zrt
from tests.robustness.sums import ADD, FEEDS, QUIET, SUM, lane, same, session
from tests.support import models
from tests.support.together import in_threads
from zrt.errors import ArgumentError, BusyError, ClosedError, TerminatedError

turns, cpus, folder = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
if cpus:
    zrt.Environment(cpus=cpus)
CACHED = dataclasses.replace(QUIET, cache=folder)

shared = session()
TOTAL = models.parse(
    "(float[1] x, float[1] before) => (float[1] total, float[1] y) { total = Add(x, before) y = Neg(total) }"
)
totals = zrt.Session(TOTAL, QUIET)
busy = lane(shared)
replaced = [session()]
own = threading.local()


def run():
    same(shared.run(FEEDS)[0], SUM)


def run_other_shapes():
    feed = np.full(random.randrange(1, 9), random.random(), np.float32)
    same(shared.run([feed, feed])[0], feed + feed)


def run_with_deadline():
    same(shared.run(FEEDS, timeout=60)[0], SUM)


def submit():
    same(shared.submit(FEEDS, timeout=60).result(60)[0], SUM)


def terminate():
    options = zrt.RunOptions()
    future = shared.submit(FEEDS, options=options)
    options.terminate()
    try:
        same(future.result(60)[0], SUM)
    except TerminatedError:
        pass


def run_prepared():
    if not hasattr(own, "prepared"):
        own.prepared = shared.prepare(FEEDS)
    same(own.prepared.run()[0], SUM)


def run_shared_lane():
    busy.run()
    same(busy.inputs["x"], FEEDS["x"])


def run_own_lane():
    if not hasattr(own, "lane"):
        own.lane = lane(shared)
    own.lane.run()
    same(own.lane.outputs["z"], SUM)


def run_on_given_memory():
    if not hasattr(own, "given"):
        own.memory = np.zeros(4, np.float32)
        own.given = shared.lane(inputs=FEEDS, outputs={"z": own.memory})
    own.memory[...] = 0
    own.given.run()
    same(own.memory, SUM)


def carry_state():
    if not hasattr(own, "total") or own.runs == 100:
        own.total, own.runs = totals.lane(state={"total": "before"}), 0
        own.total.inputs["x"][...] = 1
    own.total.run()
    own.runs += 1
    assert own.total.outputs["y"].item() == -own.runs


def exchange_value():
    array = np.arange(random.randrange(1, 9), dtype=np.float32)
    same(np.from_dlpack(zrt.Value.from_array(array)), array)


def record():
    with shared.record(keep=4) as recorder:
        run()
        # Runs of other threads too, and no record is half of another one.
        assert all(each.shapes.get("x") == each.shapes.get("y") for each in recorder.runs)


def run_replaced():
    same(replaced[0].run(FEEDS)[0], SUM)


def replace():
    former, replaced[0] = replaced[0], session()
    former.close()


def load_from_cache():
    with zrt.Session(ADD, CACHED) as one:
        same(one.run(FEEDS)[0], SUM)


FREQUENT = [
    run, run_other_shapes, run_with_deadline, submit, run_prepared, run_shared_lane, run_own_lane,
    run_on_given_memory, carry_state, exchange_value, run_replaced,
]  # fmt: skip
# These take a millisecond or more, or keep the others from what they do.
RARE = [terminate, record, replace, load_from_cache]
done = set()


def work():
    for _ in range(turns):
        operation = random.choice(RARE if random.random() < 0.02 else FREQUENT)
        try:
            operation()
        except (BusyError, ClosedError):
            # The lane runs in another thread, or another thread has closed the session.
            continue
        except ArgumentError as error:
            # Another thread records.
            assert operation is record, error
            continue
        done.add(operation)


in_threads(*[work] * 6)
assert done == {*FREQUENT, *RARE}, {*FREQUENT, *RARE} - done
