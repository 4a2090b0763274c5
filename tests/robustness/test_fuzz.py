"""Arbitrary arguments give a right result, an error of zrt, or the caller's own exception."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, initialize, invariant, rule, run_state_machine_as_test

import zrt
from tests.robustness.anything import (
    ANY_FEEDS,
    ANY_SHAPES,
    DTYPES,
    FEED,
    FEEDS,
    JSON,
    NAMES,
    SCALARS,
    SHAPE,
    OddMapping,
    OwnError,
    X,
    Y,
    typed_errors,
    works,
)
from tests.robustness.vocabulary import QUIET
from tests.support import models
from tests.support.times import TIMES

# Some of these arguments make numpy warn.
pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")

# The same examples in every run, and others where they are to be more.
STEADY = settings(
    derandomize=TIMES == 1,
    deadline=None,
    database=None,
    max_examples=300 * TIMES,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture, HealthCheck.data_too_large],
)


def right(feed: Any) -> bool:
    """Whether the feed has the model's type and shape."""
    return type(feed) is np.ndarray and feed.dtype == np.float32 and feed.ndim == 2 and feed.shape[1] == 4


@STEADY
@given(feeds=ANY_FEEDS)
def test_run_with_any_feeds(session: zrt.Session, feeds: Any) -> None:
    works(session)
    try:
        results = session.run(feeds)
    except (zrt.Error, OwnError):
        pass
    else:
        (result,) = results
        assert result.dtype == np.float32
        fed = [feeds["x"], feeds["y"]] if isinstance(feeds, (dict, OddMapping)) else list(feeds)
        if all(map(right, fed)):
            np.testing.assert_array_equal(result, fed[0] + fed[1])
    works(session)


@STEADY
@given(feeds=ANY_FEEDS)
def test_prepare_with_any_feeds(session: zrt.Session, feeds: Any) -> None:
    with typed_errors, session.prepare(feeds) as prepared:
        prepared.run()
    works(session)


@STEADY
@given(feed=FEED, place=FEED, name=NAMES, output=NAMES)
def test_binding_and_values_with_any_arguments(
    session: zrt.Session, feed: Any, place: Any, name: Any, output: Any
) -> None:
    binding = session.binding()
    for attempt in (
        lambda: binding.bind_input(name, feed), lambda: binding.bind_output(output, place),
        lambda: binding.bind_input("x", feed), lambda: binding.bind_input("y", feed),
        lambda: binding.bind_output("z", place), binding.run, binding.numpy, lambda: zrt.copy(feed, place),
        lambda: zrt.copy(place, feed), lambda: zrt.Value.from_array(feed).numpy(),
        lambda: zrt.Value.from_packed(feed, "int4", (2, 4)), lambda: zrt.Value.from_packed(place, name, output),
        lambda: zrt.Buffer(feed, place),
    ):  # fmt: skip
        with typed_errors:
            attempt()
    works(session)


@STEADY
@given(shapes=ANY_SHAPES, output_shapes=st.one_of(st.none(), ANY_SHAPES), index=st.one_of(st.integers(-2, 2), SCALARS))
def test_lanes_with_any_shapes(session: zrt.Session, shapes: Any, output_shapes: Any, index: Any) -> None:
    dynamic = zrt.DynamicRuntime(session, max_buckets=2)
    for attempt in (
        lambda: session.lane(shapes, output_shapes), lambda: session.lane(shapes),
        lambda: dynamic.lane(shapes, index, output_shapes), lambda: dynamic.lane(shapes),
    ):  # fmt: skip
        with typed_errors:
            lane = attempt()
            for view in lane.inputs.values():
                view[...] = 1
            lane.run()
            assert (lane.outputs["z"] == 2).all()
            lane.audit()
    for attempt in (
        lambda: dynamic.remove(shapes, output_shapes),
        lambda: dynamic.prebuild(shapes),
        lambda: dynamic.warm([shapes], index),
    ):
        with typed_errors:
            attempt()
    works(session)


