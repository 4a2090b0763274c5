"""Whatever is made and dropped again leaves nothing behind, and memory may run out anywhere."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tests.robustness.conftest import Child

# What is made, used and dropped again and again. None of it may leave anything behind.
LOOPS = {
    "run": "same.run(FEEDS)",
    "run of a list": "same.run([FEEDS['x'], FEEDS['y']])",
    "run of values": "same.run({'x': zrt.Value.from_array(FEEDS['x']), 'y': FEEDS['y']})",
    "run with options": "same.run(FEEDS, ['z'], zrt.RunOptions(tag='t'))",
    "run of a new shape": "same.run({name: feed[:count % 4] for name, feed in FEEDS.items()})",
    "run whose output ORT makes": "opened.run({'x': FEEDS['x']})",
    "prepared run": "same.prepare(FEEDS).run()",
    "lane": "lane(same).run()",
    "run of a lane": "one.run()",
    "output that is left to ORT": "left.run(); left.outputs['z']",
    "binding": "it = binding(same); it.run(); it.numpy()",
    "value": "zrt.Value.from_array(FEEDS['x']).numpy()",
    "allocated value": "zrt.Value.allocate((4,), np.float32, same.allocator()).numpy()",
    "buffer": "zrt.Buffer((4,), np.float32).array[0]",
    "large buffer": "zrt.Buffer((1 << 19,), np.float32, zrt.BufferPolicy(4096)).array[0]",
    "copy": "zrt.copy(FEEDS['x'], zrt.Value.allocate((4,), np.float32))",
    "dynamic lane": "dynamic.lane({'x': count % 3, 'y': count % 3}).run()",
    "error": "fails(lambda: same.run({'x': FEEDS['x'], 'y': FEEDS['y'][:3]}))",
    "error of a lane": "fails(wrong.run)",
    "error of a load": "fails(lambda: zrt.Session(b'no model'))",
}


# Fewer turns where one takes long.
TURNS = dict.fromkeys(LOOPS, 100_000) | {"dynamic lane": 20_000, "error of a load": 10_000, "binding": 50_000}

# glibc hands out no less than 32 bytes, so this is the growth for each turn that the smallest leak there can be stays
# far above. What is below moves by itself: pages that a heap keeps half empty, tables of Python's that grow once.
ALLOWED = 10

RESIDENT = """
from zrt.bench.machine import resident_bytes as resident
"""

needs_proc = pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="no map of the process's memory here")


@needs_proc
@pytest.mark.slow
@pytest.mark.parametrize("loop", LOOPS)
def test_memory_stays_flat(child: Child, loop: str) -> None:
    grown = child(
        RESIDENT,
        f"""
        def fails(function):
            try:
                function()
            except zrt.Error:
                return
            raise AssertionError

        same = session()
        one = lane(same)
        left = same.lane({{"x": 4, "y": 4}}, outputs=zrt.LaneMemory.left())
        wrong = same.lane({{"x": 4, "y": 4}}, {{"z": 5}})
        dynamic = zrt.DynamicRuntime(same, max_buckets=2)
        opened = zrt.Session(models.non_zero(), QUIET)

        def turn(count):
            {LOOPS[loop]}

        def turns(number):
            for count in range(number):
                turn(count)
            gc.collect()

        turns({TURNS[loop] // 10})
        before = resident()
        turns({TURNS[loop]})
        print(resident() - before)
        """,
        timeout=300,
    )
    assert int(grown) < ALLOWED * TURNS[loop]


@needs_proc
@pytest.mark.slow
@pytest.mark.parametrize("threads", [1, 2])
def test_memory_stays_flat_over_sessions(child: Child, threads: int) -> None:
    """A session takes over 100 KiB: 2 MiB would be one kept of a hundred."""
    grown = child(
        RESIDENT,
        """
        def turns(number):
            options = zrt.SessionOptions(intra_op_num_threads=int(sys.argv[1]))
            for _ in range(number):
                with session(options) as one:
                    one.run(FEEDS)
                    lane(one).run()
            gc.collect()

        turns(500)
        before = resident()
        turns(2000)
        print(resident() - before)
        """,
        arguments=[threads],
    )
    assert int(grown) < 2 << 20


@pytest.mark.skipif(sys.implementation.name != "cpython", reason="the tool is CPython's")
def test_memory_may_run_out_anywhere(child: Child) -> None:
    """The n-th allocation of Python's fails, for each n: an error, no crash, and the next call is right."""
    pytest.importorskip("_testcapi")
    child(
        """
        import _testcapi
        same, array = session(), np.zeros(4, np.float32)
        one, bound, chosen = lane(same), binding(same), zrt.RunOptions()
        dynamic = zrt.DynamicRuntime(same, max_buckets=2)

        def anew():
            same._calls, same._latest = {}, None
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
        }
        # Python says on standard error what it cannot raise; only the crash is of interest here.
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
                except (MemoryError, zrt.Error):
                    failed += 1
            print(name, failed)
            call()
            assert np.array_equal(same.run(FEEDS)[0], SUM)
            one.run()
            assert np.array_equal(one.outputs["z"], SUM)
            bound.run()
        """
    )
