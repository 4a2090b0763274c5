"""Whatever Python can write down is answered: a right result, one of zrt's errors, or the caller's own exception."""

from __future__ import annotations

import array as array_module
import ctypes
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from hypothesis.stateful import Bundle, RuleBasedStateMachine, initialize, invariant, rule, run_state_machine_as_test

import zrt
from tests import models
from tests.robustness.conftest import Child
from tests.robustness.vocabulary import QUIET

# numpy warns of some of what is tried here.
pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")

# The same examples each time: what fails here fails everywhere.
STEADY = settings(
    derandomize=True,
    deadline=None,
    database=None,
    max_examples=300,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture, HealthCheck.data_too_large],
)

X, Y = np.arange(8, dtype=np.float32).reshape(2, 4), np.ones((2, 4), np.float32)
FLAGS = X.copy().flags
for each in (X, Y):
    each.setflags(write=False)
FEEDS = {"x": X, "y": Y}


class OwnError(Exception):
    """What the caller's own code raises; it comes back as it is."""


class OwnKeyError(OwnError, KeyError):
    """The same from a look-up."""


# What every bad input must end in, if it ends in an exception.
answered = suppress(zrt.Error, OwnError)


@pytest.fixture(scope="module")
def session() -> zrt.Session:
    """z = x + y over float32 [n, 4]."""
    return zrt.Session(models.add(["n", 4]), QUIET)


def works(session: zrt.Session) -> None:
    """The session gives the right result; the next run may take the short way."""
    for _ in range(2):
        np.testing.assert_array_equal(session.run(FEEDS)[0], X + Y)


# Objects that are not what they say.


class LyingBytes(bytes):
    """Sixteen times too short."""

    dtype = np.dtype(np.float32)
    shape = (2, 4)
    flags = FLAGS


class LyingArray(np.ndarray):
    """An array that says it is larger, writeable and contiguous."""

    shape = property(lambda self: (2, 4))
    nbytes = property(lambda self: 32)
    size = property(lambda self: 8)
    ndim = property(lambda self: 2)
    dtype = property(lambda self: np.dtype(np.float32))
    flags = property(lambda self: FLAGS)
    __repr__ = object.__repr__


class HugeArray(LyingArray):
    shape = property(lambda self: (2**24, 4))
    nbytes = property(lambda self: 2**28)


class Raising:
    """Raises wherever it is touched."""

    def __getattr__(self, name: str) -> Any:
        raise OwnError(name)

    def __len__(self) -> int:
        raise OwnError("len")

    def __getitem__(self, key: object) -> Any:
        raise OwnError("getitem")

    def __array__(self, *_: object, **__: object) -> Any:
        raise OwnError("array")


class Giving:
    """Gives what it was made with to whoever wants an array."""

    def __init__(self, given: Any) -> None:
        self.given = given

    def __array__(self, *_: object, **__: object) -> Any:
        return self.given


class Interface:
    def __init__(self, interface: Any) -> None:
        self.__array_interface__ = interface


class LongSequence(Sequence[Any]):
    """Has another length than it says."""

    def __init__(self, items: list[Any], length: int) -> None:
        self.items, self.length = items, length

    def __len__(self) -> int:
        return self.length

    def __getitem__(self, index: Any) -> Any:
        return self.items[index]


class OddMapping(Mapping[Any, Any]):
    """Has other keys than it lists, and another length."""

    def __init__(self, items: dict[Any, Any], keys: list[Any], length: int) -> None:
        self.items_, self.keys_, self.length = items, keys, length

    def __getitem__(self, key: Any) -> Any:
        if key not in self.items_:
            raise OwnKeyError(key)
        return self.items_[key]

    def __iter__(self) -> Iterator[Any]:
        return iter(self.keys_)

    def __len__(self) -> int:
        return self.length


