"""Runs whose names and shapes the session knows from earlier runs: of the same results, with every check."""

from __future__ import annotations

import collections
import gc
import sys
import threading
import time
import types
import weakref
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import zrt
from tests.support import models
from tests.support.arrays import f32
from zrt.errors import ArgumentError, ClosedError, DTypeError, InvalidArgumentError, ShapeError, UnknownNameError
from zrt.session.call import Call
from zrt.session.session import CALLS_KEPT


class Incomparable:
    __hash__ = None

    def __eq__(self, other):
        raise RuntimeError("not to be compared")


class Unhashable:
    def __hash__(self):
        raise RuntimeError("not to be hashed")


class TestKnownShapes:
    def test_alternating_shapes(self, add):
        for size in (3, 4, 3, 0, 1, 4):
            assert add.run([np.ones(size, np.float32)] * 2)[0].tolist() == [2] * size

    def test_alternating_shapes_of_named_outputs(self, load):
        session = load("(float[n] x) => (float[n] y, float[n] z) { y = Neg(x) z = Mul(x, x) }")
        for _ in range(2):
            for size in (3, 4):
                for names in (["z"], ("y", "z"), ["z", "y"], None):
                    results = session.run({"x": np.full(size, -2, np.float32)}, names)
                    wanted = [[{"y": 2, "z": 4}[name]] * size for name in names or ("y", "z")]
                    assert [array.tolist() for array in results] == wanted

    @pytest.mark.parametrize(
        "name",
        [np.zeros(2), 4, ("y",), Incomparable(), Unhashable()],
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

    def test_known_shapes_with_a_wrong_feed_are_refused(self, add):
        for size in (3, 4):
            add.run([np.ones(size, np.float32)] * 2)
        ones = np.ones(3, np.float32)
        with pytest.raises(DTypeError, match=f"input '{add.input_names[1]}'"):
            add.run([ones, np.ones(3, np.float64)])
        with pytest.raises(UnknownNameError, match="no input 'more'"):
            add.run(dict(zip(add.input_names, (ones, ones), strict=True)) | {"more": ones})
        assert add.run([ones, np.ones(6, np.float32)[::2]])[0].tolist() == [2, 2, 2]

    def test_feed_that_a_defaultdict_would_make_is_missing(self, add):
        feeds = collections.defaultdict(lambda: f32(2), x=f32(1))
        for _ in range(2):
            with pytest.raises(ArgumentError, match="input 'y' is missing"):
                add.run(feeds)
            assert list(feeds) == ["x"]
            assert add.run([f32(1), f32(2)])[0].tolist() == [3]

    def test_known_call_becomes_the_latest(self, load):
        """Only the latest calls run without a look at those of earlier runs."""
        text = "(float[n] x, float v = {1}, float w = {2}) => (float[n] y, float[n] z) { y = Add(x, v) z = Add(x, w) }"
        session = load(text)
        x, one = f32(1), np.ones((), np.float32)
        for _ in range(2):
            for names in (["y"], ["z"], ["y", "z"]):
                session.run([x], names)
                assert session._latest_named.output_names == names
            for feeds in ({"x": x}, {"x": x, "v": one}, {"x": x, "w": one}):
                session.run(feeds)
                assert [name for name, *_ in session._latest.inputs] == list(feeds)

    def test_run_that_fails_with_other_shapes_runs_once(self, load, monkeypatch):
        session = load("(float[n] x, int64[m] i) => (float[k] y) { y = Gather(x, i) }")
        x, runs, run = f32(1, 2, 3), [], Call.run
        session.run([x, np.array([0])])
        monkeypatch.setattr(Call, "run", lambda *arguments: runs.append(arguments) or run(*arguments))
        with pytest.raises(InvalidArgumentError, match="out of data bounds") as caught:
            session.run([x, np.array([0, 9])])
        assert len(runs) == 1
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

    def test_more_shapes_than_the_cache_holds(self, relu):
        for size in [*range(1, CALLS_KEPT + 10), 1, 2]:
            assert relu.run([np.ones(size, np.float32)])[0].shape == (size,)


@pytest.mark.parametrize("outputs", [["b"], ("b", "a"), None])
def test_run_of_chosen_outputs_repeats_with_new_data(load: Callable[..., zrt.Session], outputs: Any) -> None:
    session = load("(float[n] x) => (float[n] a, float[n] b) { a = Abs(x)  b = Neg(x) }")
    options = None if outputs else zrt.RunOptions()
    for size, step in ((3, 1), (3, 1), (3, 2), (5, 1), (3, 1)):
        x = np.arange(size * step, dtype=np.float32)[::step]
        found = session.run({"x": x}, outputs, options)
        expected = {"a": abs(x), "b": -x}
        assert [each.tolist() for each in found] == [expected[name].tolist() for name in outputs or "ab"]


def test_run_of_chosen_outputs_takes_misaligned_feeds(load: Callable[..., zrt.Session]) -> None:
    session = load("(float[n] x) => (float[n] a, float[n] b) { a = Abs(x)  b = Neg(x) }")
    x = np.ones(3, np.float32)
    odd = np.frombuffer(b"\0" + x.tobytes(), np.uint8)[1:].view(np.float32)
    for feed in (x, odd, x):
        assert session.run({"x": feed}, ["b"])[0].tolist() == [-1, -1, -1]


def test_run_of_chosen_outputs_refuses_a_text_each_time(load: Callable[..., zrt.Session]) -> None:
    session = load("(float[n] x) => (float[n] a, float[n] b) { a = Abs(x)  b = Neg(x) }")
    feeds = {"x": np.ones(3, np.float32)}
    session.run(feeds, ["b"])
    with pytest.raises(DTypeError, match="outputs"):
        session.run(feeds, "b")


def test_run_of_chosen_outputs_after_close_raises(load: Callable[..., zrt.Session]) -> None:
    session = load("(float[n] x) => (float[n] a, float[n] b) { a = Abs(x)  b = Neg(x) }")
    feeds = {"x": np.ones(3, np.float32)}
    session.run(feeds, ["b"])
    session.close()
    with pytest.raises(ClosedError):
        session.run(feeds, ["b"])


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
        for given in (feeds, list(feeds.values()), tuple(feeds.values())):
            results = session.run(given)
            assert [result.tolist() for result in results] == [[-number] * size for number in range(70)]


@pytest.mark.parametrize("strided", [False, True])
def test_a_run_leaves_no_reference_to_its_arrays(load, strided):
    session = load("(float[n] x) => (float[n] y) { y = Neg (x) }")
    x = np.ones(8, np.float32)
    given = x[::2] if strided else x
    session.run([given])
    before = sys.getrefcount(given)
    ended = []
    for _ in range(10):
        (y,) = session.run({"x": given})
        ended.append(weakref.ref(y))
        with pytest.raises(ShapeError):
            session.run({"x": given[None]})
    del y
    gc.collect()
    assert sys.getrefcount(given) == before
    assert not any(one() is not None for one in ended)


def test_gil_is_free_during_a_run(load):
    session = load(
        "(int64 n, float[k] x) => (float[k] y) { go = Constant <value = bool {1}> ()\n y = Loop (n, go, x) <body = "
        "step (int64 i, bool c, float[k] a) => (bool d, float[k] b) { d = Identity (c)\n b = Neg (a) }> }"
    )
    feeds = {"n": np.array(1), "x": np.ones(4, np.float32)}
    session.run(feeds)
    feeds["n"] = np.array(20_000)
    steps, ended = [], threading.Event()

    def count():
        while not ended.is_set():
            steps.append(time.perf_counter())

    thread = threading.Thread(target=count)
    thread.start()
    start = time.perf_counter()
    session.run(feeds)
    end = time.perf_counter()
    ended.set()
    thread.join()
    assert len([step for step in steps if start < step < end]) > 10
