"""Measures contenders beside each other: in batches that take turns, or call by call with cold caches.

The contenders take turns so that noise affects all of them alike. The clock's loops subtract nothing.
"""

from __future__ import annotations

import gc
import math
import statistics
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from itertools import repeat
from time import perf_counter_ns as clock
from typing import Any, Final, TypeAlias, TypeVar

import numpy as np

from zrt.bench import caches

Item = TypeVar("Item")
Progress: TypeAlias = "Callable[[str, int, int], None]"
"""Called with the current stage, the number of its steps that are done, and the number of its steps."""

# So long that the first runs of a batch, whose caches hold the data of another contender, do not decide.
BATCH_NS: Final = 20_000_000
FEWEST_ROUNDS: Final = 10
# Before each batch of n runs, n // SETTLING_SHARE runs are not counted.
SETTLING_SHARE: Final = 20
# How long and how often each contender is timed to choose its number of runs in a batch.
LOOK_NS: Final = 1_000_000
LOOKS: Final = 15
ALL_LOOKS_NS: Final = 200_000_000
# The time of all batches of one contender, and that of all its single calls, if the user does not set the runs.
CONTENDER_S: Final = 2.0
FEWEST_CALLS, MOST_CALLS = 20, 20_000
CHUNKS: Final = 20
# The same of paced calls, whose time includes that of emptying the caches.
PACED_S: Final = 4.0
FEWEST_PACED, MOST_PACED = 100, 1000
PERCENTILES: Final = (50.0, 90.0, 99.0, 99.9)


@contextmanager
def without_gc() -> Iterator[None]:
    """Disables the cyclic GC inside."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


def time_calls(call: Callable[..., Any], arguments: tuple[Any, ...], runs: int) -> int:
    """Calls the function `runs` times with up to two arguments; returns the nanoseconds of all calls."""
    # One loop for each number of arguments: a lambda or a starred call would add to the measured time.
    if not arguments:
        start = clock()
        for _ in repeat(None, runs):
            call()
        return clock() - start
    if len(arguments) == 1:
        (only,) = arguments
        start = clock()
        for _ in repeat(None, runs):
            call(only)
        return clock() - start
    first, second = arguments
    start = clock()
    for _ in repeat(None, runs):
        call(first, second)
    return clock() - start


def time_empty_loop(runs: int) -> int:
    """The nanoseconds of the loop of `time_calls` without a call."""
    start = clock()
    for _ in repeat(None, runs):
        pass
    return clock() - start


@dataclass(frozen=True, slots=True)
class Contender:
    """One way to run the model."""

    key: str
    """Its name in JSON: "session_run"."""
    label: str
    """Its name in tables: "Session.run"."""
    batch: Callable[[int], int]
    """Takes a number of runs, makes them in a row, and returns the nanoseconds of all of them."""

    def times(self, runs: int) -> list[int]:
        """The nanoseconds of each of `runs` runs, including the timer's own (`timer_cost`)."""
        return [self.batch(1) for _ in range(runs)]

    def cold_time(self) -> int:
        """The nanoseconds of a run that finds nothing in the caches."""
        caches.empty()
        return self.batch(1)


def python_contender(key: str, label: str, call: Callable[..., Any], *arguments: Any) -> Contender:
    """A contender that is called from Python, with up to two arguments."""
    return Contender(key, label, partial(time_calls, call, arguments))


@dataclass(frozen=True, slots=True)
class Series:
    """The batches of one contender."""

    runs: int
    """The runs in each batch."""
    means: tuple[float, ...]
    """The mean nanoseconds of one run in each batch; one number for each round."""

    @property
    def median(self) -> float:
        """The median of the batches' means, in nanoseconds."""
        return statistics.median(self.means)

    def ratio(self, yardstick: Series) -> float:
        """The time as a multiple of the yardstick's: the median of the ratios within each round."""
        return statistics.median(mine / its for mine, its in zip(self.means, yardstick.means, strict=True))


