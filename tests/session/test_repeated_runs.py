"""Runs whose names and shapes the session knows from earlier runs: of the same results, with every check."""

import collections
import gc
import itertools
import sys
import threading
import time
import types
import weakref
from collections.abc import Callable

import numpy as np
import pytest

import zrt
from tests.support import models
from tests.support.arrays import f32
from zrt.errors import ArgumentError, DTypeError, InvalidArgumentError, ShapeError, UnknownNameError
from zrt.session.call import CALLS_KEPT, Call


class Incomparable:
    __hash__ = None

    def __eq__(self, other):
        raise RuntimeError("not to be compared")


class Unhashable:
    def __hash__(self):
        raise RuntimeError("not to be hashed")


class TestKnownShapes:
    @pytest.mark.parametrize(
        "name",
        [
            np.zeros(2),
            4,
            ("y",),
            Incomparable(),
            Unhashable(),
        ],
        ids=["array", "int", "tuple", "raises", "raises-hashed"],
    )
    def test_wrong_name_after_a_named_run_is_refused(self, add, name):
        feeds = [np.ones(3, np.float32)] * 2
        for wrong in ([name], (name,), [add.output_names[0], name]):
            add.run(feeds, list(add.output_names))
            with pytest.raises(UnknownNameError, match="outputs: the model has no output"):
                add.run(feeds, wrong)

    def test_other_order_of_feeds_with_the_same_shapes(self, load):
        session = load("(float[n] a, float[m] b) => (float[n] y, float[m] z) { y = Neg(a) z = Abs(b) }")
        short, long = f32(1), f32(2, 3)
        for _ in range(3):
            assert [array.tolist() for array in session.run({"a": short, "b": long})] == [[-1], [2, 3]]
            assert [array.tolist() for array in session.run({"b": short, "a": long})] == [[-2, -3], [1]]

    def test_feed_that_a_defaultdict_would_make_is_missing(self, add):
        feeds = collections.defaultdict(lambda: f32(2), x=f32(1))
        for _ in range(2):
            with pytest.raises(ArgumentError, match="input 'y' is missing"):
                add.run(feeds)
            assert list(feeds) == ["x"]
            assert add.run([f32(1), f32(2)])[0].tolist() == [3]

    def test_run_that_fails_with_other_shapes_runs_once(self, build, capfd):
        model = build("(float[n] x, int64[m] i) => (float[k] y) { y = Gather(x, i) }")
        session = zrt.Session(model, zrt.SessionOptions(log_severity_level="ERROR"))
        x = f32(1, 2, 3)
        session.run([x, np.array([0])])
        with pytest.raises(InvalidArgumentError, match="out of data bounds") as caught:
            session.run([x, np.array([0, 9])])
        assert capfd.readouterr().err.count("out of data bounds") == 1
        assert caught.value.__context__ is None

    def test_error_of_feeds_after_a_run_has_no_context(self, add):
        for feeds, error in (
            ([f32(1)], ArgumentError),
            ([f32(1), 1], DTypeError),
            ({"x": f32(1), "v": 1}, UnknownNameError),
        ):
            add.run([f32(1), f32(2)])
            with pytest.raises(error) as caught:
                add.run(feeds)
            assert caught.value.__context__ is None


def test_run_of_recurring_shapes_checks_every_feed(load: Callable[..., zrt.Session]) -> None:
    session = load("(float[n] x, float[n] y) => (float[n] z) { z = Sub(x, y) }")
    for step in range(3 * CALLS_KEPT):
        size = step % (CALLS_KEPT + 1) if step > CALLS_KEPT else step % 4
        x, y = np.full(size, step, np.float32), np.ones(size, np.float32)
        assert session.run({"x": x, "y": y})[0].tolist() == (x - y).tolist()
        assert session.run({"y": y, "x": x})[0].tolist() == (x - y).tolist()
        assert session.run([x, y])[0].tolist() == (x - y).tolist()
        with pytest.raises(DTypeError, match="input 'x'"):
            session.run({"x": x.astype(np.int32), "y": y})
        with pytest.raises(UnknownNameError, match="'q'"):
            session.run({"q": x, "y": y})


