"""One of every object that can be held, and a check of each; for the scripts of these tests."""

from __future__ import annotations

import threading

import numpy as np

import zrt
from tests.robustness.prologue import FEEDS, SUM, binding, lane, same, session
from tests.support import models


def objects():
    """One of every object that can be held, by name."""
    owner = session()
    array = FEEDS["x"].copy()
    value = zrt.Value.from_array(array)
    buffer = zrt.Buffer((4,), np.float32)
    buffer.array[...] = FEEDS["x"]
    over_buffer = zrt.Value.from_buffer(buffer)
    allocator = owner.allocator()
    allocated = zrt.Value.allocate((4,), np.float32, allocator)
    allocated.numpy()[...] = FEEDS["x"]
    allocation = allocator.allocate(1 << 20)
    hired = session(
        zrt.SessionOptions(
            intra_op_num_threads=3,
            log_severity_level="FATAL",
            thread_factory=lambda work: threading.Thread(target=work),
        )
    )
    a_lane = lane(owner)
    a_lane.run()
    left = owner.lane({"x": 4, "y": 4}, outputs=zrt.LaneMemory.left())
    left.inputs["x"][...] = FEEDS["x"]
    left.inputs["y"][...] = 1
    left.run()
    bound = binding(owner)
    bound.bind_input("x", over_buffer)
    bound.run()
    runtime = zrt.Runtime(owner, 2, shapes={"x": 4, "y": 4})
    dynamic = zrt.DynamicRuntime(owner, max_buckets=2)
    for size in (2, 3, 4):
        from_dynamic = dynamic.lane({"x": size, "y": size})
    from_dynamic.inputs["x"][...] = FEEDS["x"]
    from_dynamic.inputs["y"][...] = 1
    options = zrt.RunOptions(tag="kept")
    opened = zrt.Session(models.non_zero())
    where = np.array([0, 1, 0, 1], np.float32)
    return {
        "environment": zrt.Environment(),
        "session": owner,
        "array": array,
        "value": value,
        "view of value": value.numpy(),
        "buffer": buffer,
        "view of buffer": buffer.array[1:],
        "value over buffer": over_buffer,
        "allocator": allocator,
        "allocated": allocated,
        "view of allocated": allocated.numpy(),
        "allocation": allocation,
        "view of allocation": allocation.numpy()[1:],
        "session with threads of a factory": hired,
        "lane": a_lane,
        "inputs": a_lane.inputs,
        "view of output": a_lane.outputs["z"],
        "left lane": left,
        "view of left output": left.outputs["z"],
        "binding": bound,
        "bound output": bound.outputs()["z"],
        "view of bound output": bound.numpy()["z"],
        "prepared": owner.prepare(FEEDS),
        "runtime": runtime,
        "dynamic": dynamic,
        "lane of dynamic": from_dynamic,
        "options": options,
        "result": owner.run(FEEDS)[0],
        "left to ORT": opened.run({"x": where})[0],
        "binding left open": opened.binding(),
    }


def ran(lane, output):
    lane.run()
    same(output(lane), SUM)


# For each name: checks that the object still works.
USES = {
    "session": lambda it: same(it.run(FEEDS)[0], SUM),
    "array": lambda it: same(it, FEEDS["x"]),
    "value": lambda it: same(it.numpy(), FEEDS["x"]),
    "view of value": lambda it: same(it, FEEDS["x"]),
    "buffer": lambda it: same(it.array, FEEDS["x"]),
    "view of buffer": lambda it: same(it, FEEDS["x"][1:]),
    "value over buffer": lambda it: same(it.numpy(), FEEDS["x"]),
    "allocator": lambda it: same(zrt.Value.allocate((4,), np.float32, it).shape, (4,)),
    "allocated": lambda it: same(it.numpy(), FEEDS["x"]),
    "view of allocated": lambda it: same(it, FEEDS["x"]),
    "allocation": lambda it: same(it.numpy().shape, (1 << 20,)),
    "view of allocation": lambda it: it.fill(7),
    "session with threads of a factory": lambda it: same(it.run(FEEDS)[0], SUM),
    "lane": lambda it: ran(it, lambda lane: lane.outputs["z"]),
    "inputs": lambda it: same(it["x"], FEEDS["x"]),
    "view of output": lambda it: same(it, SUM),
    "left lane": lambda it: ran(it, lambda lane: lane.outputs["z"]),
    "view of left output": lambda it: same(it, SUM),
    "binding": lambda it: ran(it, lambda binding: binding.numpy()["z"]),
    "bound output": lambda it: same(it.numpy(), SUM),
    "view of bound output": lambda it: same(it, SUM),
    "prepared": lambda it: same(it.run()[0], SUM),
    "runtime": lambda it: it.prime(),
    "dynamic": lambda it: it.lane({"x": 3, "y": 3}).run(),
    "lane of dynamic": lambda it: ran(it, lambda lane: lane.outputs["z"]),
    "options": lambda it: same(session().run(FEEDS, options=it)[0], SUM),
    "result": lambda it: same(it, SUM),
    "left to ORT": lambda it: same(it, [[1, 3]]),
    "binding left open": lambda it: it.bind_input("x", np.ones(4, np.float32)),
    "environment": repr,
}


class Knot:
    """Holds objects in a reference cycle, so that only the GC releases them, in its own order."""

    def __init__(self, *objects):
        self.objects = objects
        self.me = self