@dataclass(frozen=True, slots=True)
class Latency:
    """How long single calls take, in nanoseconds."""

    samples: np.ndarray[Any, np.dtype[np.int64]]
    """The time of every call, shortest first."""

    @classmethod
    def of(cls, samples: Sequence[float]) -> Latency:
        """Of calls in any order, in nanoseconds."""
        return cls(np.sort(np.asarray(samples, np.int64)))

    def percentile(self, percent: float) -> int:
        """The shortest time that `percent` of the calls did not exceed."""
        # Round first: 99.9 % of 1000 is 999, and float arithmetic gives slightly more.
        rank = math.ceil(round(len(self.samples) * percent / 100, 6))
        return int(self.samples[max(rank, 1) - 1])

    def summary(self) -> dict[str, int]:
        """The figures of the reports: the number of calls, percentiles, the maximum."""
        names = {f"p{percent:g}".replace(".", "_") + "_ns": percent for percent in PERCENTILES}
        return {
            "samples": len(self.samples),
            **{name: self.percentile(percent) for name, percent in names.items()},
            "max_ns": int(self.samples[-1]),
        }


@dataclass(frozen=True, slots=True)
class Plan:
    """How many rounds there are, and how many runs each contender makes in a round."""

    rounds: int
    runs: Mapping[str, int]
    cold: bool = False
    """Whether the caches are emptied before each run, of which a round then has one."""


def ignore_progress(_stage: str, _done: int, _total: int) -> None:
    """The callback of callers that show no progress."""


