"""Several lanes at the same time, each in its own thread: their throughput together and the latency of each."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from time import perf_counter_ns as clock
from typing import Final, TypeVar

from zrt.bench import harness
from zrt.bench.harness import Contender, Latency, python_contender
from zrt.lanes.lane import Lane

Result = TypeVar("Result")

PASS_NS: Final = 1_000_000_000


@dataclass(frozen=True, slots=True)
class Together:
    """The figures of lanes that ran at the same time."""

    single_per_s: float
    """Runs per second of one lane alone, also in a thread."""
    all_per_s: float
    """Runs per second of all lanes together."""
    latencies: tuple[Latency, ...]
    """The latencies of each lane, timed in a separate pass while the other lanes ran."""


def measure(lanes: Sequence[Lane], typical_ns: float, runs: int | None = None) -> Together:
    """Runs one lane, then all of them, each in a thread of its own; `runs` is the number of runs of each."""
    count = runs if runs is not None else max(harness.FEWEST_CALLS, int(PASS_NS / max(typical_ns, 1)))
    timed = runs if runs is not None else min(harness.MOST_CALLS, count)
    contenders = [python_contender("lane", "lane", lane.run) for lane in lanes]
    with harness.without_gc():
        alone = time_together(contenders[:1], count)
        together = time_together(contenders, count)
        samples = at_once([partial(contender.times, timed) for contender in contenders])
    return Together(
        count * 1e9 / alone, len(lanes) * count * 1e9 / together, tuple(Latency.of(times) for times in samples)
    )


def time_together(contenders: Sequence[Contender], runs: int) -> int:
    """The nanoseconds from the first start to the last end, where each contender has a thread and makes `runs` runs."""

    def span(contender: Contender) -> tuple[int, int]:
        start = clock()
        contender.batch(runs)
        return start, clock()

    spans = at_once([partial(span, contender) for contender in contenders])
    return max(max(end for _, end in spans) - min(start for start, _ in spans), 1)


def at_once(tasks: Sequence[Callable[[], Result]]) -> list[Result]:
    """Runs each task in its own thread, started at the same moment; returns their results, or raises a failure."""
    barrier = threading.Barrier(len(tasks))

    def work(task: Callable[[], Result]) -> Result:
        barrier.wait()
        return task()

    with ThreadPoolExecutor(len(tasks)) as pool:
        try:
            return list(pool.map(work, tasks))
        except BaseException:
            # An interrupt may come before all threads are started: the others would wait for them.
            barrier.abort()
            raise
