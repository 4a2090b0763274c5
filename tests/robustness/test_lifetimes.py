"""Things may be dropped in any order, at any time, to the very end of the interpreter; and nothing is left behind."""

from __future__ import annotations

import copy
import gc
import pickle
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import zrt
from tests.robustness.conftest import Child
from tests.robustness.table import CLOSABLE, World
from zrt._native.handle import Handle
from zrt.errors import NotCopyableError

# One of everything that can be held, and for each what it must still do, whatever else has gone.
THINGS = """
def things():
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
    hired = session(zrt.SessionOptions(
        intra_op_num_threads=3, log_severity_level="FATAL", thread_factory=lambda work: threading.Thread(target=work)
    ))
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

def same(found, wanted):
    assert np.array_equal(found, wanted), (found, wanted)

def ran(lane, output):
    lane.run()
    same(output(lane), SUM)

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
    # Holds things in a cycle, so that only the collector lets them go, in an order of its own.
    def __init__(self, *things):
        self.things = things
        self.me = self
"""


@pytest.mark.parametrize("first", [0, 40, 80])
def test_dropped_in_any_order(child: Child, first: int) -> None:
    """Each seed: everything made, then dropped in its own order, some closed before, some in cycles of several."""
    output = child(
        THINGS,
        """
        first = int(sys.argv[1])
        gc.disable()
        for seed in range(first, first + 40):
            chance = random.Random(seed)
            held = things()
            order = list(held)
            chance.shuffle(order)
            while order:
                names = [order.pop() for _ in range(min(len(order), chance.choice((1, 1, 2, 3))))]
                gone = [held.pop(name) for name in names]
                for thing in gone:
                    if hasattr(thing, "close") and chance.random() < 0.3:
                        thing.close()
                if chance.random() < 0.5:
                    Knot(*gone)
                del gone, thing
                if chance.random() < 0.3:
                    gc.collect(chance.choice((0, 1, 2)))
                for name in chance.sample(order, min(3, len(order))):
                    USES[name](held[name])
            gc.collect()
            print(seed)
        """,
        arguments=[first],
    )
    assert output.split() == [str(seed) for seed in range(first, first + 40)]


def test_closed_in_any_order(child: Child) -> None:
    """A closed thing lets go of nothing that another, still open, needs."""
    child(
        THINGS,
        """
        for seed in range(40):
            chance = random.Random(seed)
            held = things()
            order = list(held)
            chance.shuffle(order)
            for number, name in enumerate(order):
                if hasattr(held[name], "close"):
                    held[name].close()
                gc.collect(0)
                for other in order[number + 1:]:
                    if chance.random() < 0.2:
                        USES[other](held[other])
        """,
    )


# How things can still be there when the interpreter ends; each script prints "done" as its last deed.
ENDS = {
    "globals": "kept = things()",
    "a cycle in globals": "kept = Knot(things())",
    "a cycle that nobody holds": "gc.disable(); Knot(things())",
    "another module": "sys.kept = things()",
    "a class": "Knot.kept = things()",
    "a default argument": "def function(kept=things()): pass",
    "a generator that is not over": """
        def generate():
            kept = things()
            yield kept
        generator = generate()
        next(generator)
    """,
    "an exception with its frames": """
        def fail():
            kept = things()
            raise ValueError
        try:
            fail()
        except ValueError as error:
            caught = error
            caught.me = caught
    """,
    "an exit function": """
        import atexit
        atexit.register(lambda kept=things(): [USES[name](thing) for name, thing in kept.items()])
    """,
    "a finalizer": """
        class Last:
            def __init__(self):
                self.kept = things()
            def __del__(self):
                self.kept["lane"].run()
                self.kept["session"].run(FEEDS)
                self.kept["view of output"].sum()
        last = Last()
    """,
    "a thread's locals": """
        local = threading.local()
        def hold():
            local.kept = things()
        thread = threading.Thread(target=hold)
        thread.start()
        thread.join()
        local.kept = things()
    """,
    "a daemon thread's frame": """
        started = threading.Event()
        def hold():
            kept = things()
            started.set()
            threading.Event().wait()
        threading.Thread(target=hold, daemon=True).start()
        started.wait()
    """,
    "a session with threads of its own": """
        kept = session(zrt.SessionOptions(intra_op_num_threads=3, inter_op_num_threads=2, execution_mode="PARALLEL"))
        kept.run(FEEDS)
    """,
    "sessions that share weights": """
        kept = zrt.Runtime.replicate(bench.mlp(width=256, depth=4), 3, QUIET, share_weights=True, shapes=[(1, 256)])
        kept.prime()
    """,
    "everything closed": """
        kept = things()
        for thing in kept.values():
            if hasattr(thing, "close"):
                thing.close()
    """,
    "nothing but the import": "import zrt.session, zrt.lane",
    "sys.exit in the midst": "kept = things(); print('done', flush=True); sys.exit(0)",
}


