"""Several builds of zrt and of ONNX Runtime, each in processes of its own that take turns.

`python -m benches.engines official=FOLDER few=FOLDER` compares the zrt in each folder: the size of its engine, the
times to open it and to register its operators, of the first and of a later load, of the first and of later runs, of a
whole process that ends after one result, and its memory after the first run, above that of a process with numpy. The
onnxruntime that the first folder holds takes part too.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from importlib.resources import files
from pathlib import Path
from statistics import median

import numpy as np

SCRIPTS = Path(__file__).parent / "scripts"
TIMES = ("open", "register", "first load", "second load", "first run", "run", "process")
BESIDE = ("onnxruntime", "numpy")


def run(package: str, folder: str, script: str, *arguments: str) -> tuple[str, float]:
    """The output of a script that uses a package, the zrt of `folder`, and the seconds until the process ended."""
    environment = os.environ | {"PYTHONPATH": folder, "ORT_DISABLE_TELEMETRY": "1"}
    begin = time.perf_counter()
    done = subprocess.run(
        [sys.executable, "-P", SCRIPTS / script, package, *arguments],
        env=environment,
        stdout=subprocess.PIPE,
        check=True,
    )
    return done.stdout.decode(), time.perf_counter() - begin


def engine_files(folder: str) -> list[Path]:
    """zrt's extension, and the library that lies beside zrt where ONNX Runtime is not inside the extension."""
    beside = Path(folder, "onnxruntime", "capi").glob("libonnxruntime.so*")
    return [*Path(folder, "zrt", "_native").glob("_ort*.so"), *(path for path in beside if not path.is_symlink())]


def turns(names: list[str], rounds: int) -> Iterator[str]:
    """Each name once a round, beginning with another one each time."""
    for number in range(rounds):
        at = number % len(names)
        yield from names[at:] + names[:at]


def measure(folders: dict[str, str], model: str, feeds: str, rounds: int) -> dict[str, dict[str, list[float]]]:
    """The figures of each contender, a list of one for each round."""
    found: dict[str, dict[str, list[float]]] = {name: {} for name in folders}
    digests: dict[str, str] = {}
    for name in turns(list(folders), rounds):
        package = name if name in BESIDE else "zrt"
        folder = folders[name]
        output, _ = run(package, folder, "answer_engine.py", model, feeds, str(engine_files(folder)[-1]))
        facts = json.loads(output)
        digests[name] = facts.pop("digest")
        if name != "numpy":
            _, facts["process"] = run(package, folder, "answer_model.py", model, feeds, "")
        for key, value in facts.items():
            found[name].setdefault(key, []).append(value)
    for name in digests:
        if name != "numpy" and digests[name] != digests["onnxruntime"]:
            print(f"{name}: its results DIFFER from onnxruntime's")
    return found


def show(folders: dict[str, str], found: dict[str, dict[str, list[float]]], yardstick: str) -> None:
    """Prints a table: a column for each contender, and in brackets the median of the ratios to the yardstick's."""
    bare = median(found["numpy"]["resident"])
    shown = [name for name in folders if name != "numpy"]
    sizes = [sum(path.stat().st_size for path in engine_files(folders[name])) / 1e6 for name in shown]
    rows = [("", shown), ("engine, MB", [f"{size:.1f}" for size in sizes])]
    for key, unit, least in (*((key, 1e-3, 0.0) for key in TIMES), ("resident", 1e6, bare)):
        title = f"{key}, {'MB' if key == 'resident' else 'ms'}"
        rows.append((title, [cell(found, name, key, unit, least, yardstick) for name in shown]))
    for title, cells in rows:
        print(f"{title:18}" + "".join(f"{text:>18}" for text in cells))


def cell(
    found: dict[str, dict[str, list[float]]], name: str, key: str, unit: float, least: float, yardstick: str
) -> str:
    """One cell of the table; `least` is what the values are counted above."""
    values, others = found[name].get(key), found[yardstick].get(key)
    if values is None:
        return ""
    text = f"{(median(values) - least) / unit:.3f}"
    if others is not None:
        ratio = median((own - least) / (other - least) for own, other in zip(values, others, strict=True))
        text += f" ({ratio:.2f})"
    return text


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "folders", nargs="+", metavar="NAME=FOLDER", help="where a zrt is; the first has an onnxruntime too"
    )
    parser.add_argument("--model", default=str(files("zrt.models") / "digits.onnx"))
    parser.add_argument("--feeds", help="an .npz file; default: an image for the digits")
    parser.add_argument("--rounds", type=int, default=21)
    parser.add_argument("--yardstick", default="onnxruntime", help="the contender that the ratios are to")
    arguments = parser.parse_args()
    folders = dict(pair.split("=", 1) for pair in arguments.folders)
    base = next(iter(folders))
    folders |= {"onnxruntime": folders[base], "numpy": folders[base]}
    with tempfile.TemporaryDirectory() as scratch:
        feeds = arguments.feeds or os.path.join(scratch, "feeds.npz")
        if not arguments.feeds:
            np.savez(feeds, image=np.full((1, 1, 8, 8), 0.5, np.float32))
        found = measure(folders, arguments.model, feeds, arguments.rounds)
    show(folders, found, arguments.yardstick)


if __name__ == "__main__":
    main()
