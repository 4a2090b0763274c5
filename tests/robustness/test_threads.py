"""Several threads at once: the right result or a typed error, no crash.

The tests do not depend on timing: threads wait for each other, and races are repeated many times.
"""

import gc
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import zrt
from tests.robustness import values
from tests.robustness.conftest import Child
from tests.robustness.race import counting, race
from tests.robustness.sums import ADD, FEEDS, SUM, binding, lane, ran, same, session
from tests.support.bindings import bind
from tests.support.lanes import run_on
from tests.support.together import in_threads
from zrt.errors import ArgumentError, BusyError, ClosedError, InvalidProtobufError, TerminatedError


class Current:
    """An object that some threads use while others close it and make another."""

    def __init__(self, make: Any) -> None:
        self.make = make
        self.item = make()

    def use(self, work: Any) -> Any:
        return lambda turn: work(self.item)

    def close(self, turn: int = 0) -> None:
        former, self.item = self.item, self.make()
        former.close()

    def drop(self, turn: int = 0) -> None:
        self.item = self.make()
        gc.collect(0)


def test_session_used_in_eight_threads_while_others_close_and_replace_it() -> None:
    current = Current(session)

    def run_slowly(turn: int) -> None:
        result = current.item.run([FEEDS["x"][: turn % 4], FEEDS["y"][: turn % 4]], ["z"])[0]
        same(result, SUM[: turn % 4])

    def allocate(turn: int) -> None:
        value = zrt.Value.allocate((4,), np.float32, current.item.allocator())
        value.numpy()[...] = turn
        same(value.numpy(), [turn] * 4)

    run = current.use(lambda one: same(one.run(FEEDS)[0], SUM))
    prepare = current.use(lambda one: same(one.prepare(FEEDS).run()[0], SUM))
    make_lane = current.use(lambda one: ran(lane(one), lambda it: it.outputs["z"]))
    bind = current.use(lambda one: ran(binding(one), lambda it: it.numpy()["z"]))
    uses = (run, run, run_slowly, prepare, make_lane, bind, allocate, run)
    counts = race(*uses, current.close, current.drop, errors=ClosedError)
    assert counts[-2:] == [300, 300]
    assert counts[0] > 0


def test_session_closed_and_dropped_during_runs_in_eight_threads() -> None:
    """The runs that have begun finish."""
    whole = []
    feeds = {"turns": np.array(30_000), "start": np.zeros(2, np.float32)}

    def run() -> None:
        # The session may be closed, or dropped, before this run begins.
        with suppress(ClosedError, IndexError):
            whole.append(held[0].run(feeds)[0])

    def close() -> None:
        time.sleep(0.005)
        held.pop().close()
        gc.collect()

    for _ in range(10):
        held = [counting()]
        in_threads(*[run] * 8, close)
    assert whole
    for result in whole:
        same(result, [30_000, 30_000])


def test_run_options_terminate_runs_of_several_threads() -> None:
    """Endless runs of four threads end, and their objects work again."""
    one, options = counting(), zrt.RunOptions()
    feeds = {"turns": np.array(2**62), "start": np.zeros(2, np.float32)}
    short = {"turns": np.array(3), "start": np.zeros(2, np.float32)}
    a_lane, bound, prepared = one.lane(), bind(one, feeds, "end"), one.prepare(feeds)
    for name, feed in feeds.items():
        a_lane.inputs[name][...] = feed
    ways = (
        lambda: one.run(feeds, options=options),
        lambda: prepared.run(options),
        lambda: a_lane.run_with(options),
        lambda: bound.run(options),
    )

    def ends(way: Any) -> None:
        with pytest.raises(TerminatedError):
            way()

    for _ in range(5):
        in_threads(*(lambda way=way: ends(way) for way in ways), options.terminate)
        options.reset()
        same(one.run(short, options=options)[0], [3, 3])
    same(run_on(a_lane, **short)["end"], [3, 3])


def test_run_options_closed_and_terminated_by_other_threads() -> None:
    one, current = session(), Current(zrt.RunOptions)
    a_lane, bound, prepared = lane(one), binding(one), one.prepare(FEEDS)

    def terminate(turn: int) -> None:
        current.item.terminate()
        current.item.reset()

    counts = race(
        current.use(lambda options: same(one.run(FEEDS, options=options)[0], SUM)),
        current.use(a_lane.run_with),
        current.use(bound.run),
        current.use(prepared.run),
        current.close,
        terminate,
        turns=2000,
        errors=(ClosedError, TerminatedError),
    )
    assert counts[4] == 2000
    same(a_lane.outputs["z"], SUM)


