"""The drop-in for onnxruntime beside the official package: its ways to run, and zrt's own."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from itertools import cycle
from pathlib import Path
from queue import SimpleQueue
from typing import Any, TypeAlias

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

import zrt
from benches.support import (
    DROP_IN,
    ONE_THREAD,
    Compare,
    Entry,
    Feeds,
    Group,
    Workload,
    assert_same,
    call_entry,
    iobinding_entry,
    lane_entry,
    ort_session,
)
from zrt.bench.harness import python_contender

MODELS = ("add", "digits", "cnn", "squeezenet")
PACKAGES = {"official": "onnxruntime", "drop_in": DROP_IN}
# The same with the names of the outputs among the arguments.
NAMED = ("official_named", "session_run_named")


# Prepares the arguments, and returns the call to measure.
Form: TypeAlias = Callable[[Any, Any, Feeds], Callable[[], Any]]


def by_name(package: Any, session: Any, feeds: Feeds) -> Callable[[], Any]:
    names = [each.name for each in session.get_outputs()]
    return lambda: session.run(names, feeds)


def lists(package: Any, session: Any, feeds: Feeds) -> Callable[[], Any]:
    listed = {name: array.tolist() for name, array in feeds.items()}
    return lambda: session.run(None, listed)


def strided(package: Any, session: Any, feeds: Feeds) -> Callable[[], Any]:
    arrays = {name: np.repeat(array, 2, axis=-1)[..., ::2] for name, array in feeds.items()}
    return lambda: session.run(None, arrays)


def values(package: Any, session: Any, feeds: Feeds) -> Callable[[], Any]:
    fed = {name: package.OrtValue.ortvalue_from_numpy(array) for name, array in feeds.items()}
    return lambda: session.run(None, fed)


def run_with_ort_values(package: Any, session: Any, feeds: Feeds) -> Callable[[], Any]:
    fed = {name: package.OrtValue.ortvalue_from_numpy(array) for name, array in feeds.items()}
    return lambda: [value.numpy() for value in session.run_with_ort_values(None, fed)]


def kept_options(package: Any, session: Any, feeds: Feeds) -> Callable[[], Any]:
    options = package.RunOptions()
    return lambda: session.run(None, feeds, options)


def new_options(package: Any, session: Any, feeds: Feeds) -> Callable[[], Any]:
    return lambda: session.run(None, feeds, package.RunOptions())


def run_async(package: Any, session: Any, feeds: Feeds) -> Callable[[], Any]:
    """The results of a run in the background, for which the caller waits."""
    ended: SimpleQueue[Any] = SimpleQueue()

    def call() -> Any:
        session.run_async(None, feeds, lambda results, data, error: ended.put(results), None)
        return ended.get()

    return call


FORMS: dict[str, Form] = {
    "outputs by name": by_name,
    "lists": lists,
    "strided arrays": strided,
    "OrtValues": values,
    "RunOptions": kept_options,
    "new RunOptions": new_options,
    "run_with_ort_values": run_with_ort_values,
    "run_async": run_async,
}


@pytest.fixture(scope="module", params=MODELS)
def work(request: pytest.FixtureRequest, model_file: Callable[[str], Path]) -> tuple[str, Workload]:
    """The model's name and its work."""
    return request.param, Workload.of(model_file(request.param))


@pytest.fixture(scope="module")
def runs(work: tuple[str, Workload]) -> Group:
    title, load = work

    def entry(key: str, package: str, outputs: list[str] | None = None) -> Entry:
        return call_entry(key, load.expected, ort_session(load.path, package).run, outputs, load.inputs)

    names = list(load.session().output_names)
    entries = [
        *(entry(*item) for item in PACKAGES.items()),
        entry("official_again", PACKAGES["official"]),
        call_entry("session_run", load.expected, load.session().run, load.inputs),
        entry("official_named", PACKAGES["official"], names),
        call_entry("session_run_named", load.expected, load.session().run, load.inputs, names),
    ]
    return Group(f"onnxruntime: {title}, run", entries)