@pytest.mark.parametrize("where", ENDS)
def test_alive_at_the_interpreters_end(child: Child, where: str) -> None:
    output = child(THINGS, ENDS[where], "print('done', flush=True)")
    assert output == "done\n"


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("work", ["lane", "session", "binding", "prepared", "new lane", "new session", "terminated"])
def test_daemon_threads_at_the_interpreters_end(child: Child, work: str, threads: int) -> None:
    """The interpreter ends while daemon threads are in the midst of runs: their threads end with it, and no more."""
    script = """
        work, threads = sys.argv[1], int(sys.argv[2])
        options = zrt.SessionOptions(intra_op_num_threads=threads)
        model = bench.relay(1 << 16)
        owner = zrt.Session(model, options)
        feed = {"x": np.zeros(1 << 14, np.float32)}
        under_way = threading.Semaphore(0)

        def run():
            mine = owner.lane()
            bound = owner.binding()
            bound.bind_input("x", feed["x"])
            bound.bind_output("y")
            prepared = owner.prepare(feed)
            chosen = zrt.RunOptions()
            for count in range(1 << 60):
                if work == "lane":
                    mine.run()
                elif work == "session":
                    owner.run(feed)
                elif work == "binding":
                    bound.run()
                    bound.outputs()
                elif work == "prepared":
                    prepared.run()
                elif work == "new lane":
                    owner.lane().run()
                elif work == "new session":
                    zrt.Session(model, options).run(feed)
                else:
                    mine.run_with(chosen)
                    chosen.terminate()
                    chosen.reset()
                if count == 3:
                    under_way.release()

        for _ in range(3):
            threading.Thread(target=run, daemon=True).start()
        for _ in range(3):
            under_way.acquire()
        print("done", flush=True)
    """
    for _ in range(3):
        assert child(script, arguments=[work, threads]) == "done\n"


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
import resource

def resident():
    with open("/proc/self/statm") as map:
        return int(map.read().split()[1]) * resource.getpagesize()
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


def test_chains_of_handles_may_be_of_any_length(child: Child) -> None:
    """Each output is bound again as the next, and keeps the one before: their end must not go as deep as the chain."""
    child(
        """
        def chain():
            bound = binding(session())
            bound.bind_output("z", np.zeros(4, np.float32))
            bound.run()
            for _ in range(30_000):
                bound.bind_output("z", bound.outputs()["z"])
            bound.close()
            value = FEEDS["x"].copy()
            for _ in range(30_000):
                value = zrt.Value.from_array(value).numpy()

        # As small a stack as Python takes for a thread that does real work.
        threading.stack_size(256 * 1024)
        thread = threading.Thread(target=chain)
        thread.start()
        thread.join()
        """
    )


@pytest.mark.parametrize("name", [name for name in CLOSABLE if not name.endswith("Runtime")])
def test_no_copies_of_what_owns_something(name: str, tmp_path: Path) -> None:
    world = World(tmp_path)
    thing = CLOSABLE[name](world)
    for attempt in (copy.copy, copy.deepcopy, pickle.dumps):
        with pytest.raises(NotCopyableError, match=name):
            attempt(thing)
    world.check()