@STEADY
@given(shape=st.one_of(SHAPE, JSON), dtype=st.one_of(DTYPES, JSON, st.sampled_from(list(zrt.ElementType))))
def test_allocation_with_any_shape_and_dtype(session: zrt.Session, shape: Any, dtype: Any) -> None:
    for attempt in (
        lambda: zrt.Buffer(shape, dtype).array, lambda: zrt.Value.allocate(shape, dtype).numpy(),
        lambda: zrt.Value.from_buffer(zrt.Buffer(shape, dtype)).numpy(), lambda: zrt.ElementType.of(dtype),
    ):  # fmt: skip
        with typed_errors:
            attempt()
    works(session)


FIELDS = [name for name in zrt.SessionOptions.__dataclass_fields__ if not name.endswith(("prefix", "filepath"))]
KEYS = st.one_of(
    st.sampled_from([
        "session.load_model_format",
        "session.save_model_format",
        "session.disable_prepacking",
        "session.use_env_allocators",
        "session.use_ort_model_bytes_directly",
        "session.set_denormal_as_zero",
        "session.dynamic_block_base",
        "session.intra_op_thread_affinities",
        "session.force_spinning_stop",
        "session.strict_shape_type_inference",
        "session.graph_optimizations_loop_level",
        "session.disable_cpu_ep_fallback",
        "session.model_external_initializers_file_folder_path",
        "optimization.minimal_build_optimizations",
        "optimization.disable_specified_optimizers",
        "memory.enable_memory_arena_shrinkage",
        "ep.context_enable",
    ]),
    st.text(max_size=9),
)  # fmt: skip
ENTRIES = st.dictionaries(
    KEYS,
    st.one_of(
        st.sampled_from(["", "0", "1", "-1", "99999999999999999999", "1.5", "nan", "cpu:0", "1,2;3", "/dev/null"]),
        st.text(max_size=9),
        SCALARS,
    ),
    max_size=2,
)
# Few threads: ONNX Runtime starts any number that it gets.
SETTING = st.one_of(JSON.filter(lambda value: not isinstance(value, int) or value < 0), st.integers(0, 3), ENTRIES)


