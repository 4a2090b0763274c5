"""Repeats calls that make, use and drop objects, and prints by how many bytes the process grows in each turn."""

import gc
import json

import numpy as np

import zrt
from tests.robustness.prologue import FEEDS, QUIET, binding, lane, session
from tests.support import models
from zrt.bench.machine import resident_bytes


def fails(function):
    try:
        function()
    except zrt.Error:
        return
    raise AssertionError


def bind():
    it = binding(same)
    it.run()
    it.numpy()


def record():
    with recorded.record(10):
        recorded.run(FEEDS)
        lane(recorded).run()


same, recorded = session(), session()
one = lane(same)
left = same.lane({"x": 4, "y": 4}, outputs=zrt.LaneMemory.left())
wrong = same.lane({"x": 4, "y": 4}, {"z": 5})
dynamic = zrt.DynamicRuntime(same, max_buckets=2)
opened = zrt.Session(models.non_zero(), QUIET)
LOOPS = {
    "run": lambda count: same.run(FEEDS),
    "run of a list": lambda count: same.run([FEEDS["x"], FEEDS["y"]]),
    "run of values": lambda count: same.run({"x": zrt.Value.from_array(FEEDS["x"]), "y": FEEDS["y"]}),
    "run with options": lambda count: same.run(FEEDS, ["z"], zrt.RunOptions(tag="t")),
    "run of a new shape": lambda count: same.run({name: feed[: count % 4] for name, feed in FEEDS.items()}),
    "run whose output ORT makes": lambda count: opened.run({"x": FEEDS["x"]}),
    "prepared run": lambda count: same.prepare(FEEDS).run(),
    "lane": lambda count: lane(same).run(),
    "run of a lane": lambda count: one.run(),
    "output that is left to ORT": lambda count: (left.run(), left.outputs["z"]),
    "binding": lambda count: bind(),
    "value": lambda count: zrt.Value.from_array(FEEDS["x"]).numpy(),
    "allocated value": lambda count: zrt.Value.allocate((4,), np.float32, same.allocator()).numpy(),
    "buffer": lambda count: zrt.Buffer((4,), np.float32).array[0],
    "large buffer": lambda count: zrt.Buffer((1 << 19,), np.float32, zrt.BufferPolicy(4096)).array[0],
    "copy": lambda count: zrt.copy(FEEDS["x"], zrt.Value.allocate((4,), np.float32)),
    "dynamic lane": lambda count: dynamic.lane({"x": count % 3, "y": count % 3}).run(),
    "recorder": lambda count: record(),
    "error": lambda count: fails(lambda: same.run({"x": FEEDS["x"], "y": FEEDS["y"][:3]})),
    "error of a lane": lambda count: fails(wrong.run),
    "error of a load": lambda count: fails(lambda: zrt.Session(b"no model")),
}
# The load fails slowly.
TURNS = {"error of a load": 10_000}


def turns(loop, number):
    for count in range(number):
        LOOPS[loop](count)
    gc.collect()


def growth(loop):
    """The bytes by which the process grows in each turn."""
    number = TURNS.get(loop, 25_000)
    turns(loop, number // 10)
    before = resident_bytes()
    turns(loop, number)
    return (resident_bytes() - before) / number


print(json.dumps({loop: growth(loop) for loop in LOOPS}))
