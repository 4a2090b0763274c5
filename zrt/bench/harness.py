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

# Long enough that a clock and a cold start do not count, short enough that on a busy machine many pass undisturbed.
BATCH_NS = 5_000_000
ROUNDS = 200
FEWEST_ROUNDS = 10
# One run in so many goes before each batch, uncounted.
SETTLING_SHARE = 20
# How long, and how often, everybody is looked at to see how many runs make a batch.
LOOK_NS = 1_000_000
LOOKS = 15
ALL_LOOKS_NS = 200_000_000
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
    """The contenders in the order of that turn.

    Over the turns everybody has every place, and comes after everybody else, equally often (a Williams design):
    what a contender leaves in the caches is no other one's burden alone.
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
        # Never zero: a coarse clock may not move in one run.
        took = max(contender.batch(runs), 1)
        if took >= wanted_ns // 4:
            return max(1, round(runs * wanted_ns / took))
        runs *= min(8, max(2, wanted_ns // (2 * took)))


def make_plan(contenders: Sequence[Contender], runs: int | None = None) -> Plan:
    """Batches of about 5 ms, in up to 200 rounds.

    With `runs` given each contender runs that many times at least, in batches of equal numbers.
    """
    with timing.without_gc():
        short = {contender.key: fitting_runs(contender, LOOK_NS) for contender in contenders}
        together = sum(contender.batch(short[contender.key]) for contender in contenders)
    # Looked at in turn: on a busy machine batches of unlike length would be disturbed unlike often.
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
    """Runs every contender's batch once in each round, in another order each time."""
    means: dict[str, list[float]] = {contender.key: [] for contender in contenders}
    for turn in range(plan.rounds):
        progress("batches", turn, plan.rounds)
        with timing.without_gc():
            for contender in in_turn(contenders, turn):
                runs = plan.runs[contender.key]
                if runs > 1:
                    # Not counted: it brings the caches back.
                    contender.batch(-(-runs // SETTLING_SHARE))
                means[contender.key].append(contender.batch(runs) / runs)
    progress("batches", plan.rounds, plan.rounds)
    return {key: Series(plan.runs[key], tuple(values)) for key, values in means.items()}
