"""``zrt replay``."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import zrt
from tests.support import models
from zrt.errors import FailError

QUIET = zrt.SessionOptions(log_severity_level="FATAL", intra_op_num_threads=1)


@pytest.fixture
def saved_model(tmp_path: Path) -> Callable[[str, str], Path]:
    def save(name: str, body: str) -> Path:
        text = f"(float[n] x, int64[k] s) => {body}"
        (tmp_path / name).write_bytes(models.parsed(text).SerializeToString())
        return tmp_path / name

    return save


def test_capsule_runs_again(zrt_json, complaint, saved_model, tmp_path):
    session = zrt.Session(saved_model("m.onnx", "(float[a, b] y) { y = Reshape(x, s) }"), QUIET)
    with session.record(capsules=tmp_path / "c", feeds=True) as recorder:
        with pytest.raises(FailError):
            session.run([np.ones(6, np.float32), np.array([4, 5])])
        (capsule,) = recorder.capsules
    document = zrt_json("replay", capsule, status=1)
    assert (document["failed_again"], document["reason"]) == (True, "it failed")
    other = saved_model("other.onnx", "(float[n] y, int64[k] t) { y = Neg(x) t = Neg(s) }")
    assert zrt_json("replay", capsule, "--model", other)["failed_again"] is False
    assert "there is no such file" in complaint("replay", capsule, "--model", tmp_path / "none.onnx", status=1)
    assert "no capsule" in complaint("replay", other, status=1)


def test_slow_run_that_fails_now_is_a_failure(zrt_json, saved_model, tmp_path):
    session = zrt.Session(saved_model("m.onnx", "(float[n] y, int64[k] t) { y = Neg(x) t = Neg(s) }"), QUIET)
    with session.record(capsules=tmp_path / "c", feeds=True, slower_than=1e-9) as recorder:
        session.run([np.ones(6, np.float32), np.array([4, 5])])
        (capsule,) = recorder.capsules
    other = saved_model("other.onnx", "(float[a, b] y) { y = Reshape(x, s) }")
    document = zrt_json("replay", capsule, "--model", other, status=1)
    assert (document["failed_again"], document["error_then"]) == (False, None)
    assert "cannot be reshaped" in document["error_now"]
