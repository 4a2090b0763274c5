"""``zrt memory``: exact figures of a model, a row for each setting, and the answer to a budget."""

from __future__ import annotations

import sys
import tempfile

import numpy as np
import pytest

from tests.support import models
from zrt.bench import child, footprint

SQUARE = np.ones((1024, 1024), np.float32)
LARGE = "100GB"


@pytest.fixture
def model(saved):
    return saved(models.parse("(float[n, 1024] x) => (float[n, 1024] y) { a = MatMul(x, w) y = Exp(a) }", w=SQUARE))


@pytest.fixture
def scratch(tmp_path, monkeypatch):
    """The folder of temporary files."""
    folder = tmp_path / "scratch"
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    return folder


@pytest.fixture
def first_setting(monkeypatch):
    """Measures the model as it is, and with no other setting."""
    monkeypatch.setattr(footprint, "SETTINGS", footprint.SETTINGS[:1])


def test_budget_is_enough_as_it_is(zrt_json, model, scratch, monkeypatch):
    monkeypatch.setattr(footprint, "CONFIRMED", 1)
    answer = zrt_json("memory", model, "--shape", "x=2,1024", "--threads", 1, "--budget", LARGE)
    assert answer["inputs"] == {"x": "float32[2, 1024]"}
    size = SQUARE.nbytes
    assert answer["weights"] == {"stored": size, "outside": 0, "loaded": size, "packed": size}
    assert answer["arena"] == size + (1 << 20)
    assert answer["activations"] == {"planned": 2 * 4096, "peak": 2 * 4096}
    assert answer["budget"] == {"bytes": 100_000_000_000, "fits_with": "as it is"}
    [row] = answer["settings"]
    assert row["peak"] > (0 if sys.platform == "darwin" else 2 * size)
    assert [each.name for each in model.parent.iterdir() if each != scratch] == [model.name]
    assert list(scratch.iterdir()) == []


def test_cache_is_neither_filled_nor_measured(zrt_json, model, first_setting, tmp_path, monkeypatch):
    monkeypatch.setenv("ZRT_CACHE", str(tmp_path / "cache"))
    answer = zrt_json("memory", model, "--shape", "x=1,1024")
    assert len(answer["settings"]) == 1
    assert not (tmp_path / "cache").exists()


def test_budget_is_too_little(zrt, model, first_setting):
    assert "are too little: the lowest peak" in zrt("memory", model, "--shape", "x=1,1024", "--budget", "1MB", status=1)


def test_open_sizes_must_be_given(complaint, model):
    complained = complaint("memory", model, "--json", status=2)
    assert "input 'x'" in complained
    assert "--shape" in complained


@pytest.mark.parametrize("size", ["512M", "much", "-1MB"])
def test_budget_is_a_size(complaint, size):
    assert "--budget" in complaint("memory", f"--budget={size}", status=2)


def test_missing_model(complaint, tmp_path):
    assert "missing.onnx" in complaint("memory", tmp_path / "missing.onnx", status=1)


def test_killed_process_is_reported(complaint, model, first_setting, monkeypatch):
    monkeypatch.setattr(child, "PROGRAM", "import os; os.kill(os.getpid(), 9)")
    assert "SIGKILL" in complaint("memory", model, "--shape", "x=1,1024", status=1)


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells how much memory is a process's own")
def test_settings_save_what_they_promise(zrt_json, saved):
    layers = " ".join(f"x{i + 1} = MatMul(x{i}, w{i})" for i in range(10))
    weights = {f"w{index}": np.full((1024, 1024), index, np.float32) for index in range(10)}
    model = saved(models.parse(f"(float[n, 1024] x0) => (float[n, 1024] x10) {{ {layers} }}", **weights))
    answer = zrt_json("memory", model, "--shape", "x0=1,1024", "--threads", 2)
    rows = {row["name"]: row for row in answer["settings"]}
    assert list(rows) == [setting.name for setting in footprint.SETTINGS]
    assert not any("error" in row for row in rows.values())
    size = 10 * SQUARE.nbytes
    plain = rows["as it is"]
    assert plain["saves"] == 0
    assert plain["another_session"] > 0.9 * size
    assert rows["shared weights"]["another_session"] < 0.2 * size
    assert rows["mapped, not packed"]["another_session"] < 0.2 * size
    assert plain["own"] - rows["mapped, not packed"]["own"] > 0.8 * size