def in_turn(contenders: Sequence[Item], turn: int) -> list[Item]:
    """The contenders in the order of the given turn.

    Over all turns each contender has each place, and follows each other contender, equally often (a Williams design).
    So the caches that one contender leaves behind do not affect a single other one.
    """
    count = len(contenders)
    zigzag = [-(step // 2) if step % 2 == 0 else step // 2 + 1 for step in range(count)]
    order = [contenders[(place + turn) % count] for place in zigzag]
    return order[::-1] if turn // count % 2 else order


def _rounds(
    contenders: Sequence[Contender],
    rounds: int,
    visit: Callable[[Contender], None],
    stage: str,
    progress: Progress,
    most_ns: float = math.inf,
) -> None:
    """Calls `visit` with every contender in each round, in another order each time."""
    start = clock()
    for turn in range(rounds):
        if turn >= FEWEST_ROUNDS and clock() - start > most_ns:
            break
        progress(stage, turn, rounds)
        with without_gc():
            for contender in in_turn(contenders, turn):
                visit(contender)
    progress(stage, rounds, rounds)


def warm_up(contenders: Sequence[Contender], runs: int) -> None:
    """Runs each contender before anything is timed."""
    for contender in contenders:
        contender.batch(runs)


def _settle(contender: Contender, runs: int) -> None:
    """Warms the caches for a batch of several runs; these runs are not counted."""
    if runs > 1:
        contender.batch(-(-runs // SETTLING_SHARE))


def wall_time(work: Callable[..., Any], *arguments: Any) -> int:
    """The nanoseconds of a call by the wall clock, of which a contender may count a part; at least one."""
    start = clock()
    work(*arguments)
    return max(clock() - start, 1)


def fitting_runs(contender: Contender, wanted_ns: int) -> int:
    """How many runs with warm caches last about `wanted_ns` nanoseconds; at least one."""
    contender.batch(1)
    runs = 1
    while True:
        took = wall_time(contender.batch, runs)
        if took >= wanted_ns // 4:
            return max(1, round(runs * wanted_ns / took))
        runs *= min(8, max(2, wanted_ns // (2 * took)))


def batch_plan(
    contenders: Sequence[Contender], runs: int | None = None, seconds: float = CONTENDER_S, fewest: int = FEWEST_ROUNDS
) -> Plan:
    """Batches of at least 20 ms that take `seconds` for each contender, in at least `fewest` rounds.

    If `runs` is given, each contender runs at least that many times, in batches of equal size.
    """
    with without_gc():
        looks = {contender.key: fitting_runs(contender, LOOK_NS) for contender in contenders}
    walls: dict[str, list[float]] = {contender.key: [] for contender in contenders}

    def look(contender: Contender) -> None:
        wanted = looks[contender.key]
        _settle(contender, wanted)
        walls[contender.key].append(wall_time(contender.batch, wanted) / wanted)

    # Time the contenders in turns: on a busy machine, batches of unequal length would be interrupted unequally often.
    start = clock()
    _rounds(contenders, 1, look, "", ignore_progress)
    again = min(LOOKS - 1, ALL_LOOKS_NS // max(clock() - start, 1))
    _rounds(contenders, again, look, "", ignore_progress)
    # The shortest look is one that no other process interrupted.
    fitting = {key: math.ceil(BATCH_NS / min(times)) for key, times in walls.items()}
    slowest = max(fitting[key] * min(times) for key, times in walls.items())
    rounds = max(fewest, int(seconds * 1e9 / slowest))
    if runs is None:
        return Plan(rounds, fitting)
    rounds = min(runs, rounds, max(fewest, -(-runs // max(fitting.values()))))
    return Plan(rounds, dict.fromkeys(fitting, -(-runs // rounds)))


def paced_plan(
    contenders: Sequence[Contender], runs: int | None = None, seconds: float = PACED_S, fewest: int = FEWEST_PACED
) -> Plan:
    """Rounds of one cold run of every contender: `runs` of them, or what `seconds` for each contender hold."""
    if runs is None:
        took = min(wall_time(contender.cold_time) for contender in contenders)
        runs = min(MOST_PACED, max(fewest, int(seconds * 1e9 / took)))
    return Plan(runs, dict.fromkeys((contender.key for contender in contenders), 1), cold=True)


def measure(
    contenders: Sequence[Contender], plan: Plan, progress: Progress = ignore_progress, most_ns: float = math.inf
) -> dict[str, Series]:
    """Runs a batch of every contender in each round, or a cold run.

    It ends before the last round of the plan once it has taken `most_ns` nanoseconds and has made 10 rounds.
    """
    means: dict[str, list[float]] = {contender.key: [] for contender in contenders}

    def visit(contender: Contender) -> None:
        runs = plan.runs[contender.key]
        if plan.cold:
            means[contender.key].append(contender.cold_time())
            return
        _settle(contender, runs)
        means[contender.key].append(contender.batch(runs) / runs)

    _rounds(contenders, plan.rounds, visit, "paced calls" if plan.cold else "batches", progress, most_ns)
    return {key: Series(plan.runs[key], tuple(values)) for key, values in means.items()}


def measure_calls(
    contenders: Sequence[Contender],
    typical_ns: Mapping[str, float],
    runs: int | None = None,
    progress: Progress = ignore_progress,
) -> dict[str, Latency]:
    """Times every contender's calls one by one, in chunks that take turns.

    The number of calls follows from `typical_ns`, the approximate time of one call, unless `runs` sets it.
    """
    samples: dict[str, list[int]] = {contender.key: [] for contender in contenders}
    fitting = {key: int(CONTENDER_S * 1e9 / max(typical_ns[key], 1)) for key in samples}
    counts = {key: runs or min(MOST_CALLS, max(FEWEST_CALLS, count)) for key, count in fitting.items()}
    turns = min(CHUNKS, *counts.values())

    def visit(contender: Contender) -> None:
        samples[contender.key] += contender.times(-(-counts[contender.key] // turns))

    _rounds(contenders, turns, visit, "single calls", progress)
    return {key: Latency.of(values) for key, values in samples.items()}


def timer_cost(batch: Callable[[int], int], readings: int = 1000) -> Latency:
    """The readings of a contender's timer around no run."""
    with without_gc():
        for _ in range(readings):
            batch(0)
        return Latency.of([batch(0) for _ in range(readings)])
