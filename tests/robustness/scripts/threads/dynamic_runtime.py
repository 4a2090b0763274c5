"""Threads run, warm, remove and clear the buckets of one DynamicRuntime, then close it."""

from __future__ import annotations

import zrt
from tests.robustness.prologue import FEEDS, SUM, same, session
from tests.robustness.race import race

dynamic = zrt.DynamicRuntime(session(), 2, max_buckets=3)


def run(turn):
    size = turn % 5 + 1
    mine = dynamic.lane({"x": size, "y": size}, turn % 2)
    mine.run()
    assert mine.outputs["z"].shape == (size,)


def warm(turn):
    dynamic.warm([{"x": size, "y": size} for size in (1, 2, 3)])


def remove(turn):
    dynamic.remove({"x": 1, "y": 1})
    dynamic.clear()


def look(turn):
    for bucket in dynamic.buckets:
        assert len(bucket.lanes) == 2
    len(dynamic), dynamic.closed, dynamic.counters.hits


counts = race(run, run, run, warm, remove, look, turns=400)
assert sum(counts) > 0
assert len(dynamic) <= 3
made = dynamic.lane({"x": 4, "y": 4})
made.inputs["x"][...], made.inputs["y"][...] = FEEDS["x"], FEEDS["y"]
made.run()
same(made.outputs["z"], SUM)


def close(turn):
    dynamic.close()


race(run, close, turns=50, errors=(zrt.errors.BusyError, zrt.errors.ClosedError))
made.run()
