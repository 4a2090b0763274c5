"""Shared code of the suites: checked contenders that take turns, and the clock that pytest-benchmark reads."""

from __future__ import annotations

import importlib
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib import resources
from pathlib import Path
from time import perf_counter_ns as clock
from typing import Any, Final, TypeAlias
from unittest import SkipTest

import numpy as np
import onnx

import zrt
from benches.models import build
from zrt.bench import harness, synthetic
from zrt.bench.contenders import CLoop
from zrt.bench.harness import Contender, Series, python_contender
from zrt.bench.lanes import time_together
from zrt.lanes.ports import LaneMemory
from zrt.values.symbolic_shapes import Shape

Array: TypeAlias = "np.ndarray[Any, Any]"
Feeds: TypeAlias = "dict[str, Array]"
Check: TypeAlias = "Callable[[], None]"
Batch: TypeAlias = "Callable[[int], int]"
Compare: TypeAlias = "Callable[[Group, str], None]"

WAYS: Final = (
    "c_loop",
    "lane",
    "prepared_run",
    "session_run",
    "drop_in_run_with_iobinding",
    "drop_in_run",
    "ort_run_with_iobinding",
    "ort_run",
    "ort_run_again",
)
"""The contenders of `every_way`; the last two do the same, so their ratio shows how exact the measurement is."""
DROP_IN: Final = "zrt.onnxruntime"
ONE_THREAD: Final[dict[str, Any]] = {"intra_op_num_threads": 1}
WARM_UP_RUNS: Final = 1
MIB: Final = 1 << 20


class BatchClock:
    """pytest-benchmark's timer: it advances by a batch's mean, so that a round shows one run of that batch."""

    __slots__ = ("_seconds",)

    def __init__(self) -> None:
        self._seconds = 0.0

    def read(self) -> float:
        """The seconds so far."""
        return self._seconds

    def add(self, nanoseconds: float) -> None:
        """Advances the clock."""
        self._seconds += nanoseconds * 1e-9


CLOCK: Final = BatchClock()


@dataclass(frozen=True, slots=True)
class Entry:
    """A contender, and a check of its results."""

    contender: Contender
    check: Check


@dataclass(slots=True)
class Group:
    """Contenders that are compared: one table of pytest-benchmark.

    The first request measures all of them, in batches that take turns.
    """

    name: str
    entries: Sequence[Entry]
    missing: Mapping[str, str] = field(default_factory=dict)
    """Why a contender is missing, by its key."""
    _series: Mapping[str, Series] = field(default_factory=dict, init=False)

    def entry(self, key: str) -> Entry:
        """The entry of that key; raises `SkipTest` if it is missing, by which pytest skips the test."""
        if key in self.missing:
            raise SkipTest(self.missing[key])
        return next(entry for entry in self.entries if entry.contender.key == key)

    def series(self, seconds: float, fewest: int, paced: bool = False) -> Mapping[str, Series]:
        """Every contender's batches: `seconds` for each contender in total, but at least `fewest` rounds.

        With `paced` each is a run with empty caches.
        """
        if not self._series:
            contenders = [entry.contender for entry in self.entries]
            harness.warm_up(contenders, WARM_UP_RUNS)
            make_plan = harness.paced_plan if paced else harness.batch_plan
            self._series = harness.measure(contenders, make_plan(contenders, seconds=seconds, fewest=fewest))
        return self._series


def contender(key: str, batch: Batch) -> Contender:
    """A contender with a batch of its own."""
    return Contender(key, key, batch)


def fresh(key: str, prepare: Callable[[], Any], act: Callable[[Any], Any]) -> Contender:
    """Times `act` on a new object from `prepare` in each run; creating and releasing the object is not timed."""

    def batch(runs: int) -> int:
        took = 0
        for _ in range(runs):
            thing = prepare()
            start = clock()
            result = act(thing)
            took += clock() - start
            del thing, result
        return took

    return contender(key, batch)