@pytest.mark.parametrize("way", [*PACKAGES, "official_again", "session_run", *NAMED])
def test_run(compare: Compare, runs: Group, way: str) -> None:
    compare(runs, way)


@pytest.fixture(scope="module")
def turns(model_file: Callable[[str], Path]) -> Group:
    """A run of two images and a run of one: each has other shapes than the run before."""
    load = Workload.of(model_file("digits"))
    two = {name: np.repeat(array, 2, axis=0) for name, array in load.inputs.items()}

    def entry(key: str, run: Callable[..., Any], *first: None) -> Entry:
        def both() -> Any:
            run(*first, two)
            return run(*first, load.inputs)

        return call_entry(key, load.expected, both)

    theirs = [entry(key, ort_session(load.path, package).run, None) for key, package in PACKAGES.items()]
    return Group("onnxruntime: digits, two shapes in turn", [*theirs, entry("session_run", load.session().run)])


@pytest.mark.parametrize("way", [*PACKAGES, "session_run"])
def test_turns(compare: Compare, turns: Group, way: str) -> None:
    compare(turns, way)


@pytest.fixture(scope="module")
def lengths(tmp_path_factory: pytest.TempPathFactory) -> Group:
    """A negation of 600 lengths in turn, as of texts."""
    path = tmp_path_factory.mktemp("lengths") / "model.onnx"
    x, y = (helper.make_tensor_value_info(name, TensorProto.FLOAT, ["n"]) for name in "xy")
    graph = helper.make_graph([helper.make_node("Neg", ["x"], ["y"])], "graph", [x], [y])
    onnx.save_model(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9), path)

    def entry(key: str, run: Callable[..., Any], *first: None) -> Entry:
        turn = cycle([{"x": np.ones(length, np.float32)} for length in range(1, 601)])

        def check() -> None:
            for _ in range(601):
                feeds = next(turn)
                assert_same(run(*first, feeds), [-feeds["x"]])

        return Entry(python_contender(key, key, lambda: run(*first, next(turn))), check)

    theirs = [entry(key, ort_session(path, package).run, None) for key, package in PACKAGES.items()]
    own = entry("session_run", zrt.Session(path, zrt.SessionOptions(**ONE_THREAD)).run)
    return Group("onnxruntime: a negation, 600 lengths in turn", [*theirs, own])


@pytest.mark.parametrize("way", [*PACKAGES, "session_run"])
def test_lengths_in_turn(compare: Compare, lengths: Group, way: str) -> None:
    compare(lengths, way)


@pytest.fixture(scope="module")
def bindings(work: tuple[str, Workload]) -> Group:
    """Each over the memory of a lane of its own."""
    title, load = work

    def lane() -> zrt.Lane:
        return load.lane(load.session())

    def entry(key: str, package: str) -> Entry:
        return iobinding_entry(key, ort_session(load.path, package), lane(), load.expected)

    own = lane_entry("lane", lane(), load.expected)
    return Group(f"onnxruntime: {title}, run_with_iobinding", [*(entry(*item) for item in PACKAGES.items()), own])


@pytest.mark.parametrize("way", [*PACKAGES, "lane"])
def test_run_with_iobinding(compare: Compare, bindings: Group, way: str) -> None:
    compare(bindings, way)


@pytest.fixture(scope="module", params=FORMS)
def forms(request: pytest.FixtureRequest, model_file: Callable[[str], Path]) -> Group:
    """The Add, with the arguments of `run` in one of their other forms, or by another method."""
    load, form = Workload.of(model_file("add")), FORMS[request.param]

    def entry(key: str, package: str) -> Entry:
        # The official package needs a thread besides the caller's for `run_async`.
        session = ort_session(load.path, package, threads=2 if form is run_async else 1)
        return call_entry(key, load.expected, form(importlib.import_module(package), session, load.inputs))

    return Group(f"onnxruntime: add, {request.param}", [entry(*item) for item in PACKAGES.items()])


@pytest.mark.parametrize("way", PACKAGES)
def test_form(compare: Compare, forms: Group, way: str) -> None:
    compare(forms, way)
