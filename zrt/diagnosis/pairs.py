"""Measures a recipe of a session beside another one, each in sessions of its own that take turns."""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, replace
from functools import partial
from itertools import cycle
from time import perf_counter_ns as clock
from typing import Any, Final, TypeAlias

import numpy as np

from zrt.bench import child, footprint, harness
from zrt.bench.harness import Contender, Latency, Plan, python_contender
from zrt.bench.lanes import time_together
from zrt.diagnosis.candidates import Goal, with_options
from zrt.diagnosis.differences import ATOL, RTOL, compare
from zrt.environment.cpu_limits import cpus
from zrt.errors import Error, UnsupportedError, ZrtError
from zrt.session.session import Session
from zrt.session.spec import SessionSpec
from zrt.types import LogSeverity
from zrt.values.value import Value

Feeds: TypeAlias = "Mapping[str, Any]"

# The processes of each recipe for one comparison of memory.
PROCESSES: Final = 2
# The groups of rounds of half a comparison, at least.
GROUPS: Final = 5
# The single calls of which a 99th percentile is one.
CALLS_OF_P99: Final = 100
PACED_ROUNDS: Final = 20
# The runs of which the shortest says how long a run takes: on a busy machine one may take many times as long.
LOOKS: Final = 3
# The rows of the batches that are tried where a model takes any number.
SIZES: Final = (1, 2, 4, 8, 16, 32, 64)
ONE, OTHER = "one", "other"


class DiffersError(ZrtError):
    """The results of two recipes are not within the tolerance."""


class OutOfTimeError(ZrtError):
    """The time for all measurements is over."""


@dataclass(frozen=True, slots=True)
class Ratios:
    """The time or memory of one recipe as a part of the other's, in each group of rounds."""

    hot: tuple[float, ...]
    """Of batches with warm caches, or of processes."""
    paced: tuple[float, ...] = ()
    """Of single calls with empty caches; none where they were not made."""