@pytest.mark.parametrize("kind", [collections.OrderedDict, collections.UserDict, types.MappingProxyType])
def test_other_mappings_are_read_as_their_class_defines(load, kind):
    session = load("(float[n] x, float[n] y) => (float[n] z) { z = Sub (x, y) }")
    for number in range(4):
        feeds = kind({"y": np.full(3, number, np.float32), "x": np.ones(3, np.float32)})
        assert session.run(feeds)[0].tolist() == [1 - number] * 3
        with pytest.raises(UnknownNameError, match="no input 'w'"):
            session.run(kind({"y": np.ones(3, np.float32), "w": np.ones(3, np.float32)}))


def test_more_inputs_and_outputs_than_fit_the_stack():
    names = [f"x{number}" for number in range(70)]
    nodes = [models.node("Neg", [name], [f"{name}.out"]) for name in names]
    vectors = [models.tensor(name, 1, ["n"]) for name in names]
    session = zrt.Session(models.build(nodes, vectors, [models.tensor(f"{name}.out", 1, ["n"]) for name in names]))
    for size in (2, 2, 3, 2):
        feeds = {name: np.full(size, number, np.float32) for number, name in enumerate(names)}
        for arguments in (feeds, list(feeds.values()), tuple(feeds.values())):
            results = session.run(arguments)
            assert [result.tolist() for result in results] == [[-number] * size for number in range(70)]


@pytest.mark.parametrize("strided", [False, True])
def test_a_run_leaves_no_reference_to_its_arrays(load, strided):
    session = load("(float[n] x) => (float[n] y) { y = Neg (x) }")
    x = np.ones(8, np.float32)
    feed = x[::2] if strided else x
    session.run([feed])
    before = sys.getrefcount(feed)
    ended = []
    for _ in range(10):
        (y,) = session.run({"x": feed})
        ended.append(weakref.ref(y))
        with pytest.raises(ShapeError):
            session.run({"x": feed[None]})
    del y
    gc.collect()
    assert sys.getrefcount(feed) == before
    assert not any(one() is not None for one in ended)


@pytest.mark.parametrize("way", ["run", "deadline", "prepared", "values"])
def test_gil_is_free_during_a_run(load, way, eventually):
    session = load(
        "(int64 n, float[k] x) => (float[k] y) { go = Constant <value = bool {1}> ()\n y = Loop (n, go, x) <body = "
        "step (int64 i, bool c, float[k] a) => (bool d, float[k] b) { d = Identity (c)\n b = Neg (a) }> }"
    )
    feeds = {"n": np.array(1), "x": np.ones(4, np.float32)}
    session.run(feeds)
    feeds["n"] = np.array(20_000)
    run = {
        "run": lambda: session.run(feeds),
        "deadline": lambda: session.run(feeds, timeout=60),
        "prepared": session.prepare(feeds).run,
        "values": lambda: session.run_values({name: zrt.Value.from_array(feed) for name, feed in feeds.items()}),
    }[way]
    steps, ended = [], threading.Event()

    def count():
        while not ended.is_set():
            steps.append(time.perf_counter())
            time.sleep(1e-5)

    def is_free():
        start = time.perf_counter()
        run()
        end = time.perf_counter()
        times = [start, *(step for step in steps if start < step < end), end]
        return max(later - earlier for earlier, later in itertools.pairwise(times)) < (end - start) / 2

    interval = sys.getswitchinterval()
    thread = threading.Thread(target=count)
    thread.start()
    try:
        # Python takes the GIL from no thread in that time: only one that releases it lets the other go on.
        sys.setswitchinterval(60)
        # A busy machine may give the other thread no time during one run.
        eventually(is_free)
    finally:
        sys.setswitchinterval(interval)
        ended.set()
        thread.join()


def test_runs_are_recorded_whose_call_was_made_as_the_recorder_began(load, monkeypatch):
    session = load("(float[n] x) => (float[n] y) { y = Neg(x) }")
    recorders = []
    make = Call.__init__

    def record_after(self, *arguments):
        make(self, *arguments)
        # As another thread may, at this moment.
        recorders.append(session.record())

    with monkeypatch.context() as patch:
        patch.setattr(Call, "__init__", record_after)
        session.run([np.ones(2, np.float32)])
    [recorder] = recorders
    session.run([np.ones(2, np.float32)])
    session.run([np.ones(2, np.float32)])
    assert [run.shapes for run in recorder.runs] == [{"x": (2,)}] * 2
