"""A separate pass that times each call, and the cost of the timer itself."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from zrt.bench import timing
from zrt.bench.harness import Contender, Progress, ignore_progress, in_turn

MOST_SAMPLES: Final = 20_000
FEWEST_SAMPLES: Final = 20
# The longest time of all timed calls of one contender, if the user does not set their number.
CONTENDER_NS: Final = 2_000_000_000
CHUNKS: Final = 20
PERCENTILES: Final = (50.0, 90.0, 99.0, 99.9)


@dataclass(frozen=True, slots=True)
class Latency:
    """How long single calls take, in nanoseconds."""

    samples: np.ndarray[Any, np.dtype[np.int64]]
    """The time of every call, shortest first."""

    @classmethod
    def of(cls, samples: Sequence[int]) -> Latency:
        """Of calls in any order, in nanoseconds."""
        return cls(np.sort(np.asarray(samples, np.int64)))

    def percentile(self, percent: float) -> int:
        """The shortest time that `percent` of the calls did not exceed."""
        # Round first: 99.9 % of 1000 is 999, and float arithmetic gives slightly more.
        rank = math.ceil(round(len(self.samples) * percent / 100, 6))
        return int(self.samples[max(rank, 1) - 1])

    def summary(self) -> dict[str, int]:
        """The figures of the reports: the number of calls, percentiles, the maximum."""
        named = {f"p{percent:g}".replace(".", "_") + "_ns": percent for percent in PERCENTILES}
        return {
            "samples": len(self.samples),
            **{name: self.percentile(percent) for name, percent in named.items()},
            "max_ns": int(self.samples[-1]),
        }


def measure(
    contenders: Sequence[Contender],
    typical_ns: Mapping[str, float],
    runs: int | None = None,
    progress: Progress = ignore_progress,
) -> dict[str, Latency]:
    """Times every contender's calls one by one, in chunks that take turns.

    The number of calls follows from `typical_ns`, the approximate time of one call, unless `runs` sets it.
    """
    samples: dict[str, list[int]] = {contender.key: [] for contender in contenders}
    counts = {key: _count(typical_ns[key], runs) for key in samples}
    turns = min(CHUNKS, *counts.values())
    for turn in range(turns):
        progress("single calls", turn, turns)
        with timing.without_gc():
            for contender in in_turn(contenders, turn):
                samples[contender.key] += contender.times(-(-counts[contender.key] // turns))
    progress("single calls", turns, turns)
    return {key: Latency.of(values) for key, values in samples.items()}


def _count(typical_ns: float, runs: int | None) -> int:
    if runs is not None:
        return runs
    return min(MOST_SAMPLES, max(FEWEST_SAMPLES, int(CONTENDER_NS / max(typical_ns, 1))))


def timer_cost(times: Callable[[int], list[int]], runs: int = 1000) -> Latency:
    """The readings of the timer `times` around no call."""
    with timing.without_gc():
        times(runs)
        return Latency.of(times(runs))
