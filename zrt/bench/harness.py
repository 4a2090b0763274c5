"""Compares contenders in batches that take turns, so that noise affects all of them alike."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeAlias

from zrt.bench import timing

Progress: TypeAlias = "Callable[[str, int, int], None]"
"""Called with the current stage, the number of its steps that are done, and the number of its steps."""

# Long enough that the clock and a cold start do not matter; short enough that many batches on a busy machine run
# without interruption.
BATCH_NS = 5_000_000
ROUNDS = 200
FEWEST_ROUNDS = 10
# Before each batch of n runs, n // SETTLING_SHARE runs are not counted.
SETTLING_SHARE = 20
# How long and how often each contender is timed to choose its number of runs in a batch.
LOOK_NS = 1_000_000
LOOKS = 15
ALL_LOOKS_NS = 200_000_000
# The longest time of all batches of one contender, if the user does not set the number of runs.
CONTENDER_NS = 2_000_000_000


@dataclass(frozen=True, slots=True)
class Contender:
    """One way to run the model."""

    key: str
    """Its name in JSON: "session_run"."""
    label: str
    """Its name in tables: "Session.run"."""
    batch: Callable[[int], int]
    """Takes a number of runs, makes them in a row, and returns the nanoseconds of all of them."""
    times: Callable[[int], list[int]]
    """Takes a number of runs, makes them, and returns the nanoseconds of each."""


def python_contender(key: str, label: str, call: Callable[..., Any], *arguments: Any) -> Contender:
    """A contender that is called from Python, with up to two arguments."""
    return Contender(key, label, partial(timing.batch, call, arguments), partial(timing.times, call, arguments))


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
class Plan:
    """How many rounds there are, and how many runs each contender makes in a round."""

    rounds: int
    runs: Mapping[str, int]


def ignore_progress(_stage: str, _done: int, _total: int) -> None:
    """The callback of callers that show no progress."""


def in_turn(contenders: Sequence[Contender], turn: int) -> list[Contender]:
    """The contenders in the order of the given turn.

    Over all turns each contender has each place, and follows each other contender, equally often (a Williams design).
    So the caches that one contender leaves behind do not affect a single other one.
    """
    count = len(contenders)
    zigzag = [-(step // 2) if step % 2 == 0 else step // 2 + 1 for step in range(count)]
    order = [contenders[(place + turn) % count] for place in zigzag]
    return order[::-1] if turn // count % 2 else order


def warm_up(contenders: Sequence[Contender], runs: int) -> None:
    """Runs each contender before anything is timed."""
    for contender in contenders:
        contender.batch(runs)


def fitting_runs(contender: Contender, wanted_ns: int = BATCH_NS) -> int:
    """How many runs last about `wanted_ns` nanoseconds; at least one."""
    runs = 1
    while True:
        # A coarse clock may read zero for one run.
        took = max(contender.batch(runs), 1)
        if took >= wanted_ns // 4:
            return max(1, round(runs * wanted_ns / took))
        runs *= min(8, max(2, wanted_ns // (2 * took)))


def make_plan(contenders: Sequence[Contender], runs: int | None = None) -> Plan:
    """Batches of about 5 ms, in up to 200 rounds.

    If `runs` is given, each contender runs at least that many times, in batches of equal size.
    """
    with timing.without_gc():
        short = {contender.key: fitting_runs(contender, LOOK_NS) for contender in contenders}
        together = sum(contender.batch(short[contender.key]) for contender in contenders)
    # Time the contenders in turns: on a busy machine, batches of unequal length would be interrupted unequally often.
    looks = min(LOOKS, max(1, ALL_LOOKS_NS // max(together, 1)))
    typical = {key: max(seen.median, 1e-3) for key, seen in measure(contenders, Plan(looks, short)).items()}
    fitting = {key: max(1, round(BATCH_NS / nanoseconds)) for key, nanoseconds in typical.items()}
    if runs is not None:
        wanted = -(-runs // max(fitting.values()))
        rounds = min(runs, ROUNDS, max(FEWEST_ROUNDS, wanted))
        return Plan(rounds, dict.fromkeys(fitting, -(-runs // rounds)))
    slowest = max(fitting[key] * nanoseconds for key, nanoseconds in typical.items())
    return Plan(min(ROUNDS, max(FEWEST_ROUNDS, int(CONTENDER_NS / slowest))), fitting)


def measure(contenders: Sequence[Contender], plan: Plan, progress: Progress = ignore_progress) -> dict[str, Series]:
    """Runs a batch of every contender in each round, in another order each time."""
    means: dict[str, list[float]] = {contender.key: [] for contender in contenders}
    for turn in range(plan.rounds):
        progress("batches", turn, plan.rounds)
        with timing.without_gc():
            for contender in in_turn(contenders, turn):
                runs = plan.runs[contender.key]
                if runs > 1:
                    # Warm the caches; these runs are not counted.
                    contender.batch(-(-runs // SETTLING_SHARE))
                means[contender.key].append(contender.batch(runs) / runs)
    progress("batches", plan.rounds, plan.rounds)
    return {key: Series(plan.runs[key], tuple(values)) for key, values in means.items()}
