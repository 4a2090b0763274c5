"""Contenders against each other: batches that take turns, so that noise hits all of them alike."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeAlias

from zrt.bench import timing

Progress: TypeAlias = "Callable[[str, int, int], None]"
"""Told what is going on, how many of its steps are done, and how many there are."""

# Long enough that what the previous contender left in the caches does not count, and short enough that on a busy
# machine many batches pass undisturbed.
BATCH_NS = 5_000_000
ROUNDS = 200
FEWEST_ROUNDS = 10
# `fitting_runs` takes the best of so many looks at so short a time: on a busy machine some of them are undisturbed.
LOOK_NS = 1_000_000
LOOKS = 10
# What the batches of one contender may take together, where the user does not say how many runs there are.
CONTENDER_NS = 2_000_000_000


@dataclass(frozen=True, slots=True)
class Contender:
    """One way to run the model."""

    key: str
    """What programs call it: "session_run"."""
    label: str
    """What people call it: "Session.run"."""
    batch: Callable[[int], int]
    """Runs so many times in a row; returns the nanoseconds that took."""
    times: Callable[[int], list[int]]
    """Runs so many times; returns the nanoseconds of each run."""


def python_contender(key: str, label: str, call: Callable[..., Any], *arguments: Any) -> Contender:
    """A contender that is called from Python, with up to two arguments."""
    return Contender(key, label, partial(timing.batch, call, arguments), partial(timing.times, call, arguments))


@dataclass(frozen=True, slots=True)
class Series:
    """The batches of one contender."""

    runs: int
    """The runs in each batch."""
    means: tuple[float, ...]
    """The nanoseconds of one run, on average over each batch; one number for each round."""

    @property
    def median(self) -> float:
        """The nanoseconds of one run in the middle batch."""
        return statistics.median(self.means)

    def ratio(self, yardstick: Series) -> float:
        """How many times as long as the yardstick: the median of the ratios within each round."""
        return statistics.median(mine / its for mine, its in zip(self.means, yardstick.means, strict=True))


@dataclass(frozen=True, slots=True)
class Plan:
    """How many rounds there are, and how many runs each contender makes in a round."""

    rounds: int
    runs: Mapping[str, int]


def ignore_progress(_stage: str, _done: int, _total: int) -> None:
    """For callers that show nothing."""


def in_turn(contenders: Sequence[Contender], turn: int) -> list[Contender]:
    """The contenders in the order of that turn: everybody goes first at times, and after each neighbour."""
    start = turn % len(contenders)
    order = [*contenders[start:], *contenders[:start]]
    return order[::-1] if turn // len(contenders) % 2 else order


def warm_up(contenders: Sequence[Contender], runs: int) -> None:
    """Runs each contender before anything is timed."""
    for contender in contenders:
        contender.batch(runs)


def fitting_runs(contender: Contender, wanted_ns: int = BATCH_NS) -> int:
    """How many runs last about `wanted_ns` nanoseconds where nothing disturbs them; at least one."""
    runs = 1
    while True:
        took = _took(contender, runs)
        if LOOK_NS <= took < wanted_ns * 4:
            took = min(took, *(_took(contender, runs) for _ in range(LOOKS)))
        if took >= LOOK_NS:
            return max(1, round(runs * wanted_ns / took))
        runs *= min(8, max(2, 2 * LOOK_NS // took))


def _took(contender: Contender, runs: int) -> int:
    # Never zero: a coarse clock may not move in one run.
    return max(contender.batch(runs), 1)


def make_plan(contenders: Sequence[Contender], runs: int | None = None) -> Plan:
    """Batches of about 5 ms, in up to 200 rounds.

    With `runs` given each contender runs that many times at least, in batches of equal numbers.
    """
    with timing.without_gc():
        fitting = {contender.key: fitting_runs(contender) for contender in contenders}
        if runs is not None:
            wanted = -(-runs // max(fitting.values()))
            rounds = min(runs, ROUNDS, max(FEWEST_ROUNDS, wanted))
            return Plan(rounds, dict.fromkeys(fitting, -(-runs // rounds)))
        slowest = max(contender.batch(fitting[contender.key]) for contender in contenders)
    affordable = CONTENDER_NS // max(slowest, 1)
    return Plan(min(ROUNDS, max(FEWEST_ROUNDS, affordable)), fitting)


def measure(contenders: Sequence[Contender], plan: Plan, progress: Progress = ignore_progress) -> dict[str, Series]:
    """Runs every contender's batch once in each round, in another order each time."""
    means: dict[str, list[float]] = {contender.key: [] for contender in contenders}
    for turn in range(plan.rounds):
        progress("batches", turn, plan.rounds)
        with timing.without_gc():
            for contender in in_turn(contenders, turn):
                runs = plan.runs[contender.key]
                means[contender.key].append(contender.batch(runs) / runs)
    progress("batches", plan.rounds, plan.rounds)
    return {key: Series(plan.runs[key], tuple(values)) for key, values in means.items()}
