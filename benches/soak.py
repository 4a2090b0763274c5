"""A day's worth of operations: does anything grow, or become slower?

`python -m benches.soak` repeats five operations, each in a process of its own: 100 million runs of a lane, 10 million
runs of changing shapes, a million lives of sessions, a million runs that a deadline ends, 100,000 states. It prints
the resident memory, descriptors and threads at the first of 50 samples and at the last one, and the CPU time of
one operation in the first and the last tenth. `--part 0.001` does a thousandth; `--plot FILE` draws the samples.
It needs Linux.
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from itertools import repeat
from pathlib import Path
from statistics import median
from typing import NamedTuple

import numpy as np

import zrt
from benches.models import build
from tests.support import models
from zrt.bench.machine import resident_bytes
from zrt.errors import TimeoutError

ROOT = Path(__file__).parents[1]
SAMPLES = 50
OPTIONS = zrt.SessionOptions(intra_op_num_threads=1, log_severity_level="FATAL")

SUM = "(float[n] x, float[n] y) => (float[n] z) { z = Add(x, y) }"
COUNTER = "(float[4] x, float[4] h) => (float[4] next) { next = Add(h, x) }"


def session(text: str) -> zrt.Session:
    return zrt.Session(models.parsed(text), OPTIONS)


class Sample(NamedTuple):
    """What a process has, and the CPU seconds of one operation since the sample before."""

    resident: int
    descriptors: int
    threads: int
    seconds: float


def lane_runs() -> Callable[[int], None]:
    lane = zrt.Session(build.add(4), OPTIONS).lane()
    for view in lane.inputs.values():
        view[...] = 1

    def repeated(times: int) -> None:
        run = lane.run
        for _ in repeat(None, times):
            run()
        assert lane.outputs["z"][0] == 2

    return repeated


def changing_shapes() -> Callable[[int], None]:
    one = session(SUM)
    feeds = [{"x": np.ones(size, np.float32), "y": np.ones(size, np.float32)} for size in range(1, 65)]

    def repeated(times: int) -> None:
        for index in range(times):
            feed = feeds[index * 37 % 64]
            (result,) = one.run(feed)
        assert result.shape == feed["x"].shape

    return repeated


def lives() -> Callable[[int], None]:
    model = build.add(4).SerializeToString()
    feed = np.ones(4, np.float32)

    def repeated(times: int) -> None:
        for _ in repeat(None, times):
            zrt.Session(model, OPTIONS).run([feed, feed])

    return repeated


def deadlines() -> Callable[[int], None]:
    one = zrt.Session(models.counting_loop(), OPTIONS)
    feeds = {"turns": np.array(2**62), "start": np.zeros(2, np.float32)}

    def repeated(times: int) -> None:
        for _ in repeat(None, times):
            try:
                one.run(feeds, timeout=1e-5)
            except TimeoutError:
                continue
            raise AssertionError("the run has ended")

    return repeated


def states() -> Callable[[int], None]:
    lane = session(COUNTER).lane(state={"next": "h"})
    lane.inputs["x"][...] = 1

    def repeated(times: int) -> None:
        for _ in repeat(None, times):
            state = lane.new_state()
            lane.run(state)
            kept = state.snapshot()
        assert kept.arrays["h"][0] == 1

    return repeated


OPERATIONS: dict[str, tuple[Callable[[], Callable[[int], None]], int]] = {
    "runs of a lane": (lane_runs, 100_000_000),
    "runs of changing shapes": (changing_shapes, 10_000_000),
    "lives of sessions": (lives, 1_000_000),
    "runs that a deadline ends": (deadlines, 1_000_000),
    "states": (states, 100_000),
}


def use(name: str, count: int) -> list[Sample]:
    """Repeats an operation in this process."""
    make, _ = OPERATIONS[name]
    repeated = make()
    each = max(1, count // SAMPLES)
    # What the first operations make once.
    repeated(max(1, each // 10))
    samples = []
    for _ in range(SAMPLES):
        start = time.process_time()
        repeated(each)
        seconds = (time.process_time() - start) / each
        gc.collect()
        samples.append(
            Sample(resident_bytes(), *(len(os.listdir(f"/proc/self/{part}")) for part in ("fd", "task")), seconds)
        )
    return samples


def measure(name: str, part: float) -> list[Sample]:
    """`use` in a process of its own."""
    count = max(SAMPLES, round(OPERATIONS[name][1] * part))
    call = [sys.executable, "-m", "benches.soak", "--use", json.dumps([name, count])]
    done = subprocess.run(call, stdout=subprocess.PIPE, text=True, cwd=ROOT, check=True)
    return [Sample(*each) for each in json.loads(done.stdout)]


def tenth(samples: list[Sample], first: bool) -> float:
    """The median CPU time of an operation in the first or the last tenth, in microseconds."""
    number = SAMPLES // 10
    return median(each.seconds for each in (samples[:number] if first else samples[-number:])) * 1e6


def row(name: str, part: float, samples: list[Sample]) -> str:
    first, last = samples[0], samples[-1]
    grown = (last.resident - first.resident) / 1024
    return (
        f"| {name} | {round(OPERATIONS[name][1] * part):,} | {first.resident / 2**20:.1f} MiB, {grown:+,.0f} KiB "
        f"| {first.descriptors}, {last.descriptors} | {first.threads}, {last.threads} "
        f"| {tenth(samples, True):,.2f} µs, {tenth(samples, False):,.2f} µs |"
    )


def draw(measured: dict[str, list[Sample]], picture: Path) -> None:
    """Memory and CPU time of all operations, from the first sample on."""
    from matplotlib.figure import Figure

    from zrt.cli import figures

    def figure() -> Figure:
        drawn = Figure(figsize=(11, 6), dpi=120, layout="constrained")
        memory, times = drawn.subplots(2, 1, sharex=True)
        done = [100 * (index + 1) / SAMPLES for index in range(SAMPLES)]
        for name, samples in measured.items():
            memory.plot(done, [(each.resident - samples[0].resident) / 1024 for each in samples], label=name)
            times.plot(done, [each.seconds / samples[0].seconds for each in samples])
        # At least this much, so that nothing looks like growth.
        most = max(100, *map(abs, memory.get_ylim()))
        memory.set(ylabel="KiB", ylim=(-most, most))
        times.set(ylabel="ratio", xlabel="per cent of the operations", ylim=(0, max(2, times.get_ylim()[1])))
        figures.tidy(memory, "Resident memory above that at the first sample", grid="both")
        figures.tidy(times, "CPU time of one operation over that in the first sample", grid="both")
        memory.legend(frameon=False, loc="upper left", ncols=3)
        return drawn

    figures.save(figure, [picture])


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benches.soak", description=__doc__)
    parser.add_argument("--part", type=float, default=1.0, help="of the operations; default 1")
    parser.add_argument("--plot", type=Path, help="draw the samples there")
    parser.add_argument("--use", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.use:
        print(json.dumps(use(*json.loads(arguments.use))))
        return
    print("| operation | times | memory | descriptors | threads | one operation |\n|---|---|---|---|---|---|")
    measured = {}
    for name in OPERATIONS:
        measured[name] = measure(name, arguments.part)
        print(row(name, arguments.part, measured[name]), flush=True)
    if arguments.plot:
        draw(measured, arguments.plot)


if __name__ == "__main__":
    main()
