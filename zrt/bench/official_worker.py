"""Drives `zrt.bench.official_contenders` in a process of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from zrt.bench.harness import Contender
from zrt.bench.official_contenders import Official, Place
from zrt.errors import ZrtError

PATIENCE_S = 5


class _Worker:
    """The other process as a function from requests to replies."""

    __slots__ = ("_process",)

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process

    def ask(self, order: dict[str, Any]) -> Any:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        try:
            print(json.dumps(order), file=self._process.stdin, flush=True)
            return json.loads(self._process.stdout.readline())
        except (BrokenPipeError, json.JSONDecodeError):
            _end(self._process)
            status = self._process.wait()
            raise ZrtError(f"the process that measures onnxruntime ended with status {status}") from None

    def measure(self, do: str, key: str, runs: int) -> Any:
        return self.ask({"do": do, "key": key, "runs": runs})


@contextmanager
def set_up(
    model: Path,
    options: Mapping[str, Any],
    providers: Sequence[tuple[str, Mapping[str, str]]],
    inputs: Sequence[Place],
    outputs: Sequence[Place],
) -> Iterator[Official]:
    """`official_contenders.set_up` in a process of its own, which lives as long as the context."""
    command = [sys.executable, "-P", "-m", "zrt.bench.official_contenders"]
    paths = {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
    with (
        tempfile.TemporaryDirectory(prefix="zrt-bench-") as folder,
        subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=paths) as process,
    ):
        worker = _Worker(process)
        try:
            made = worker.ask(
                {
                    "model": os.fspath(model.absolute()),
                    "options": dict(options),
                    "providers": list(providers),
                    "inputs": [_entry(place, Path(folder, f"{index}.npy")) for index, place in enumerate(inputs)],
                    "outputs": [_entry(place, None) for place in outputs],
                }
            )
            labels = made.pop("contenders")
            yield Official(**made, contenders=[_contender(worker, *named) for named in labels.items()])
        finally:
            _end(process)


def _contender(worker: _Worker, key: str, label: str) -> Contender:
    return Contender(key, label, partial(worker.measure, "batch", key), partial(worker.measure, "times", key))


def _entry(place: Place, file: Path | None) -> dict[str, Any]:
    """A place as JSON; an input's bytes go through a file, which works for every dtype."""
    if file is not None and place.array is not None:
        np.save(file, np.ascontiguousarray(place.array).reshape(-1).view(np.uint8))
    return {
        "name": place.name,
        "onnx_type": place.onnx_type,
        "shape": place.shape,
        "array_shape": None if place.array is None else place.array.shape,
        "dtype": None if place.array is None else place.array.dtype.name,
        "file": None if file is None else os.fspath(file),
    }


def _end(process: subprocess.Popen[str]) -> None:
    """Closes the process's input, at which it ends."""
    assert process.stdin is not None
    try:
        process.stdin.close()
        process.wait(PATIENCE_S)
    except (OSError, subprocess.TimeoutExpired):
        process.kill()
