"""Paths that are not regular files, and full disks: nothing is lost, and incomplete files raise an error."""

import os
import socket
import stat
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import zrt
from tests.robustness.conftest import Child
from tests.robustness.sums import ADD, QUIET
from tests.support import models
from zrt.errors import ArgumentError, ModelError

WRITERS: dict[str, Callable[[Path], object]] = {
    "save_optimized": lambda path: zrt.save_optimized(ADD, path, QUIET),
    "save_optimized beside": lambda path: zrt.save_optimized(
        models.weighted(), path.with_name("m.onnx"), QUIET, weights_file=path.name, weights_from=0
    ),
    "compile": lambda path: zrt.compile(ADD, path, QUIET),
    "save_lora_adapter": lambda path: zrt.save_lora_adapter(path, {"w": np.zeros(4, np.float32)}),
    "Graph.save": lambda path: zrt.Graph.from_onnx(ADD).save(path),
}


@pytest.mark.parametrize("kind", ["fifo", "socket", "link to a fifo"])
@pytest.mark.parametrize("write", WRITERS)
def test_special_file_is_not_replaced(write: str, kind: str, tmp_path: Path) -> None:
    """A root user who writes to /dev/null would otherwise replace it by a file."""
    place = tmp_path / "place.onnx"
    if kind == "socket":
        with socket.socket(socket.AF_UNIX) as listener:
            listener.bind(os.path.relpath(place))
    else:
        pipe = place if kind == "fifo" else tmp_path / "pipe"
        os.mkfifo(pipe)
        if pipe != place:
            place.symlink_to(pipe)
    before = os.lstat(place)
    with pytest.raises(ArgumentError, match="no plain file"):
        WRITERS[write](place)
    after = os.lstat(place)
    assert (after.st_ino, stat.S_IFMT(after.st_mode)) == (before.st_ino, stat.S_IFMT(before.st_mode))
    assert not [each for each in os.listdir(tmp_path) if each.startswith(".zrt-") or each == "m.onnx"]


def test_pipe_as_a_model_is_refused_by_its_kind(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "m.onnx")
    with pytest.raises(ModelError, match="no plain file"):
        zrt.Session(tmp_path / "m.onnx", QUIET)


def test_profile_cut_short_raises(child: Child, tmp_path: Path) -> None:
    child("odd/cut_profile.py", arguments=[tmp_path])


def test_traces_of_runs_cut_short_raise(child: Child) -> None:
    child("odd/cut_traces_of_runs.py")