def liars() -> list[Any]:
    short = np.zeros(1, np.float32)
    read_only = np.frombuffer(bytes(32), np.float32).reshape(2, 4)
    pointer = X.__array_interface__["data"]
    return [
        LyingBytes(b""),
        LyingBytes(b"ab"),
        short.view(LyingArray),
        short.view(HugeArray),
        np.zeros((2, 4)).view(LyingArray),
        np.zeros((4, 2), np.float32).T.view(LyingArray),
        read_only.view(LyingArray),
        Raising(),
        Giving(None),
        Giving(X[:1]),
        Giving(short.view(LyingArray)),
        Giving([[1.0]]),
        Giving(Giving(X)),
        Interface(5),
        Interface({}),
        Interface({"version": 3, "shape": (-1, 4), "typestr": "<f4", "data": pointer}),
        Interface({"version": 3, "shape": (2, 4), "typestr": "<f3", "data": pointer}),
        Interface({"version": 3, "shape": (2, 4), "typestr": "<f4", "data": pointer, "strides": (1, 1)}),
        Interface({"version": 3, "shape": (0, 4), "typestr": "<f4", "data": (0, False)}),
        Interface({"version": 3, "shape": "ab", "typestr": 5, "data": "no"}),
        array_module.array("f", range(8)),
        array_module.array("b", range(32)),
        (ctypes.c_float * 4 * 2)(),
        memoryview(bytes(32)).cast("f", [2, 4]),
        memoryview(bytes(32)),
        np.zeros((2, 4), np.float32).view(np.matrix),
        np.ma.masked_array(X, mask=X > 3),
        np.rec.array(np.zeros(2, "f4,f4")),
        np.float32(1),
        zrt.Session,
        zrt.Value.from_array(X),
        zrt.Buffer((2, 4), np.float32),
        zrt.ElementType.FLOAT,
        ...,
        NotImplemented,
        X.dtype,
        lambda: X,
    ]


LIARS = st.sampled_from(range(len(liars()))).map(lambda index: liars()[index])

DTYPES = st.one_of(
    st.sampled_from([np.dtype(kind) for kind in "?bBhHiIqQefdgFDGSUVOMm"]),
    hnp.scalar_dtypes(),
    hnp.array_dtypes(),
    hnp.nested_dtypes(),
    st.sampled_from([kind.dtype for kind in zrt.ElementType if kind.bits]),
)


@st.composite
def arrays(draw: Callable[..., Any]) -> np.ndarray:
    """Of any dtype and shape, sliced, turned, broadcast, read-only."""
    if draw(st.booleans()):
        dtype, shape = np.dtype(np.float32), draw(st.sampled_from([(2, 4), (4, 2), (3, 4), (0, 4), (8, 8), (2, 4, 1)]))
    else:
        dtype, shape = draw(DTYPES), draw(hnp.array_shapes(min_dims=0, max_dims=4, min_side=0, max_side=5))
    made = np.zeros(shape, dtype)
    for change in draw(st.lists(st.sampled_from("tsnrbzf"), max_size=3)):
        if change == "t":
            made = made.T
        elif change == "s" and made.ndim:
            made = made[:: draw(st.sampled_from([1, 2, -1]))]
        elif change == "n" and made.dtype.kind in "fiu":
            made = made.astype(made.dtype.newbyteorder())
        elif change == "r":
            made.setflags(write=False)
        elif change == "b":
            made = np.broadcast_to(made, (2, *made.shape))
        elif change == "z" and made.ndim:
            made = made[..., :4]
        elif change == "f":
            made = np.asfortranarray(made)
    return made


SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(),
    st.complex_numbers(),
    st.text(max_size=3),
    st.binary(max_size=9),
)
JSON = st.recursive(
    SCALARS,
    lambda each: st.one_of(
        st.lists(each, max_size=3), st.tuples(each, each), st.dictionaries(SCALARS, each, max_size=3)
    ),
    max_leaves=8,
)
FEED = st.one_of(arrays(), LIARS, JSON, st.just(X), st.just(Y))
NAMES = st.one_of(st.sampled_from(["x", "y"]), st.sampled_from(["z", "", "x\0", "\ud800", 0, None, (), b"x"]), SCALARS)
ANY_FEEDS = st.one_of(
    st.fixed_dictionaries({"x": FEED, "y": FEED}),
    st.dictionaries(NAMES, FEED, max_size=3),
    st.lists(FEED, min_size=2, max_size=2),
    st.lists(FEED, max_size=3),
    st.builds(LongSequence, st.lists(FEED, max_size=3), st.integers(0, 3)),
    st.builds(
        OddMapping,
        st.dictionaries(NAMES, FEED, max_size=3),
        st.lists(NAMES, max_size=3),
        st.integers(0, 3),
    ),
    FEED,
)


def right(feed: Any) -> bool:
    """Whether the feed is plainly one of the model's."""
    return type(feed) is np.ndarray and feed.dtype == np.float32 and feed.ndim == 2 and feed.shape[1] == 4