@STEADY
@given(fields=st.dictionaries(st.sampled_from(FIELDS), SETTING, max_size=3))
def test_any_session_options(
    session: zrt.Session, fields: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Some settings create files in the working directory.
    monkeypatch.chdir(tmp_path)
    fields = {"log_severity_level": "FATAL", "intra_op_num_threads": 1} | fields
    try:
        made = zrt.Session(models.add(["n", 4]), zrt.SessionOptions(**fields))
    except (zrt.Error, OwnError):
        pass
    else:
        shape = [info if isinstance(info, int) else 2 for info in made.inputs[0].shape or ()]
        if all(size < 100 for size in shape):
            ones = np.ones(shape, np.float32)
            np.testing.assert_array_equal(made.run([ones, ones])[0], ones + 1)
    works(session)


@STEADY
@given(
    fields=st.dictionaries(
        st.sampled_from(["tag", "log_severity_level", "log_verbosity_level", "config_entries"]),
        st.one_of(SETTING, ENTRIES),
        max_size=3,
    ),
    outputs=st.one_of(st.none(), JSON, st.lists(NAMES, max_size=2)),
)
def test_any_run_options(session: zrt.Session, fields: dict[str, Any], outputs: Any) -> None:
    for attempt in (
        lambda: session.run(FEEDS, options=zrt.RunOptions(**{"log_severity_level": 4} | fields)),
        lambda: session.run(FEEDS, outputs),
    ):
        try:
            (result,) = attempt()
        except (zrt.Error, OwnError):
            continue
        np.testing.assert_array_equal(result, X + Y)
    works(session)


class Uses(RuleBasedStateMachine):
    """Uses of a session and its objects, in any order: each gives a right result or a typed error."""

    @initialize()
    def start(self) -> None:
        self.session = zrt.Session(models.add(["n", 4]), QUIET)
        self.binding = self.session.binding()

    lanes: Bundle[Any] = Bundle("lanes")
    tensors: Bundle[Any] = Bundle("tensors")
    runs: Bundle[Any] = Bundle("runs")

    def attempt(self, call: Callable[[], Any]) -> Any:
        try:
            return call()
        except zrt.Error:
            return None

    @rule(target=tensors, rows=st.integers(0, 3), kind=st.integers(0, 4))
    def make_tensor(self, rows: int, kind: int) -> Any:
        ones = np.ones((rows, 4), np.float32)
        if kind == 0:
            return ones
        if kind == 1:
            return zrt.Value.from_array(ones)
        if kind == 2:
            buffer = zrt.Buffer((rows, 4), np.float32)
            buffer.array[...] = 1
            return buffer
        if kind == 3:
            value = zrt.Value.allocate((rows, 4), np.float32)
            value.numpy()[...] = 1
            return value
        ones.setflags(write=False)
        return ones

    @rule(target=lanes, rows=st.integers(0, 3), left=st.booleans())
    def make_lane(self, rows: int, left: bool) -> Any:
        where = zrt.LaneMemory.left() if left else zrt.LaneMemory()
        return self.attempt(lambda: self.session.lane([(rows, 4), (rows, 4)], outputs=where))

    @rule(target=runs, x=tensors, y=tensors)
    def prepare(self, x: Any, y: Any) -> Any:
        return self.attempt(lambda: self.session.prepare([x, y]))

    @rule(prepared=runs)
    def run_prepared(self, prepared: Any) -> None:
        if prepared is not None:
            self.attempt(prepared.run)

    @rule(x=tensors, y=tensors)
    def run(self, x: Any, y: Any) -> None:
        results = self.attempt(lambda: self.session.run({"x": x, "y": y}))
        assert results is None or results[0].dtype == np.float32

    @rule(name=st.sampled_from(["x", "y"]), tensor=tensors)
    def bind_input(self, name: str, tensor: Any) -> None:
        self.attempt(lambda: self.binding.bind_input(name, tensor))

    @rule(tensor=tensors)
    def bind_output(self, tensor: Any) -> None:
        self.attempt(lambda: self.binding.bind_output("z", tensor))

    @rule()
    def leave_output(self) -> None:
        self.attempt(lambda: self.binding.bind_output("z"))

    @rule(which=st.sampled_from(["inputs", "outputs"]))
    def clear(self, which: str) -> None:
        self.attempt(getattr(self.binding, f"clear_{which}"))

    @rule()
    def run_binding(self) -> None:
        self.attempt(self.binding.run)

    @rule(target=tensors)
    def read_binding(self) -> Any:
        outputs = self.attempt(self.binding.outputs)
        return outputs["z"] if outputs else np.ones((1, 4), np.float32)

    @rule(lane=lanes)
    def run_lane(self, lane: Any) -> None:
        def run() -> None:
            lane.inputs["x"][...] = 3
            lane.inputs["y"][...] = 4
            lane.run()
            assert (lane.outputs["z"] == 7).all()

        if lane is not None:
            self.attempt(run)

    @rule(target=tensors, lane=lanes)
    def view_of_lane(self, lane: Any) -> Any:
        view = None if lane is None else self.attempt(lambda: lane.outputs["z"])
        return np.ones((1, 4), np.float32) if view is None else view

    @rule(source=tensors, destination=tensors)
    def copy(self, source: Any, destination: Any) -> None:
        self.attempt(lambda: zrt.copy(source, destination))

    @rule(subject=st.one_of(tensors, lanes, runs))
    def close(self, subject: Any) -> None:
        if hasattr(subject, "close"):
            subject.close()

    @rule(which=st.sampled_from(["session", "binding"]))
    def close_and_open(self, which: str) -> None:
        getattr(self, which).close()
        if which == "session":
            self.session = zrt.Session(models.add(["n", 4]), QUIET)
        self.binding = self.session.binding()

    @invariant()
    def works(self) -> None:
        if hasattr(self, "session"):
            works(self.session)


def test_uses_in_any_order() -> None:
    run_state_machine_as_test(Uses, settings=settings(STEADY, max_examples=60 * TIMES, stateful_step_count=40))