class Pairs:
    """Comparisons of recipes of one model, for one goal.

    `parts` are lists of feeds, of which a comparison uses one. A comparison takes about `seconds` for each recipe, and
    none goes on after `end_ns` of the clock.
    """

    def __init__(self, parts: Sequence[Sequence[Feeds]], goal: Goal, seconds: float, end_ns: int) -> None:
        self._parts = parts
        self._goal = goal
        self._seconds = seconds
        self._end = end_ns
        self._callers: int = cpus() if goal == "throughput" else 1

    def compare(self, one: SessionSpec, other: SessionSpec, part: int) -> Ratios:
        """Measures both recipes on one part of the feeds.

        Raises the errors of loads and runs, `DiffersError`, and `OutOfTimeError`.
        """
        specs = {ONE: one, OTHER: other}
        with one.load() as mine, other.load() as its:
            for feeds in self._parts[part]:
                self._in_time()
                _require_equal(mine, its, feeds)
        if self._goal == "memory":
            return self._sizes(specs, part)
        # The session that is loaded later has other memory, and may be faster for that alone: each recipe is it once.
        first, second = self._times(specs, (OTHER, ONE), part), self._times(specs, (ONE, OTHER), part)
        return Ratios(first.hot + second.hot, first.paced + second.paced)

    def _in_time(self, *_: object) -> None:
        if clock() > self._end:
            raise OutOfTimeError("the time is over")

    def _contender(self, key: str, session: Session, part: int) -> Contender:
        def caller() -> Contender:
            turns = cycle(self._parts[part])
            if len(self._parts[part]) == 1:
                return python_contender(key, key, session.run, next(turns))
            return python_contender(key, key, lambda: session.run(next(turns)))

        def slowest(runs: int) -> int:
            times = []
            for _ in range(runs):
                self._in_time()
                times.append(one.batch(1))
            return Latency.of(times).percentile(99) * runs

        one = caller()
        if self._goal == "p99":
            return replace(one, batch=slowest)
        if self._goal == "throughput":
            return replace(one, batch=partial(time_together, [caller() for _ in range(self._callers)]))
        return one

    def _times(self, specs: Mapping[str, SessionSpec], order: Sequence[str], part: int) -> Ratios:
        """Half a comparison, on sessions that are loaded in this order."""
        with ExitStack() as stack:
            sessions = {key: stack.enter_context(specs[key].load()) for key in order}
            return self._batches([self._contender(key, sessions[key], part) for key in specs])

    def _batches(self, contenders: Sequence[Contender]) -> Ratios:
        plan = harness.batch_plan(contenders, seconds=self._seconds / 2, fewest=GROUPS)
        if self._goal == "p99":
            plan = Plan(plan.rounds, {key: max(runs, CALLS_OF_P99) for key, runs in plan.runs.items()})
        hot = self._ratios(contenders, plan)
        if self._goal == "throughput" or max(plan.runs.values()) == 1:
            # Caches are never warm where others use them at the same time, or after a batch of one long run.
            return Ratios(hot)
        return Ratios(hot, self._ratios(contenders, harness.paced_plan(contenders, PACED_ROUNDS)))

    def _ratios(self, contenders: Sequence[Contender], plan: Plan) -> tuple[float, ...]:
        # The plan is for a machine that does nothing else.
        series = harness.measure(contenders, plan, self._in_time, 1e9 * self._seconds)
        return in_groups([mine / its for mine, its in zip(series[ONE].means, series[OTHER].means, strict=True)])

    def _sizes(self, specs: Mapping[str, SessionSpec], part: int) -> Ratios:
        sizes: dict[str, list[int]] = {key: [] for key in specs}
        for turn in range(PROCESSES):
            for key in harness.in_turn(list(specs), turn):
                self._in_time()
                sizes[key].append(child.call(footprint.resident_bytes, specs[key], self._parts[part]))
        return Ratios(tuple(mine / its for mine, its in zip(sizes[ONE], sizes[OTHER], strict=True)))

    def time_per_row(self, spec: SessionSpec) -> dict[int, float]:
        """The nanoseconds of a row in batches of several sizes; empty for a model that takes one size only.

        Sizes that the model does not run, and those for which there is no time, are left out.
        """
        first = self._parts[0][0]
        # The model may run on few sizes.
        quiet = with_options(spec, replace(spec.options, log_severity_level=LogSeverity.FATAL))
        with quiet.load() as session:
            rows = [info.name for info in session.inputs if info.shape and not isinstance(info.shape[0], int)]
            if not rows or not all(isinstance(feed, np.ndarray) for feed in first.values()):
                return {}
            contenders: list[Contender] = []
            session.run(first)
            run_ns = min(harness.wall_time(session.run, first) for _ in range(LOOKS))
            left = self._end - clock()
            for size in SIZES:
                # Looks, settling and batches.
                left -= 2 * harness.FEWEST_ROUNDS * max(harness.BATCH_NS, size * run_ns)
                if left < 0:
                    break
                with suppress(Error, MemoryError):
                    feeds = {**first, **{name: np.resize(first[name], (size, *first[name].shape[1:])) for name in rows}}
                    session.run(feeds)
                    contenders.append(python_contender(str(size), "", session.run, feeds))
            if len(contenders) < 2:
                return {}
            series = harness.measure(contenders, harness.batch_plan(contenders, seconds=0), self._in_time)
        return {int(key): each.median / int(key) for key, each in series.items()}


def in_groups(ratios: Sequence[float]) -> tuple[float, ...]:
    """The medians of groups of rounds that follow each other: a round that another process interrupts counts little."""
    size = max(1, len(ratios) // GROUPS)
    starts = range(0, len(ratios) - size + 1, size)
    return tuple(statistics.median(ratios[start : start + size]) for start in starts)


def _require_equal(one: Session, other: Session, feeds: Feeds) -> None:
    for name, mine, its in zip(one.output_names, one.run(feeds), other.run(feeds), strict=True):
        left, right = list(_arrays(name, mine)), list(_arrays(name, its))
        found = [compare(name, "the model", *each, RTOL, ATOL) for each in zip(left, right, strict=False)]
        apart = next((each for each in found if not each.within), None)
        if apart is not None or len(left) != len(right):
            raise DiffersError(f"the results differ: {apart or repr(name)}")


def _arrays(name: str, result: Any) -> Iterator[np.ndarray[Any, Any]]:
    """The arrays of a result, which may be a sequence or a map of others."""
    if isinstance(result, Mapping):
        yield from map(np.asarray, (list(result), list(result.values())))
    elif isinstance(result, (list, tuple)):
        for each in result:
            yield from _arrays(name, each)
    elif isinstance(result, Value) and result.is_tensor:
        yield result.numpy()
    elif isinstance(result, (np.ndarray, np.generic, int, float, str)):
        yield np.asarray(result)
    else:
        raise UnsupportedError(f"output {name!r}: results of type {type(result).__name__} cannot be compared")
