"""Places that are no files, and disks that are full: nothing is lost, and nothing passes for whole that is not."""

from __future__ import annotations

import os
import socket
import stat
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from onnx import TensorProto

import zrt
from tests.robustness.conftest import Child
from tests.support import models
from zrt.errors import ArgumentError, ModelError

QUIET = zrt.SessionOptions(intra_op_num_threads=1, log_severity_level="FATAL")
ADD = models.add(["n"])
WEIGHTS = models.build(
    [models.node("Add", ["x", "w"], ["z"])],
    [models.tensor("x", TensorProto.FLOAT, [64])],
    [models.tensor("z", TensorProto.FLOAT, [64])],
    {"w": np.ones(64, np.float32)},
)

WRITERS: dict[str, Callable[[Path], object]] = {
    "save_optimized": lambda path: zrt.save_optimized(ADD, path, QUIET),
    "save_optimized beside": lambda path: zrt.save_optimized(
        WEIGHTS, path.with_name("m.onnx"), QUIET, weights_file=path.name, weights_from=0
    ),
    "compile": lambda path: zrt.compile(ADD, path, QUIET),
    "save_lora_adapter": lambda path: zrt.save_lora_adapter(path, {"w": np.zeros(4, np.float32)}),
    "Graph.save": lambda path: zrt.Graph.from_onnx(ADD).save(path),
}


@pytest.mark.parametrize("kind", ["fifo", "socket", "link to a fifo"])
@pytest.mark.parametrize("write", WRITERS)
def test_what_is_no_plain_file_is_not_replaced(write: str, kind: str, tmp_path: Path) -> None:
    """As /dev/null is none: whoever may write there would leave the machine without it."""
    place = tmp_path / "place.onnx"
    if kind == "socket":
        with socket.socket(socket.AF_UNIX) as made:
            made.bind(os.path.relpath(place))
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


def test_a_pipe_is_no_model_and_is_not_called_empty(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "m.onnx")
    with pytest.raises(ModelError, match="no plain file"):
        zrt.Session(tmp_path / "m.onnx", QUIET)


def test_a_trace_that_is_cut_short_is_no_success(child: Child, tmp_path: Path) -> None:
    child(
        """
        import resource, signal
        os.chdir(sys.argv[1])
        options = zrt.SessionOptions(intra_op_num_threads=1, log_severity_level="FATAL", profile_file_prefix="p")
        profiled = session(options)
        whole = session(options)
        profiled.run(FEEDS)
        whole.end_profiling()
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (100, resource.RLIM_INFINITY))
        try:
            profiled.end_profiling()
        except zrt.errors.FileError as error:
            assert "not all of it" in str(error), error
        else:
            raise SystemExit("the trace was cut short, and nobody said so")
        """,
        arguments=[tmp_path],
    )