@STEADY
@given(feeds=ANY_FEEDS)
def test_any_feeds(session: zrt.Session, feeds: Any) -> None:
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
def test_any_feeds_borrowed(session: zrt.Session, feeds: Any) -> None:
    with answered, session.prepare(feeds) as prepared:
        prepared.run()
    works(session)


@STEADY
@given(feed=FEED, place=FEED, name=NAMES, output=NAMES)
def test_anything_bound(session: zrt.Session, feed: Any, place: Any, name: Any, output: Any) -> None:
    binding = session.binding()
    for attempt in (
        lambda: binding.bind_input(name, feed),
        lambda: binding.bind_output(output, place),
        lambda: binding.bind_input("x", feed),
        lambda: binding.bind_input("y", feed),
        lambda: binding.bind_output("z", place),
        binding.run,
        binding.numpy,
        lambda: zrt.copy(feed, place),
        lambda: zrt.copy(place, feed),
        lambda: zrt.Value.from_array(feed).numpy(),
        lambda: zrt.Value.from_packed(feed, "int4", (2, 4)),
        lambda: zrt.Value.from_packed(place, name, output),
        lambda: zrt.Buffer(feed, place),
    ):
        with answered:
            attempt()
    works(session)


SIZES = st.one_of(
    st.integers(0, 5),
    # What no process can have; between the two lies what the test's machine would have to give.
    st.sampled_from([-(2**70), -(2**63), -1, 2**45, 2**61, 2**62, 2**63 - 1, 2**63, 2**64, 2**70]),
    st.sampled_from([1.0, "4", None, True, np.int64(4), np.uint8(4), np.float32(4), 4j, b"4", (), [4]]),
)
SHAPE = st.one_of(
    st.tuples(SIZES, SIZES),
    st.tuples(st.integers(0, 5), st.just(4)),
    st.lists(SIZES, max_size=3),
    st.lists(st.integers(0, 1), min_size=60, max_size=70),
    SIZES,
    JSON.filter(lambda value: not isinstance(value, int)),
)
ANY_SHAPES = st.one_of(
    st.fixed_dictionaries({"x": SHAPE, "y": SHAPE}),
    st.dictionaries(NAMES, SHAPE, max_size=3),
    st.lists(SHAPE, max_size=3),
    st.builds(LongSequence, st.lists(SHAPE, max_size=3), st.integers(0, 3)),
    SHAPE,
)


@STEADY
@given(shapes=ANY_SHAPES, output_shapes=st.one_of(st.none(), ANY_SHAPES), index=st.one_of(st.integers(-2, 2), SCALARS))
def test_any_shapes(session: zrt.Session, shapes: Any, output_shapes: Any, index: Any) -> None:
    dynamic = zrt.DynamicRuntime(session, max_buckets=2)
    for attempt in (
        lambda: session.lane(shapes, output_shapes),
        lambda: session.lane(shapes),
        lambda: dynamic.lane(shapes, index, output_shapes),
        lambda: dynamic.lane(shapes),
    ):
        with answered:
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
        with answered:
            attempt()
    works(session)


@STEADY
@given(shape=st.one_of(SHAPE, JSON), dtype=st.one_of(DTYPES, JSON, st.sampled_from(list(zrt.ElementType))))
def test_any_memory(session: zrt.Session, shape: Any, dtype: Any) -> None:
    for attempt in (
        lambda: zrt.Buffer(shape, dtype).array,
        lambda: zrt.Value.allocate(shape, dtype).numpy(),
        lambda: zrt.Value.from_buffer(zrt.Buffer(shape, dtype)).numpy(),
        lambda: zrt.ElementType.of(dtype),
    ):
        with answered:
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
# Few threads: ONNX Runtime starts as many as it is told.
SETTING = st.one_of(JSON.filter(lambda value: not isinstance(value, int) or value < 0), st.integers(0, 3), ENTRIES)


