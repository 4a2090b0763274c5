"""Data sets of numpy's through models; tests/cli/test_score.py has those of pyarrow."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import zrt
from tests.scoring import models
from zrt.errors import ArgumentError, FileError, UnsupportedError
from zrt.scoring.parts import Parts
from zrt.scoring.score import score
from zrt.scoring.scorer import Scorer, check_columns
from zrt.scoring.sources import format_of, open_source

QUIET = zrt.SessionOptions(intra_op_num_threads=1, log_severity_level="FATAL")
ROWS = 500


def scorer(batch: int | str = "batch", size: int = 64) -> Scorer:
    return Scorer(zrt.Session(models.affine(batch), QUIET), size)


@pytest.fixture
def data(tmp_path: Path) -> Path:
    np.savez(tmp_path / "data.npz", x=np.arange(ROWS * 3, dtype=np.float32).reshape(-1, 3), k=np.arange(ROWS))
    return tmp_path / "data.npz"


def parts_of(folder: Path, *, resume: bool = False, recipe: str = "a") -> Parts:
    return Parts(folder, "npz", {"recipe": recipe}, resume=resume)


COLUMNS = {"x": ["x"], "k": ["k"]}


@pytest.mark.parametrize(("batch", "size"), [("n", 64), ("n", 1), (7, 64), (1000, 1)])
@pytest.mark.parametrize("threads", [1, 3])
def test_results_are_in_order(data: Path, tmp_path: Path, batch: int | str, size: int, threads: int) -> None:
    made, seen = parts_of(tmp_path / "parts"), []
    score(open_source(data, "npz"), scorer(batch, size), COLUMNS, made, threads=threads, progress=seen.append)
    made.finish(tmp_path / "results.npz")
    with np.load(tmp_path / "results.npz") as found:
        assert found["n"].tolist() == list(range(0, 2 * ROWS, 2))
        np.testing.assert_allclose(found["y"][:, 0], np.arange(ROWS * 3).reshape(-1, 3).sum(axis=1) + 1)
    assert seen == sorted(seen)
    assert seen[-1] == ROWS
    assert not (tmp_path / "parts").exists()


def test_error_of_a_run_leaves_complete_parts(data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    runs = []

    def run(self: Scorer, feeds: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        runs.append(feeds)
        if len(runs) > 3:
            raise zrt.errors.FailError("a kernel fails")
        return {"n": 2 * feeds["k"]}

    folder = tmp_path / "parts"
    with monkeypatch.context() as patch:
        patch.setattr(Scorer, "run", run)
        with pytest.raises(zrt.errors.FailError):
            score(open_source(data, "npz"), scorer(size=16), COLUMNS, parts_of(folder), threads=1)
    for refused, message in ((parts_of, "--resume"), (lambda f: parts_of(f, resume=True, recipe="b"), "another run")):
        with pytest.raises(ArgumentError, match=message):
            refused(folder)
    again = parts_of(folder, resume=True)
    assert 0 < again.done < ROWS
    monkeypatch.setattr(Scorer, "run", lambda self, feeds: {"n": 2 * feeds["k"]})
    score(open_source(data, "npz"), scorer(), COLUMNS, again, threads=2)
    again.finish(tmp_path / "results.npz")
    assert np.load(tmp_path / "results.npz")["n"].tolist() == list(range(0, 2 * ROWS, 2))


def test_folder_with_other_files_is_refused(tmp_path: Path) -> None:
    (tmp_path / "mine.txt").touch()
    with pytest.raises(ArgumentError, match="is not empty"):
        parts_of(tmp_path)


def test_missing_columns_are_named() -> None:
    for columns, given, message in (
        ({"x": ["x"]}, ["x", "z"], "input 'k' has no column; the data set has 'x', 'z'"),
        ({**COLUMNS, "q": ["x"]}, ["x", "k"], "no input 'q'"),
        (COLUMNS, ["x"], "no column 'k'"),
    ):
        with pytest.raises(ArgumentError, match=message):
            check_columns(scorer(), columns, given)


def test_models_that_take_no_rows_are_refused(load: Callable[..., zrt.Session]) -> None:
    with pytest.raises(UnsupportedError, match="input 'x'"):
        Scorer(load("(float x) => (float y) { y = Relu(x) }"), 1)
    with pytest.raises(UnsupportedError, match="different first sizes: 2, 3"):
        Scorer(load("(float[2] x, float[3] y) => (float[2] z, float[3] w) { z = Relu(x) w = Relu(y) }"), 1)


@pytest.mark.parametrize("content", [b"", b"nothing", b"\x93NUMPY\x01\x00"])
def test_files_that_cannot_be_read_are_named(tmp_path: Path, content: bytes) -> None:
    for kind in ("npy", "npz"):
        path = tmp_path / f"data.{kind}"
        path.write_bytes(content)
        with pytest.raises(FileError, match=f"data.{kind}"):
            open_source(path, kind)


def test_arrays_of_different_lengths_are_refused(tmp_path: Path) -> None:
    np.savez(tmp_path / "data.npz", x=np.ones(3), k=np.ones(4))
    with pytest.raises(FileError, match="same number of rows"):
        open_source(tmp_path / "data.npz", "npz")


def test_format_follows_from_the_name(tmp_path: Path) -> None:
    assert format_of(Path("a.PARQUET"), None) == "parquet"
    assert format_of(Path("a"), "csv") == "csv"
    (tmp_path / "part.arrow").touch()
    assert format_of(tmp_path, None) == "arrow"
    with pytest.raises(ArgumentError, match="does not tell the format"):
        format_of(Path("a.txt"), None)