def in_threads(key: str, contenders: Sequence[Contender]) -> Contender:
    """Contenders at the same time, each in a thread: the time from the first start to the last end, over all runs."""
    threads = len(contenders)

    def batch(runs: int) -> int:
        each = -(-runs // threads)
        return round(time_together(contenders, each) * runs / (each * threads))

    return contender(key, batch)


def per_item(one: Contender, items: int) -> Contender:
    """The contender with its time per item, where each run processes `items` of them."""

    def batch(wanted: int) -> int:
        runs = -(-wanted // items)
        return round(one.batch(runs) * wanted / (runs * items))

    return contender(one.key, batch)


def assert_same(results: Iterable[Array], expected: Iterable[Array]) -> None:
    """Asserts equal arrays up to rounding: kernels may sum in another order."""
    for result, wanted in zip(results, expected, strict=True):
        np.testing.assert_allclose(result, wanted, rtol=1e-4, atol=1e-5)


def lane_entry(key: str, lane: zrt.Lane, expected: Sequence[Array]) -> Entry:
    """`Lane.run`."""
    return Entry(python_contender(key, key, lane.run), lambda: assert_fills(lane, lane.run, expected))


def c_loop_entry(key: str, lane: zrt.Lane, expected: Sequence[Array]) -> Entry:
    """The loop that a C program would run over the binding of `lane`."""
    loop = CLoop(lane)
    return Entry(contender(key, loop.batch), lambda: assert_fills(lane, lambda: loop.batch(1), expected))


def call_entry(key: str, expected: Sequence[Array], call: Callable[..., Sequence[Array]], *arguments: Any) -> Entry:
    """A call with up to two arguments that returns arrays."""
    return Entry(python_contender(key, key, call, *arguments), lambda: assert_same(call(*arguments), expected))


def iobinding_entry(key: str, theirs: Any, lane: zrt.Lane, expected: Sequence[Array]) -> Entry:
    """The binding of onnxruntime, or of the drop-in, over the memory of `lane`.

    It allocates the outputs that the lane does not hold.
    """
    binding = theirs.io_binding()
    for name, array in lane.inputs.items():
        binding.bind_input(name, "cpu", 0, array.dtype, array.shape, array.ctypes.data)
    for port in lane.audit().outputs:
        if port.allocates:
            binding.bind_output(port.name, "cpu")
        else:
            array = lane.outputs[port.name]
            binding.bind_output(port.name, "cpu", 0, array.dtype, array.shape, array.ctypes.data)
    call = theirs.run_with_iobinding
    return Entry(
        python_contender(key, key, call, binding),
        lambda: assert_fills(lane, lambda: call(binding), expected, binding.copy_outputs_to_cpu),
    )


def lanes_entry(
    key: str,
    work: Workload,
    runtime: zrt.Runtime,
    entry_of: Callable[[str, zrt.Lane, Sequence[Array]], Entry] = lane_entry,
) -> Entry:
    """The lanes of a runtime, each in a thread of its own, run as by `entry_of`."""
    for lane in runtime:
        work.fill(lane)
    together = in_threads(key, [entry_of(key, lane, work.expected).contender for lane in runtime])

    def check() -> None:
        for lane in runtime:
            assert_fills(lane, lambda: together.batch(len(runtime)), work.expected)

    return Entry(together, check)


def calls_entry(key: str, work: Workload, count: int, call: Callable[..., Sequence[Array]], *arguments: Any) -> Entry:
    """The same call in this many threads."""
    together = in_threads(key, [python_contender(key, key, call, *arguments)] * count)
    return Entry(together, lambda: assert_same(call(*arguments), work.expected))


def assert_fills(
    lane: zrt.Lane,
    call: Callable[[], Any],
    expected: Sequence[Array],
    read: Callable[[], Iterable[Array]] | None = None,
) -> None:
    """Asserts that `call` writes the expected results into the outputs of `lane`, or into those that `read` returns."""
    for port in lane.audit().outputs:
        if not port.allocates:
            # All bits: NaN in floats of any width.
            lane.outputs[port.name].reshape(-1).view(np.uint8).fill(0xFF)
    call()
    assert_same(read() if read else lane.outputs.values(), expected)


@dataclass(frozen=True, slots=True)
class Workload:
    """A model in a file, inputs for it, and the outputs that onnxruntime computes from them."""

    path: Path
    shapes: dict[str, Shape]
    inputs: Feeds
    expected: list[Array]

    @classmethod
    def of(cls, path: Path, shapes: Mapping[str, Shape] | None = None) -> Workload:
        """A workload with synthetic inputs of these shapes; a dimension that stays open becomes 1."""
        with zrt.Session(path, zrt.SessionOptions(**ONE_THREAD)) as session:
            wanted = synthetic.input_shapes(session.inputs, shapes)
            inputs = synthetic.make_all(session.inputs, wanted)
        return cls(path, wanted, inputs, ort_session(path).run(None, inputs))

    def session(self, **options: Any) -> zrt.Session:
        """The model loaded into zrt, on one thread."""
        return zrt.Session(self.path, zrt.SessionOptions(**ONE_THREAD, **options))

    def lane(self, session: zrt.Session, memory: LaneMemory | None = None, **arguments: Any) -> zrt.Lane:
        """A lane that holds the inputs; `memory` is that of inputs and outputs."""
        lane = session.lane(self.shapes, **{"inputs": memory, "outputs": memory} | arguments)
        self.fill(lane)
        return lane

    def fill(self, lane: zrt.Lane) -> None:
        """Writes the inputs into a lane."""
        for name, array in self.inputs.items():
            lane.inputs[name][...] = array


def every_way(name: str, work: Workload) -> Group:
    """Every way to run the workload once, from the C loop to onnxruntime's `run`.

    Each way has a session of its own, and a lane where it needs one: weights and buffers that several ways share would
    be in the processor's caches for those, and not for the others.
    """

    def lane() -> zrt.Lane:
        return work.lane(work.session())

    def theirs(package: str = "onnxruntime") -> Any:
        return ort_session(work.path, package)

    expected, inputs = work.expected, work.inputs
    return Group(
        name,
        [
            c_loop_entry("c_loop", lane(), expected),
            lane_entry("lane", lane(), expected),
            call_entry("prepared_run", expected, work.session().prepare(inputs).run),
            call_entry("session_run", expected, work.session().run, inputs),
            iobinding_entry("drop_in_run_with_iobinding", theirs(DROP_IN), lane(), expected),
            call_entry("drop_in_run", expected, theirs(DROP_IN).run, None, inputs),
            iobinding_entry("ort_run_with_iobinding", theirs(), lane(), expected),
            call_entry("ort_run", expected, theirs().run, None, inputs),
            call_entry("ort_run_again", expected, theirs().run, None, inputs),
        ],
    )


def ort_session(path: Path, package: str = "onnxruntime", threads: int = 1) -> Any:
    """The model loaded into the official package or the drop-in; `SkipTest` without that package."""
    try:
        onnxruntime = importlib.import_module(package)
    except ImportError as error:
        raise SkipTest(f"{package} cannot be imported: {error}") from error
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    return onnxruntime.InferenceSession(os.fspath(path), options, providers=["CPUExecutionProvider"])


def digits() -> onnx.ModelProto:
    """The classifier that ships with zrt."""
    return onnx.load_model_from_string(resources.files("zrt.models").joinpath("digits.onnx").read_bytes())


MODELS: Final[dict[str, Callable[[], onnx.ModelProto]]] = {"digits": digits} | build.MODELS
"""The models of the suites, by name."""