@STEADY
@given(fields=st.dictionaries(st.sampled_from(FIELDS), SETTING, max_size=3))
def test_any_session_options(
    session: zrt.Session, fields: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Some settings name files.
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
    """Anything done to a session and what is made of it, in any order; each result is right or a typed error."""

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

    @rule(thing=st.one_of(tensors, lanes, runs))
    def close(self, thing: Any) -> None:
        if hasattr(thing, "close"):
            thing.close()

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


def test_anything_in_any_order() -> None:
    run_state_machine_as_test(Uses, settings=settings(STEADY, max_examples=60, stateful_step_count=40))


# Feeds that change something while they are read.


class Changing(dict[str, Any]):
    """Does something each time that a feed is taken."""

    def __init__(self, feeds: Mapping[str, Any], deed: Callable[[], object]) -> None:
        super().__init__(feeds)
        self.deed = deed

    def __getitem__(self, name: str) -> Any:
        self.deed()
        return super().__getitem__(name)

    def __len__(self) -> int:
        self.deed()
        return super().__len__()

    def keys(self) -> Any:
        self.deed()
        return super().keys()


class ChangingArray:
    """Does something when an array is made of it."""

    def __init__(self, array: Any, deed: Callable[[], object]) -> None:
        self.array, self.deed = array, deed

    def __array__(self, *_: object, **__: object) -> Any:
        self.deed()
        return self.array


def changing(deed: Callable[[], object], array: Any = X) -> list[Any]:
    return [
        Changing({"x": array, "y": Y}, deed),
        {"x": ChangingArray(array, deed), "y": Y},
        [array, ChangingArray(Y, deed)],
    ]


@pytest.mark.parametrize("way", range(3))
def test_feeds_that_close_the_session(way: int) -> None:
    session = zrt.Session(models.add(["n", 4]), QUIET)
    works(session)
    feeds = changing(session.close)[way]
    try:
        result = session.run(feeds)[0]
    except zrt.errors.ClosedError:
        pass
    else:
        np.testing.assert_array_equal(result, X + Y)
    assert session.closed
    with pytest.raises(zrt.errors.ClosedError):
        session.run(FEEDS)


@pytest.mark.parametrize("way", range(3))
def test_feeds_that_run_the_session(session: zrt.Session, way: int) -> None:
    works(session)
    other = np.ones((3, 4), np.float32)
    feeds = changing(lambda: session.run([other, other]))[way]
    np.testing.assert_array_equal(session.run(feeds)[0], X + Y)
    works(session)


@pytest.mark.parametrize("way", range(3))
def test_feeds_that_raise(session: zrt.Session, way: int) -> None:
    def fail() -> None:
        raise OwnError

    works(session)
    with pytest.raises(OwnError):
        session.run(changing(fail)[way])
    works(session)


@pytest.mark.parametrize("way", range(3))
def test_feeds_that_change_an_array(session: zrt.Session, way: int) -> None:
    """The other array gets a new shape and type in the midst: what is run is what was checked."""
    works(session)
    array = X.copy()

    def change() -> None:
        # numpy itself refuses to move the memory while it is in use (unless `refcheck=False` says that it may).
        try:
            array.resize((2000, 2000))
        except ValueError:
            array.shape = (4, 2) if array.shape == (2, 4) else (2, 4)

    for _ in range(20):
        try:
            result = session.run(changing(change, array)[way])[0]
        except zrt.Error:
            continue
        assert result.shape == (2, 4)
    works(session)


def test_an_array_in_use_cannot_be_resized(session: zrt.Session) -> None:
    array = X.copy()
    holders = [zrt.Value.from_array(array), session.prepare([array, Y])]
    with pytest.raises(ValueError, match="resize"):
        array.resize((1, 1))
    assert len(holders) == 2


def test_bound_memory_that_cannot_be_written(child: Child) -> None:
    """A file mapped to be read: writing there is the end of a process."""
    child(
        """
        import mmap, tempfile
        with tempfile.TemporaryFile() as file:
            file.write(bytes(4096))
            file.flush()
            mapped = mmap.mmap(file.fileno(), 4096, prot=mmap.PROT_READ)
        array = np.frombuffer(mapped, np.float32, 4)
        value = zrt.Value.from_array(array)
        one = session()
        bound = binding(one)
        for place in (array, value, zrt.Value.from_array(value.numpy()), array.view(np.ndarray)):
            for attempt in (lambda: bound.bind_output("z", place), lambda: zrt.copy(FEEDS["x"], place)):
                try:
                    attempt()
                except zrt.errors.ArgumentError:
                    continue
                raise AssertionError(attempt)
        assert not value.numpy().flags.writeable
        assert np.array_equal(one.run({"x": value, "y": array})[0], np.zeros(4))
        """
    )