def buffer() -> zrt.Buffer:
    buffer = zrt.Buffer((4,), np.float32)
    buffer.array[...] = FEEDS["x"]
    return buffer


def value() -> zrt.Value:
    return zrt.Value.from_array(FEEDS["x"].copy())


def use_lane(it: zrt.Lane) -> None:
    ran(it, lambda it: it.outputs["z"])
    repr(it)
    it.audit()


def use_binding(it: zrt.IoBinding) -> None:
    it.bind_input("x", FEEDS["x"])
    it.run()
    it.outputs()
    it.numpy()
    it.clear_outputs()
    it.bind_output("z")


# Makes an object over a session, and uses it with that session.
CLOSED: dict[str, tuple[Any, Any]] = {
    "lane": (lane, lambda one, it: use_lane(it)),
    "left": (lambda one: lane(one, outputs=zrt.LaneMemory.left()), lambda one, it: ran(it, lambda it: it.outputs["z"])),
    "binding": (binding, lambda one, it: use_binding(it)),
    "prepared": (lambda one: one.prepare(FEEDS), lambda one, it: same(it.run()[0], SUM)),
    "value": (lambda one: value(), lambda one, it: same(it.numpy(), FEEDS["x"])),
    "allocated": (lambda one: zrt.Value.allocate((4,), np.float32), lambda one, it: it.numpy().sum()),
    "fed value": (lambda one: value(), lambda one, it: one.run({"x": it, "y": FEEDS["x"]})),
    "buffer": (lambda one: buffer(), lambda one, it: same(it.array, FEEDS["x"])),
    "fed buffer": (lambda one: buffer(), lambda one, it: same(one.run({"x": it, "y": FEEDS["y"]})[0], SUM)),
    "bound value": (lambda one: value(), lambda one, it: one.binding().bind_input("x", it)),
    "copied": (lambda one: buffer(), lambda one, it: zrt.copy(it, np.empty(4, np.float32))),
    "allocator": (zrt.Session.allocator, lambda one, it: (it.stats(), zrt.Value.allocate((4,), np.float32, it))),
    "runtime": (lambda one: zrt.Runtime(one, 2, shapes=[4, 4]), lambda one, it: (it.prime(), it.audit())),
}


@pytest.mark.parametrize("kind", CLOSED)
def test_object_closed_by_another_thread(kind: str) -> None:
    one = session()
    make, use = CLOSED[kind]
    current = Current(lambda: make(one))
    using = current.use(lambda it: use(one, it))
    counts = race(using, using, using, current.close, turns=200, errors=(ClosedError, BusyError, ArgumentError))
    assert counts[3] == 200
    same(one.run(FEEDS)[0], SUM)


def test_lane_used_in_eight_threads_is_whole_or_refused() -> None:
    """Each view belongs to one run: later runs do not change it."""
    a_lane = counting().lane(outputs=zrt.LaneMemory.left())
    a_lane.inputs["turns"][...] = 500
    a_lane.run()
    kept = []

    def run(turn: int) -> None:
        while True:
            try:
                return a_lane.run()
            except BusyError:
                continue

    def read(turn: int) -> None:
        view = a_lane.outputs["end"]
        same(view, [500, 500])
        kept.append(view)

    assert race(*[run] * 6, read, read, turns=100)[:6] == [100] * 6
    same(run_on(a_lane, turns=7)["end"], [7, 7])
    for view in kept:
        same(view, [500, 500])


def test_binding_used_in_several_threads_is_whole_or_refused() -> None:
    bound = binding(session())
    inputs = [np.full(4, number, np.float32) for number in range(5)]
    place = np.zeros(4, np.float32)
    whole = {tuple(feed + 1) for feed in inputs} | {tuple(SUM)}

    def run(turn: int) -> None:
        bound.run()

    def read(turn: int) -> None:
        for array in bound.numpy().values():
            assert tuple(array.tolist()) in whole or np.shares_memory(array, place)

    def bind(turn: int) -> None:
        bound.bind_input("x", inputs[turn % 5])

    def bind_place(turn: int) -> None:
        bound.bind_output("z", place if turn % 2 else None)

    def clear(turn: int) -> None:
        bound.clear_inputs() if turn % 2 else bound.clear_outputs()
        bound.synchronize_inputs()

    def restore(turn: int) -> None:
        for name, feed in FEEDS.items():
            bound.bind_input(name, feed)
        bound.bind_output("z")

    for uses in ((run, read), (run, bind), (run, run, read, bind, bind_place, clear, restore)):
        race(*uses, turns=2000, errors=(BusyError, ArgumentError))
    restore(0)
    ran(bound, lambda it: it.numpy()["z"])