def test_no_copies_of_what_holds_lanes(tmp_path: Path) -> None:
    world = World(tmp_path)
    for thing in (world.runtime, [world.lane], world.lane.inputs):
        for attempt in (copy.deepcopy, pickle.dumps):
            with pytest.raises((NotCopyableError, TypeError)):
                attempt(thing)
    world.check()


def test_no_copies_of_a_handle() -> None:
    handle = Handle.pin(object())
    for attempt in (copy.copy, copy.deepcopy, pickle.dumps):
        with pytest.raises(NotCopyableError):
            attempt(handle)


@pytest.mark.parametrize("name", zrt.errors.__all__)
def test_errors_travel(name: str) -> None:
    """An error may be pickled, as a pool of processes does with it."""
    error = getattr(zrt.errors, name)("what went wrong")
    error.code = 9
    again = pickle.loads(pickle.dumps(error))
    assert type(again) is type(error)
    assert str(again) == "what went wrong"
    assert again.code == 9


BAD_STARTS: dict[str, Callable[[type], object]] = {
    "Session": lambda kind: kind(b"no model"),
    "IoBinding": lambda kind: kind(5),
    "Lane": lambda kind: kind(zrt.Session(b"no model")),
    "RunOptions": lambda kind: kind(tag=5),
    "Buffer": lambda kind: kind((2**62,), np.float32),
    "Allocator": lambda kind: kind(5),
    "Runtime": lambda kind: kind(5),
    "DynamicRuntime": lambda kind: kind(5),
}


@pytest.mark.parametrize("name", BAD_STARTS)
def test_a_failed_start_leaves_nothing(name: str) -> None:
    """What was never finished goes quietly (an exception in `__del__` is an error of this test)."""

    def finalize(self: Any) -> None:
        gone.append(name)

    gone: list[str] = []
    kind = type(name, (getattr(zrt, name),), {"__del__": finalize, "__slots__": ()})
    with pytest.raises(zrt.Error):
        BAD_STARTS[name](kind)
    gc.collect()
    assert gone == ([name] if name != "Lane" else [])


def test_a_failed_load_in_a_cycle(child: Child) -> None:
    """The frames of the error hold the caller's memoryview, and the error holds itself."""
    child(
        """
        def fail(model):
            try:
                zrt.Session(model)
            except zrt.Error as error:
                error.me = error
            else:
                raise AssertionError

        for content in (b"", b"no model", ADD):
            for number in range(4):
                fail((
                    memoryview(content[:-1]),
                    memoryview(bytearray(content[:-1])),
                    memoryview(content)[::2],
                    memoryview(content[:-1]).cast("b"),
                )[number])
                gc.collect()
        released = memoryview(b"no model")
        released.release()
        fail(released)
        """
    )


def test_model_bytes_may_go(child: Child) -> None:
    """A model in ORT's own format may be used in place: then its bytes stay as long as the session."""
    child(
        """
        import tempfile
        folder = tempfile.TemporaryDirectory()
        path = folder.name + "/model.ort"
        saved = {"session.save_model_format": "ORT"}
        zrt.Session(bench.mlp(width=256, depth=4), zrt.SessionOptions(
            optimized_model_filepath=path, config_entries=saved, log_severity_level="FATAL"))
        with open(path, "rb") as file:
            content = file.read()
        folder.cleanup()
        feeds = {"x": np.ones((1, 256), np.float32)}
        wanted = zrt.Session(content, QUIET).run(feeds)[0]
        used = {"session.use_ort_model_bytes_directly": "1", "session.use_ort_model_bytes_for_initializers": "1"}
        one = zrt.Session(bytearray(content), zrt.SessionOptions(config_entries=used))
        gc.collect()
        overwritten = [bytes([255]) * len(content) for _ in range(20)]
        assert np.array_equal(one.run(feeds)[0], wanted)
        made = one.lane({"x": (1, 256)})
        made.inputs["x"][...] = 1
        del one
        gc.collect()
        overwritten += [bytes([255]) * len(content) for _ in range(20)]
        made.run()
        assert np.array_equal(made.outputs["y"], wanted)
        """
    )


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
