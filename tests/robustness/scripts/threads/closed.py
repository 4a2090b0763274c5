"""For each kind of object: three threads use it, and a fourth closes and replaces it."""

from __future__ import annotations

import numpy as np

import zrt
from tests.robustness.prologue import FEEDS, SUM, binding, lane, same, session
from tests.robustness.race import race

one = session()
array = FEEDS["x"].copy()


def buffer():
    made = zrt.Buffer((4,), np.float32)
    made.array[...] = array
    return made


def use_left(it):
    it.run()
    same(it.outputs["z"], SUM)


def use_binding(it):
    it.bind_input("x", FEEDS["x"])
    it.run()
    it.outputs()
    it.numpy()
    it.clear_outputs()
    it.bind_output("z")


def left():
    made = one.lane({"x": 4, "y": 4}, outputs=zrt.LaneMemory.left())
    for name, feed in FEEDS.items():
        made.inputs[name][...] = feed
    return made


def use_lane(it):
    it.run()
    same(it.outputs["z"], SUM)
    repr(it)
    it.audit()


kinds = {
    "lane": (lambda: lane(one), use_lane),
    "left": (left, use_left),
    "binding": (lambda: binding(one), use_binding),
    "prepared": (lambda: one.prepare(FEEDS), lambda it: same(it.run()[0], SUM)),
    "value": (lambda: zrt.Value.from_array(array), lambda it: same(it.numpy(), array)),
    "allocated": (lambda: zrt.Value.allocate((4,), np.float32), lambda it: it.numpy().sum()),
    "fed value": (lambda: zrt.Value.from_array(array), lambda it: one.run({"x": it, "y": array})),
    "buffer": (buffer, lambda it: same(it.array, array)),
    "fed buffer": (buffer, lambda it: same(one.run({"x": it, "y": FEEDS["y"]})[0], SUM)),
    "bound value": (lambda: zrt.Value.from_array(array), lambda it: one.binding().bind_input("x", it)),
    "copied": (buffer, lambda it: zrt.copy(it, np.empty(4, np.float32))),
    "allocator": (one.allocator, lambda it: (it.stats(), zrt.Value.allocate((4,), np.float32, it))),
    "runtime": (lambda: zrt.Runtime(one, 2, shapes=[4, 4]), lambda it: (it.prime(), it.audit())),
}
errors = zrt.errors.ClosedError, zrt.errors.BusyError, zrt.errors.ArgumentError
for name, (make, use) in kinds.items():
    current = [make()]

    def using(turn):
        use(current[0])

    def close(turn):
        former, current[0] = current[0], make()
        former.close()

    counts = race(using, using, using, close, turns=200, errors=errors)
    assert counts[3] == 200, name
    print(name, counts)
same(one.run(FEEDS)[0], SUM)
