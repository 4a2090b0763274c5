"""`Runner`: runs batches of one model on one thread, on lanes where their shapes recur."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import numpy as np

from zrt.errors import Error, MemoryLimitError, ShapeError, TerminatedError, UnsupportedError
from zrt.lanes.dynamic_runtime import DynamicRuntime
from zrt.lanes.lane import Lane
from zrt.lanes.rows import write_rows
from zrt.loading.run_options import RunOptions
from zrt.serving.batches import Job, Results, clock
from zrt.serving.parse import Array
from zrt.serving.signature import Signature
from zrt.session.session import Session
from zrt.values.symbolic_shapes import Shape

if TYPE_CHECKING:
    # A module of an extra, which runs need not.
    from zrt.serving.metrics import ModelMetrics

Shapes: TypeAlias = "dict[str, Shape]"

# The shapes that a runner remembers, to make a lane when they come again.
SHAPES_KEPT = 1024

# The rows of a request may differ between a run alone and a shared one by this part of the largest value: kernels add
# in another order, and quantized models have scales that depend on the batch.
TOLERANCE = 0.02


# An output that has no finite number in so many compared runs may never have one.
SILENT_RUNS = 8


@dataclass(slots=True, eq=False)
class Batching:
    """Whether the requests of a model share runs; the model's runners share this object.

    The model's declaration allows it, and the first shared run proves it: the rows of its first and its last request
    are those of runs alone. Otherwise no run is shared from then on. Where all its requests are equal, a run
    beside made-up ones has to show the same; if the model refuses those, the proof holds for equal requests alone. A
    run with an output without any finite number proves nothing, and the next is compared too; after `SILENT_RUNS` of
    them the other outputs are enough.
    """

    allowed: bool
    proven: bool = False
    proven_for_equal: bool = False
    silent_runs: int = 0
    """The shared runs that proved nothing."""
    refuted: str = ""
    """The reason why a run showed that requests cannot share runs."""


class _NotSharedError(Exception):
    """A run showed that the requests of the model cannot share runs."""


class _Run(NamedTuple):
    """A run that has ended."""

    outputs: Results
    rows: int
    copying: float
    """The seconds of its copies."""
    running: float
    """Those of ONNX Runtime."""


class Runner:
    """The lanes of one thread, and the runs on them.

    A lane is made when its shapes come for the second time. Until then, and for models with strings, the session itself
    runs. Only one thread calls `run`; `give_up` may be called from any.
    """

    def __init__(
        self, session: Session, signature: Signature, batching: Batching, max_batch: int, metrics: ModelMetrics
    ) -> None:
        self._session = session
        self._signature = signature
        self._outputs = list(signature.outputs)
        self._batching = batching
        self._max_batch = max_batch
        self._metrics = metrics
        # No deadline ends a trial run, which goes on for ever where made-up data do not end a loop of the model.
        self._runtime = DynamicRuntime(session, trials=False)
        # The shapes that came, and whether they may have a lane.
        self._known: OrderedDict[tuple[Shape, ...], bool] = OrderedDict()
        self._options = RunOptions()
        self._current: Sequence[Job] = ()
        self._lock = threading.Lock()

    def run(self, jobs: Sequence[Job]) -> list[Any]:
        """Runs jobs, together where that is possible: the value of each job's `finish`, or its exception."""
        with self._lock:
            self._current = jobs
        try:
            return self._run(jobs)
        finally:
            with self._lock:
                self._current = ()
                if self._options.terminated:
                    self._options.reset()

    def give_up(self) -> None:
        """Ends the run in progress if nobody waits for any of its jobs."""
        with self._lock:
            if self._current and all(job.future.done() for job in self._current):
                self._options.terminate()

    def close(self) -> None:
        self._runtime.close()

    def _run(self, jobs: Sequence[Job]) -> list[Any]:
        if jobs[0].key is not None and self._batching.allowed and (len(jobs) > 1 or self._batching.proven):
            try:
                return self._together(jobs)
            except _NotSharedError as reason:
                self._batching.refuted = self._batching.refuted or str(reason)
                self._batching.allowed = False
            except TerminatedError as error:
                return [error] * len(jobs)
            except MemoryLimitError:
                half = len(jobs) // 2
                if half:
                    return self._run(jobs[:half]) + self._run(jobs[half:])
            except BaseException:
                # Some job is the cause, and the others must not suffer from it: each runs alone.
                pass
        return [self._alone(job) for job in jobs]

    def _alone(self, job: Job) -> Any:
        if job.future.done():
            return None
        try:
            run = self._compute([job])
        except MemoryLimitError as error:
            # Only rows that are known not to depend on each other.
            divisible = job.rows > 1 and job.key is not None and self._batching.allowed and self._batching.proven
            return self._divided(job) if divisible else error
        except Error as error:
            return error
        except BaseException as error:
            # Raised, a `SystemExit` of a custom operator would end this thread, which has further requests to run.
            failed = RuntimeError(f"a run ended with {error!r}")
            failed.__cause__ = error
            return failed
        return self._finished([job], [run.outputs], run)[0]

    def _divided(self, job: Job) -> Any:
        """The value of a job that is computed in two halves."""
        halves = []
        for rows in (slice(job.rows // 2), slice(job.rows // 2, job.rows)):
            feeds = {name: array[rows] for name, array in job.feeds.items()}
            half = self._alone(Job(feeds, _copied, job.future, len(range(job.rows)[rows]), job.key))
            if not isinstance(half, dict):
                return half
            halves.append(half)
        return _value(job, {name: np.concatenate([half[name] for half in halves]) for name in self._outputs})

    def _together(self, jobs: Sequence[Job]) -> list[Any]:
        """The values of jobs that share a run."""
        rows = sum(job.rows for job in jobs)
        proven = self._batching.proven
        run = self._compute(jobs, bucket_size(rows, self._max_batch) if proven else rows)
        for name, array in run.outputs.items():
            if array.shape[:1] != (run.rows,):
                raise _NotSharedError(f"output {name!r} has shape {list(array.shape)} after a run of {run.rows} rows")
        ends = list(accumulate(job.rows for job in jobs))
        results = [
            {name: array[end - job.rows : end] for name, array in run.outputs.items()}
            for job, end in zip(jobs, ends, strict=True)
        ]
        if not proven:
            feeds = jobs[0].feeds
            equal = all(same(array, feeds[name], 0) for job in jobs for name, array in job.feeds.items())
            if not (equal and self._batching.proven_for_equal):
                # If rows depend on those before or after them, the first or the last request differs.
                tells = [self._proves(jobs[place], results[place]) for place in (0, -1)]
                proves = not equal or self._proves_beside_another(jobs[0])
                if all(tells):
                    self._batching.proven, self._batching.proven_for_equal = proves, True
                else:
                    self._batching.silent_runs += 1
        return self._finished(jobs, results, run)

    def _finished(self, jobs: Sequence[Job], results: Sequence[Results], run: _Run) -> list[Any]:
        """The value of each job's `finish` for its results, or its exception."""
        begin = clock()
        values = [_value(job, each) for job, each in zip(jobs, results, strict=True)]
        rows = sum(job.rows for job, value in zip(jobs, values, strict=True) if not isinstance(value, Exception))
        self._metrics.computed(rows, run.copying, run.running, clock() - begin)
        return values

    def _proves(self, job: Job, shared: Results) -> bool:
        """Compares the results of a job in a shared run with those of a run alone.

        False if an output has no finite number: such an output may be the same whatever else is in the run.
        """
        alone = self._without_lane(job.feeds)
        for name, array in alone.items():
            if not same(shared[name], array):
                raise _NotSharedError(f"output {name!r} of a request has other values when the request shares a run")
        tells = [array.dtype.kind in "biuO" or not array.size or np.isfinite(array).any() for array in alone.values()]
        return any(tells) if self._batching.silent_runs >= SILENT_RUNS else all(tells)

    def _proves_beside_another(self, job: Job) -> bool:
        """Compares the results of a job beside made-up ones with those of a run alone; False if those cannot run."""
        feeds = {name: np.concatenate([array, *_made_up(array)]) for name, array in job.feeds.items()}
        try:
            shared = self._without_lane(feeds)
        except TerminatedError:
            raise
        except Error:
            return False
        return self._proves(job, {name: array[: job.rows] for name, array in shared.items()})

    def _compute(self, jobs: Sequence[Job], size: int | None = None) -> _Run:
        """Runs the rows of all jobs; on a lane these are `size` rows, at whose end the last one repeats.

        Without `size` there is one job, which has its own shapes.
        """
        hit = False
        begin = clock()
        rows = sum(job.rows for job in jobs)
        # In the order of the model's inputs: clients may name these in any.
        parts = {name: [job.feeds[name] for job in jobs] for name in self._signature.inputs}
        try:
            if self._signature.lanes:
                own = {name: arrays[0].shape for name, arrays in parts.items()}
                shapes = own if size is None else {name: (size, *shape[1:]) for name, shape in own.items()}
                lane, hit = self._lane(shapes)
                if lane is not None:
                    for name, arrays in parts.items():
                        write_rows(lane.inputs[name], arrays)
                    copied = clock()
                    try:
                        lane.run_with(self._options)
                        outputs = {name: np.asarray(lane.outputs[name]) for name in self._outputs}
                        return _Run(outputs, size or rows, copied - begin, clock() - copied)
                    except (ShapeError, UnsupportedError):
                        # An output is not as the model declares it: the session runs it nevertheless.
                        self._known[tuple(shapes.values())] = hit = False
            feeds = {name: arrays[0] if len(arrays) == 1 else np.concatenate(arrays) for name, arrays in parts.items()}
            copied = clock()
            return _Run(self._without_lane(feeds), rows, copied - begin, clock() - copied)
        finally:
            self._metrics.ran(rows, clock() - begin, hit)

    def _without_lane(self, feeds: Results) -> Results:
        """The outputs of a run of the session itself."""
        outputs = self._session.run(feeds, self._outputs, self._options)
        return dict(zip(self._outputs, map(np.asarray, outputs), strict=True))

    def _lane(self, shapes: Shapes) -> tuple[Lane | None, bool]:
        """The lane for these shapes, if they may have one, and whether that lane was there."""
        key = tuple(shapes.values())
        allowed = self._known.get(key)
        if allowed is None:
            if len(self._known) >= SHAPES_KEPT:
                self._known.popitem(last=False)
            self._known[key] = True
            return None, False
        if not allowed:
            return None, False
        self._known.move_to_end(key)
        misses = self._runtime.counters.misses
        try:
            lane = self._runtime.lane(shapes)
        except Error:
            # The session may still run these feeds, and says what is wrong with them otherwise.
            self._known[key] = False
            return None, False
        return lane, misses == self._runtime.counters.misses


def _made_up(array: Array) -> list[Array]:
    """Two arrays of that shape of other values; different whole numbers or texts may be indices, and stay in use."""
    kind = array.dtype.kind
    if not array.size:
        return [array, array]
    if kind in "biuO" and array.min() != array.max():
        return [np.full_like(array, value) for value in (array.min(), array.max())]
    if kind == "O":
        return [array + "x", array + "y"]
    if kind == "b":
        return [~array, ~array]
    if kind in "iu":
        return [array + 1, array - 1]
    array = np.where(np.isfinite(array), array, np.ones_like(array))
    with np.errstate(over="ignore", invalid="ignore"):
        return [(factor * array + factor).astype(array.dtype) for factor in (3, -7)]


def _copied(results: Results) -> Results:
    return {name: array.copy() for name, array in results.items()}


def _value(job: Job, results: Results) -> Any:
    try:
        return job.finish(results)
    except Exception as error:
        return error


def bucket_size(rows: int, most: int) -> int:
    """The rows of the lane for a batch: the next of 1, 2, 3, 4, 6, 8, 12, 16, 24 and so on, at most `most`."""
    size = 1 << (rows - 1).bit_length()
    return min(size * 3 // 4 if size >= 4 and rows <= size * 3 // 4 else size, most)


def same(shared: Array, alone: Array, tolerance: float = TOLERANCE) -> bool:
    """Whether the rows of a shared run are those of a run alone, up to rounding; NaN equals NaN here."""
    if shared.shape != alone.shape:
        return False
    if shared.dtype.kind in "biuO":
        return np.array_equal(shared, alone)
    # The kind of bfloat16 is none of numpy's.
    left, right = shared.astype(np.float64), alone.astype(np.float64)
    largest = np.abs(right[np.isfinite(right)]).max(initial=0.0)
    return np.allclose(left, right, rtol=0, atol=tolerance * largest, equal_nan=True)
