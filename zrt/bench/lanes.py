"""Several lanes at the same time, each in its own thread: their throughput together and the latency of each."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from time import perf_counter_ns as clock
from typing import TypeVar

from zrt.bench import timing
from zrt.bench.latency import FEWEST_SAMPLES, MOST_SAMPLES, Latency
from zrt.lanes.lane import Lane

Made = TypeVar("Made")

PASS_NS = 1_000_000_000


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
    count = runs if runs is not None else max(FEWEST_SAMPLES, int(PASS_NS / max(typical_ns, 1)))
    timed = runs if runs is not None else min(MOST_SAMPLES, count)
    with timing.without_gc():
        single = _runs_per_s(lanes[:1], count)
        together = _runs_per_s(lanes, count)
        samples = _at_once([partial(timing.times, lane.run, (), timed) for lane in lanes])
    return Together(single, together, tuple(Latency.of(values) for values in samples))


def _runs_per_s(lanes: Sequence[Lane], runs: int) -> float:
    """The number of all runs divided by the time from the first start to the last end."""
    spans = _at_once([partial(_span, lane, runs) for lane in lanes])
    begin, end = min(start for start, _ in spans), max(stop for _, stop in spans)
    return runs * len(lanes) * 1e9 / max(end - begin, 1)


def _span(lane: Lane, runs: int) -> tuple[int, int]:
    """The start and the end of a lane's runs."""
    begin = clock()
    timing.batch(lane.run, (), runs)
    return begin, clock()


def _at_once(tasks: Sequence[Callable[[], Made]]) -> list[Made]:
    """Run each task in its own thread, started at the same moment; return their results."""
    barrier = threading.Barrier(len(tasks))
    results: dict[int, Made] = {}
    failures: list[BaseException] = []

    def work(index: int) -> None:
        try:
            barrier.wait()
            results[index] = tasks[index]()
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=work, args=(index,), daemon=True) for index in range(len(tasks))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failures:
        raise failures[0]
    return [results[index] for index in range(len(tasks))]
