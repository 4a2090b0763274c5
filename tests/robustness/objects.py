"""One of every object that can be held, each with a check; for the scripts of these tests."""

import threading

import numpy as np

import zrt
from tests.robustness.prologue import FEEDS, SUM, binding, lane, same, session
from tests.robustness.sums import ran
from tests.support import models


def objects():
    """One of every object that can be held, by name, each with a check that it still works."""
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
    left = lane(owner, outputs=zrt.LaneMemory.left())
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
        "environment": (zrt.Environment(), repr),
        "session": (owner, lambda it: same(it.run(FEEDS)[0], SUM)),
        "array": (array, lambda it: same(it, FEEDS["x"])),
        "value": (value, lambda it: same(it.numpy(), FEEDS["x"])),
        "view of value": (value.numpy(), lambda it: same(it, FEEDS["x"])),
        "buffer": (buffer, lambda it: same(it.array, FEEDS["x"])),
        "view of buffer": (buffer.array[1:], lambda it: same(it, FEEDS["x"][1:])),
        "value over buffer": (over_buffer, lambda it: same(it.numpy(), FEEDS["x"])),
        "allocator": (allocator, lambda it: same(zrt.Value.allocate((4,), np.float32, it).shape, (4,))),
        "allocated": (allocated, lambda it: same(it.numpy(), FEEDS["x"])),
        "view of allocated": (allocated.numpy(), lambda it: same(it, FEEDS["x"])),
        "allocation": (allocation, lambda it: same(it.numpy().shape, (1 << 20,))),
        "view of allocation": (allocation.numpy()[1:], lambda it: it.fill(7)),
        "session with threads of a factory": (hired, lambda it: same(it.run(FEEDS)[0], SUM)),
        "lane": (a_lane, lambda it: ran(it, lambda lane: lane.outputs["z"])),
        "inputs": (a_lane.inputs, lambda it: same(it["x"], FEEDS["x"])),
        "view of output": (a_lane.outputs["z"], lambda it: same(it, SUM)),
        "left lane": (left, lambda it: ran(it, lambda lane: lane.outputs["z"])),
        "view of left output": (left.outputs["z"], lambda it: same(it, SUM)),
        "binding": (bound, lambda it: ran(it, lambda binding: binding.numpy()["z"])),
        "bound output": (bound.outputs()["z"], lambda it: same(it.numpy(), SUM)),
        "view of bound output": (bound.numpy()["z"], lambda it: same(it, SUM)),
        "prepared": (owner.prepare(FEEDS), lambda it: same(it.run()[0], SUM)),
        "runtime": (runtime, lambda it: it.prime()),
        "dynamic": (dynamic, lambda it: it.lane({"x": 3, "y": 3}).run()),
        "lane of dynamic": (from_dynamic, lambda it: ran(it, lambda lane: lane.outputs["z"])),
        "options": (options, lambda it: same(session().run(FEEDS, options=it)[0], SUM)),
        "result": (owner.run(FEEDS)[0], lambda it: same(it, SUM)),
        "left to ORT": (opened.run({"x": where})[0], lambda it: same(it, [[1, 3]])),
        "binding left open": (opened.binding(), lambda it: it.bind_input("x", np.ones(4, np.float32))),
    }


def works(item, check):
    """Checks one of the objects, and keeps no reference to it."""
    check(item)


class Knot:
    """Holds objects in a reference cycle, so that only the GC releases them, in its own order."""

    def __init__(self, *objects):
        self.objects = objects
        self.me = self
