"""Name the types of files by their contents.

pip install --no-deps magika
python file_types.py inbox
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from importlib.metadata import distribution
from pathlib import Path
from typing import Any

import numpy as np

import zrt


class FileTypes:
    """The model inside the package magika, with the labels and thresholds that lie beside it."""

    def __init__(self) -> None:
        folder = Path(str(distribution("magika").locate_file("magika/models/standard_v3_3")))
        self.config: dict[str, Any] = json.loads((folder / "config.min.json").read_text("utf-8"))
        self.lane = zrt.Session(folder / "model.onnx").lane({"bytes": (1, 2048)})

    def label(self, path: Path) -> str:
        """The type of a file, by its first and its last bytes without the white space around."""
        head_size, tail_size, block = (self.config[name] for name in ("beg_size", "end_size", "block_size"))
        with path.open("rb") as file:
            head = file.read(block).lstrip()[:head_size]
            file.seek(max(0, file.seek(0, os.SEEK_END) - block))
            tail = file.read(block).rstrip()[-tail_size:]
        if len(head) < self.config["min_file_size_for_dl"]:
            return "too short to tell"

        [row] = self.lane.inputs["bytes"]
        row[:] = self.config["padding_token"]
        row[: len(head)] = np.frombuffer(head, np.uint8)
        row[row.size - len(tail) :] = np.frombuffer(tail, np.uint8)
        self.lane.run()
        [scores] = self.lane.outputs["target_label"]
        label = self.config["target_labels_space"][scores.argmax()]
        threshold = self.config["thresholds"].get(label, self.config["medium_confidence_threshold"])
        name: str = self.config["overwrite_map"].get(label, label)
        return name if scores.max() >= threshold else f"perhaps {name}"


def main() -> None:
    parser = argparse.ArgumentParser(description="Name the types of files by their contents.")
    parser.add_argument("paths", nargs="+", type=Path, help="files, and folders of files")
    arguments = parser.parse_args()

    file_types = FileTypes()
    failed = False
    for path in arguments.paths:
        for file in sorted(path.rglob("*")) if path.is_dir() else [path]:
            if file.is_dir():
                continue
            try:
                print(f"{file}: {file_types.label(file)}")
            except OSError as error:
                failed = True
                print(error, file=sys.stderr)
    sys.exit(failed)


if __name__ == "__main__":
    main()
