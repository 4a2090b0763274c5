"""Put the rows of a Parquet file through a model with `zrt score`, and count the right answers.

pip install pyarrow
python score_digits.py scores
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from collections import Counter
from importlib.resources import as_file, files
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import parquet


def write_rows(path: Path) -> None:
    """The handwritten digits that ship with zrt, as a data set: pixels from 0 to 1, and the digit."""
    with as_file(files("zrt.models") / "digits.npz") as file, np.load(file) as digits:
        pixels = (digits["images"] / 16).astype(np.float32)
        labels = digits["labels"]
    images = pa.FixedSizeListArray.from_arrays(pa.array(pixels.ravel()), pixels[0].size)
    parquet.write_table(pa.table({"pixels": images, "label": labels}), path)


def score(rows: Path, results: Path) -> int:
    """The exit status of `zrt score`; an interrupted run goes on where it was."""
    with as_file(files("zrt.models") / "digits.onnx") as model:
        options = ["--input", "pixels=image", "--keep", "label", "--resume", "--json"]
        command = [sys.executable, "-m", "zrt", "score", str(model), str(rows), str(results), *options]
        return subprocess.run(command, stdout=subprocess.DEVNULL).returncode


def mistakes(results: Path) -> tuple[int, Counter[tuple[int, int]]]:
    """The number of rows, and how often the model read one digit as another; some rows at a time are in memory."""
    rows, wrong = 0, Counter[tuple[int, int]]()
    with parquet.ParquetFile(results) as file:
        for batch in file.iter_batches(columns=["label", "probabilities"]):
            probabilities = pc.list_flatten(batch["probabilities"]).to_numpy().reshape(batch.num_rows, -1)
            pairs = zip(batch["label"].to_pylist(), probabilities.argmax(axis=1).tolist(), strict=True)
            wrong.update((label, read) for label, read in pairs if label != read)
            rows += batch.num_rows
    return rows, wrong


def main() -> None:
    parser = argparse.ArgumentParser(description="Put the digits that ship with zrt through the model for them.")
    parser.add_argument("folder", type=Path, help="a folder for digits.parquet and results.parquet")
    arguments = parser.parse_args()
    data, results = arguments.folder / "digits.parquet", arguments.folder / "results.parquet"
    try:
        arguments.folder.mkdir(parents=True, exist_ok=True)
        write_rows(data)
    except OSError as error:
        sys.exit(f"{data}: {error}")
    status = score(data, results)
    if status:
        sys.exit(status)  # the command has said why
    rows, wrong = mistakes(results)
    print(f"{rows - wrong.total()} of {rows} are right")
    for (label, read), count in sorted(wrong.items()):
        print(f"{label} read as {read}: {count}")


if __name__ == "__main__":
    main()
