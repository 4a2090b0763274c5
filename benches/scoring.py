"""Rows per second of `zrt score`, of bare lanes and of a loop over onnxruntime's `run`: ``python -m benches.scoring``.

The model takes about a millisecond for a batch. All begin with a data set in numpy's file and end with the results in
arrays or in a file; the loop and the lanes have the arrays in memory already. `zrt score --ray` runs on a cluster of
one node on this machine, which is there before; the start of its actors, some seconds, is in its figures.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import tempfile
import threading
import time
from collections.abc import Callable
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
from onnx import TensorProto

import zrt
from tests.support.models import build, node, tensor
from zrt.bench.harness import in_turn, python_contender
from zrt.scoring.parts import Parts
from zrt.scoring.score import gather, score
from zrt.scoring.scorer import Scorer
from zrt.scoring.sources import open_source

WIDTH, BATCH = 64, 32


def make_model(layers: int) -> bytes:
    """Products of 256 columns, of which `layers` set the time of a batch."""
    rng = np.random.default_rng(0)
    weights = {"w": rng.standard_normal((WIDTH, 256), np.float32) / 16, "v": np.eye(256, 8, dtype=np.float32)}
    nodes = [node("MatMul", ["x", "w"], ["h0"])]
    for index in range(layers):
        weights[f"w{index}"] = rng.standard_normal((256, 256), np.float32) / 16
        nodes += [
            node("MatMul", [f"h{index}", f"w{index}"], [f"p{index}"]),
            node("Tanh", [f"p{index}"], [f"h{index + 1}"]),
        ]
    nodes.append(node("MatMul", [f"h{layers}", "v"], ["y"]))
    ends = tensor("x", TensorProto.FLOAT, ["n", WIDTH]), tensor("y", TensorProto.FLOAT, ["n", 8])
    return build(nodes, [ends[0]], [ends[1]], weights)


def fitting_model() -> tuple[bytes, float]:
    """A model whose batch takes about a millisecond here, and its time in milliseconds."""
    layers, spent = 1, 0.0
    x = np.ones((BATCH, WIDTH), np.float32)
    while True:
        model = make_model(layers)
        lane = zrt.Session(model, zrt.SessionOptions(intra_op_num_threads=1)).lane({"x": x.shape})
        spent = statistics.median(python_contender("lane", "lane", lane.run).times(100)) / 1e6
        if spent >= 0.9:
            return model, spent
        layers = max(layers + 1, int(layers / max(spent, 0.05)))


def by_loop(model: bytes, x: Any) -> Callable[[], None]:
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(model, options)
    results = np.empty((len(x), 8), np.float32)

    def run() -> None:
        for start in range(0, len(x), BATCH):
            results[start : start + BATCH] = session.run(None, {"x": x[start : start + BATCH]})[0]

    return run


def by_lanes(model: bytes, x: Any, threads: int) -> Callable[[], None]:
    session = zrt.Session(model, zrt.SessionOptions(intra_op_num_threads=1))
    results = np.empty((len(x), 8), np.float32)
    lanes = [session.lane({"x": (BATCH, WIDTH)}) for _ in range(threads)]

    def work(index: int) -> None:
        lane = lanes[index]
        source, target = lane.inputs["x"], lane.outputs["y"]
        for start in range(index * BATCH, len(x), threads * BATCH):
            source[...] = x[start : start + BATCH]
            lane.run()
            results[start : start + BATCH] = target

    def run() -> None:
        workers = [threading.Thread(target=work, args=(index,)) for index in range(threads)]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()

    return run


def by_score(model: bytes, path: Path, threads: int) -> Callable[[], None]:
    session = zrt.Session(model, zrt.SessionOptions(intra_op_num_threads=1))
    scorer = Scorer(session, BATCH)
    kind = path.suffix[1:]
    source = open_source(path, kind)

    def run() -> None:
        with tempfile.TemporaryDirectory(dir=path.parent) as folder:
            parts = Parts(Path(folder, f"results.{kind}"), kind, {})
            score(source, scorer, {"x": ["x"]}, parts, threads=threads)
            parts.finish()

    return run


def by_ray(model: bytes, path: Path, threads: int) -> Callable[[], None]:
    """One actor with as many lanes as the others have threads, on the cluster that this process is connected to."""
    from zrt.ray.score import Actors, results

    spec = zrt.SessionSpec(model, zrt.SessionOptions(intra_op_num_threads=1))
    scorer = Scorer(spec.load(), BATCH)
    kind = path.suffix[1:]
    source = open_source(path, kind)

    def run() -> None:
        with tempfile.TemporaryDirectory(dir=path.parent) as folder:
            parts = Parts(Path(folder, f"results.{kind}"), kind, {})
            actors = Actors(spec, 1, threads)
            scored = results(source, path, kind, {"x": ["x"]}, 0, actors=actors, scorer=scorer)
            gather(scored, scorer, parts)
            parts.finish()

    return run


def cluster(stack: ExitStack) -> str | None:
    """Starts a cluster of Ray on this machine; the reason if there is none."""
    try:
        from zrt.ray.connection import connected

        stack.enter_context(connected("local"))
    except ImportError as error:
        return f"needs the packages of the extra ray: {error}"
    except ConnectionError as error:
        return str(error)
    return None


def cpu_s() -> float:
    """The CPU seconds of this process and of those that it started, Ray's workers among them (on Linux)."""
    spent, parents = {}, {}
    for file in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            fields = file.read_text("utf-8", "replace").rpartition(")")[2].split()
            number = int(file.parent.name)
            # The parent, and the ticks of the process and of its children that have ended.
            parents[number], spent[number] = int(fields[1]), sum(map(int, fields[11:15]))
    ticks = 0
    for number in spent:
        above = number
        while above in parents and above != os.getpid():
            above = parents[above]
        ticks += spent[number] if above == os.getpid() and number != above else 0
    return time.process_time() + ticks / os.sysconf("SC_CLK_TCK")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=64_000)
    parser.add_argument("--rounds", type=int, default=5)
    arguments = parser.parse_args()
    rows = arguments.rows // BATCH * BATCH
    model, spent = fitting_model()
    x = np.random.default_rng(1).standard_normal((rows, WIDTH), np.float32)
    threads = min(2, os.cpu_count() or 1)
    skipped = {}
    with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
        file = Path(folder, "data.npz")
        np.savez(file, x=x)
        ways = {
            "onnxruntime, 1 thread": by_loop(model, x),
            f"bare lanes, {threads} threads": by_lanes(model, x, threads),
            "zrt score, npz, 1 thread": by_score(model, file, 1),
            f"zrt score, npz, {threads} threads": by_score(model, file, threads),
        }
        try:
            import pyarrow as pa
            import pyarrow.parquet
        except ImportError:
            pass
        else:
            table = pa.table({"x": pa.FixedSizeListArray.from_arrays(pa.array(x.ravel()), WIDTH)})
            pyarrow.parquet.write_table(table, Path(folder, "data.parquet"))
            ways[f"zrt score, Parquet, {threads} threads"] = by_score(model, Path(folder, "data.parquet"), threads)
        name = f"zrt score --ray, npz, {threads} lanes"
        reason, on_ray = cluster(stack), None
        if reason is None:
            ways[name] = on_ray = by_ray(model, file, threads)
        else:
            skipped[name] = reason
        walls: dict[str, list[float]] = {name: [] for name in ways}
        works: dict[str, list[float]] = {name: [] for name in ways}
        for turn in range(arguments.rounds):
            for name, way in in_turn([*ways.items()], turn):
                cpu = cpu_s if way is on_ray else time.process_time
                start, work = time.perf_counter(), cpu()
                way()
                walls[name].append(time.perf_counter() - start)
                works[name].append(cpu() - work)
    report = {
        "batch_ms": spent,
        "rows_per_second": {name: round(rows / min(took)) for name, took in walls.items()},
        # The time that other processes take from a busy machine is not in these.
        "rows_per_cpu_second": {name: round(rows / min(took)) for name, took in works.items()},
        "skipped": skipped,
    }
    print(json.dumps(report, indent=2))


if __name__ == "__main__":
    main()
