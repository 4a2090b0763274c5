"""Memory of replicated sessions, with weights of their own and with shared ones.

`python -m benches.resident` makes a model of 100 MiB, loads it in separate processes, and prints the growth of each:
the difference in resident memory between "the module is imported" and "every session has run once".
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

import numpy as np
import onnx

import zrt
from benches.models import build
from zrt.bench.machine import resident_bytes

ROOT = Path(__file__).parents[1]


class Grown(NamedTuple):
    """One process: its growth in MiB, the seconds of loading, and a digest of the results."""

    mib: int
    seconds: float
    result: float


def grow(model: str, sessions: int, share: bool, width: int) -> Grown:
    """Loads the sessions in this process and runs each of them; their results must agree."""
    before = resident_bytes()
    start = time.perf_counter()
    options = zrt.SessionOptions(intra_op_num_threads=1)
    runtime = zrt.Runtime.replicate(model, sessions, options, share_weights=share, shapes=[(1, width)])
    seconds = time.perf_counter() - start
    for lane in runtime:
        lane.inputs["x"][...] = 1
        lane.run()
        if not np.array_equal(lane.outputs["y"], runtime[0].outputs["y"]):
            raise AssertionError("the sessions disagree")
    return Grown(resident_bytes() - before >> 20, seconds, float(runtime[0].outputs["y"].sum()))


def measure(model: Path, sessions: int, share: bool, width: int) -> Grown:
    """`grow` in a process of its own."""
    call = [sys.executable, "-m", "benches.resident", "--grow", json.dumps([str(model), sessions, share, width])]
    done = subprocess.run(call, capture_output=True, text=True, cwd=ROOT, timeout=600, check=True)
    return Grown(*json.loads(done.stdout))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--width", type=int, default=1024, help="of the model's layers; each takes 4 width² bytes")
    parser.add_argument("--depth", type=int, default=25, help="how many layers")
    parser.add_argument("--sessions", type=int, nargs="*", default=[1, 8])
    parser.add_argument("--grow", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.grow:
        print(json.dumps(grow(*json.loads(arguments.grow))))
        return
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "mlp.onnx")
        onnx.save_model(build.mlp(arguments.width, arguments.depth), path)
        print(f"model: {os.path.getsize(path) >> 20} MiB")
        for sessions in arguments.sessions:
            for share in (False, True):
                grown = measure(path, sessions, share, arguments.width)
                how = "shared" if share else "apart"
                print(f"{sessions} sessions, weights {how}: {grown.mib} MiB, loaded in {grown.seconds:.2f} s")


if __name__ == "__main__":
    main()
