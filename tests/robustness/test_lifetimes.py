"""Things may be dropped in any order, at any time, to the very end of the interpreter, and are never copied."""

from __future__ import annotations

import copy
import gc
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import zrt
from tests.robustness.conftest import Child
from tests.robustness.table import CLOSABLE, World
from tests.robustness.things import THINGS
from zrt._native.handle import Handle
from zrt.errors import NotCopyableError


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
    "nothing but the import": "import zrt.session.session, zrt.lanes.lane",
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


@pytest.mark.slow
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