def test_dynamic_runtime_used_in_several_threads() -> None:
    dynamic = zrt.DynamicRuntime(session(), 2, max_buckets=3)

    def run(turn: int) -> None:
        size = turn % 5 + 1
        a_lane = dynamic.lane({"x": size, "y": size}, turn % 2)
        a_lane.run()
        assert a_lane.outputs["z"].shape == (size,)

    def warm(turn: int) -> None:
        dynamic.warm([{"x": size, "y": size} for size in (1, 2, 3)])

    def remove(turn: int) -> None:
        dynamic.remove({"x": 1, "y": 1})
        dynamic.clear()

    def look(turn: int) -> None:
        for bucket in dynamic.buckets:
            assert len(bucket.lanes) == 2
        repr((len(dynamic), dynamic.closed, dynamic.counters.hits))

    assert sum(race(run, run, run, warm, remove, look, turns=400)) > 0
    assert len(dynamic) <= 3
    a_lane = dynamic.lane({"x": 4, "y": 4})
    a_lane.inputs["x"][...], a_lane.inputs["y"][...] = FEEDS["x"], FEEDS["y"]
    ran(a_lane, lambda it: it.outputs["z"])
    race(run, lambda turn: dynamic.close(), turns=50, errors=(BusyError, ClosedError))
    a_lane.run()


def test_dynamic_runtime_refuses_reentrant_calls() -> None:
    """The hash of a key calls the runtime that looks it up."""
    dynamic = zrt.DynamicRuntime(session())
    refused = []

    class Key(str):
        __slots__ = ()
        __eq__ = str.__eq__

        def __hash__(self) -> int:
            try:
                dynamic.lane({"x": 4, "y": 4})
            except BusyError as error:
                refused.append(error)
            return super().__hash__()

    dynamic.lane({Key("x"): 4, "y": 4}).run()
    assert refused
    dynamic.lane({"x": 4, "y": 4}).run()


def test_sessions_loaded_and_dropped_in_threads() -> None:
    options = [zrt.SessionOptions(intra_op_num_threads=count) for count in (1, 2)]

    def load(turn: int) -> None:
        with session(options[turn % 2]) as one:
            a_lane = lane(one)
            same(one.run(FEEDS)[0], SUM)
        ran(a_lane, lambda it: it.outputs["z"])

    def fail(turn: int) -> None:
        with pytest.raises(InvalidProtobufError):
            zrt.Session(ADD[:-10])

    race(*[load] * 5, fail, fail, fail, turns=40, errors=())


def test_profiling_ended_by_another_thread(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)

    def end(one: zrt.Session, turn: int) -> None:
        if turn % 100 == 50:
            one.end_profiling()

    for _ in range(10):
        with session(zrt.SessionOptions(profile_file_prefix="trace", intra_op_num_threads=1)) as one:
            run = lambda turn, one=one: one.run(FEEDS)  # noqa: E731
            race(run, run, lambda turn, one=one: end(one, turn), turns=200, errors=())


def test_values_of_every_kind_used_in_six_threads() -> None:
    shared = values.every_kind()
    del shared["binding"]

    def use(turn: int) -> None:
        for name, (item, holds) in shared.items():
            assert holds(item), name
        assert zrt.Value.from_sequence([], "uint8").to_list() == []
        zrt.Value.from_strings(["x"] * 50).strings()

    race(*[use] * 6, turns=10, errors=())


@pytest.mark.parametrize("cpus", [0, 2])
def test_everything_at_once_in_six_threads(child: Child, tmp_path: Path, cpus: int) -> None:
    child("threads/everything_at_once.py", arguments=[3000, cpus, tmp_path])


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="limits are those of Linux")
@pytest.mark.parametrize("field", ["intra_op_num_threads", "inter_op_num_threads"])
def test_more_threads_than_the_system_has_are_refused(child: Child, field: str) -> None:
    """ONNX Runtime hangs or crashes where a thread cannot be started: zrt must refuse such a number."""
    output = child("threads/too_many_threads.py", arguments=[field], timeout=60)
    assert output == "refused\n"


@pytest.mark.slow
def test_small_thread_stack_holds_a_model_with_many_inputs(child: Child) -> None:
    child("threads/small_stack.py")
