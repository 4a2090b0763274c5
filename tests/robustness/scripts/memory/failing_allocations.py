"""Lets the n-th allocation of Python fail, for each n: an error, no crash, and the next call is right."""

import _testcapi
import sys

import numpy as np

import zrt
from tests.robustness.prologue import ADD, FEEDS, QUIET, SUM, binding, lane, session
from tests.support import models

same, array = session(), np.zeros(4, np.float32)
one, bound, chosen = lane(same), binding(same), zrt.RunOptions()
# ONNX Runtime makes its output; CPython has the numbers up to 256 already.
unknown, ones = (
    zrt.Session(models.parse("(float[n] x) => (float[m] y) { y = Relu(x) }"), QUIET),
    np.ones(300, np.float32),
)
dynamic = zrt.DynamicRuntime(same, max_buckets=2)


def anew():
    same._calls = ()
    return same.run(FEEDS)


def rebind():
    bound.bind_output("z", array)
    bound.run()
    bound.bind_output("z")
    bound.run()
    return bound.outputs()


calls = {
    "run": lambda: same.run(FEEDS),
    "run of a list": lambda: same.run([array, array]),
    "first run": anew,
    "run of an unknown shape": lambda: unknown.run([ones]),
    "run with options": lambda: same.run(FEEDS, ["z"], chosen),
    "prepare": lambda: same.prepare(FEEDS).run(),
    "lane": lambda: lane(same).run(),
    "run of a lane": lambda: (one.run(), one.run_with(chosen)),
    "binding": lambda: binding(same).numpy(),
    "outputs": rebind,
    "value": lambda: zrt.Value.from_array(array).numpy(),
    "allocated": lambda: zrt.Value.allocate((4,), np.float32, same.allocator()).numpy(),
    "buffer": lambda: zrt.Buffer((4,), np.float32).array,
    "dynamic": lambda: [dynamic.lane({"x": n, "y": n}) for n in range(3)],
    "options": lambda: zrt.RunOptions(tag="t", config_entries={"a": "b"}),
    "session": lambda: zrt.Session(ADD, QUIET),
    "copy": lambda: zrt.copy(array, array),
    # New ones that are not ASCII: Python makes and keeps their UTF-8.
    "strings": lambda: zrt.Value.from_strings([*map(chr, range(0x100, 0x120)), *[b"b"] * 20]),
}
# Python prints exceptions that it cannot raise: ignore them, only a crash fails this test.
sys.unraisablehook = lambda _: None
for name, call in calls.items():
    call()
    failed = 0
    for number in range(700):
        try:
            _testcapi.set_nomemory(number, number + 1)
            try:
                kept = call()
            finally:
                _testcapi.remove_mem_hooks()
        except (MemoryError, zrt.Error) as error:
            assert name != "strings" or isinstance(error, MemoryError), error
            failed += 1
    print(name, failed)
    call()
    assert np.array_equal(same.run(FEEDS)[0], SUM)
    one.run()
    assert np.array_equal(one.outputs["z"], SUM)
    bound.run()
