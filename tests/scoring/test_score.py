"""Data sets of numpy's through models; tests/cli/test_score.py has those of pyarrow."""

import os
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import closing
from itertools import count
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np
import pytest

import zrt
from tests.scoring import models
from tests.support.interrupts import on_its_own
from tests.support.models import parsed
from zrt.errors import AllocationError, ArgumentError, FileError, MemoryLimitError, ShapeError, UnsupportedError
from zrt.scoring import parts
from zrt.scoring.blocks import Chunk
from zrt.scoring.parts import Parts
from zrt.scoring.results import Result
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
    return Parts(folder / "results.npz", "npz", {"recipe": recipe}, resume=resume)


COLUMNS = {"x": ["x"], "k": ["k"]}


@pytest.mark.parametrize(
    ("model", "x"),
    [(models.countdown(), np.arange(1, 5)), (models.misdeclared(), np.arange(8).reshape(-1, 2))],
    ids=["ends for these rows alone", "declares another output"],
)
def test_model_runs_on_the_rows_alone_and_as_it_is(tmp_path: Path, model: bytes, x: np.ndarray) -> None:
    np.savez(tmp_path / "data.npz", x=x.astype(np.float32))
    parts = parts_of(tmp_path)
    score(
        open_source(tmp_path / "data.npz", "npz"), Scorer(zrt.Session(model, QUIET), 1), {"x": ["x"]}, parts, threads=1
    )
    parts.finish()
    with np.load(tmp_path / "results.npz") as columns:
        assert columns["y"].tolist() == (x if x.ndim > 1 else x * 0).tolist()


@pytest.mark.parametrize("size", [1, 64])
@pytest.mark.parametrize("row", [0, 217, ROWS - 1])
def test_an_error_of_the_model_s_names_the_row(tmp_path: Path, size: int, row: int) -> None:
    places = np.arange(ROWS) % 10
    places[row] = 99
    np.savez(tmp_path / "data.npz", k=places)
    refusing = Scorer(zrt.Session(models.lookup(), QUIET), size)
    parts = parts_of(tmp_path)
    with pytest.raises(zrt.OrtError, match=rf"^row {row}: .*idx=99"):
        score(open_source(tmp_path / "data.npz", "npz"), refusing, {"k": ["k"]}, parts, threads=2)


@pytest.mark.parametrize(
    ("text", "limit", "error"),
    [
        # Its table has no place for 4, the different rows of the whole batch.
        (
            """(float[n] x) => (float[n] y) <float[4] table = {1, 2, 3, 4}, int64 zero = {0}> {
                u = Unique(x) s = Shape(u) c = Gather(s, zero) one = Gather(table, c) z = Sub(one, one) y = Add(x, z)
            }""",
            None,
            zrt.OrtError,
        ),
        (
            """(float[4] x) => (float[4] y) <int64[2] s = {100000, 4}, int64[1] a = {0}> {
                b = Expand(x, s) c = Neg(b) y = ReduceSum <keepdims = 0> (c, a)
            }""",
            "1MiB",
            MemoryLimitError,
        ),
    ],
    ids=["rows together", "memory"],
)
def test_an_error_that_no_row_brings_names_none(tmp_path: Path, text: str, limit: str | None, error: type) -> None:
    np.savez(tmp_path / "data.npz", x=np.arange(4, dtype=np.float32))
    options = zrt.SessionOptions(log_severity_level="FATAL", memory_limit=limit)
    refusing = Scorer(zrt.Session(parsed(text), options), 4)
    parts = parts_of(tmp_path)
    with pytest.raises(error) as caught:
        score(open_source(tmp_path / "data.npz", "npz"), refusing, {"x": ["x"]}, parts, threads=1)
    assert (str(caught.value)[:4] == "row ", caught.value.__cause__) == (False, None)


@pytest.mark.parametrize(("batch", "size"), [("n", 64), ("n", 1), (7, 64), (1000, 1)])
@pytest.mark.parametrize("threads", [1, 3])
def test_results_are_in_order(data: Path, tmp_path: Path, batch: int | str, size: int, threads: int) -> None:
    parts, seen = parts_of(tmp_path), []
    score(open_source(data, "npz"), scorer(batch, size), COLUMNS, parts, threads=threads, progress=seen.append)
    parts.finish()
    with np.load(tmp_path / "results.npz") as columns:
        assert columns["n"].tolist() == list(range(0, 2 * ROWS, 2))
        np.testing.assert_allclose(columns["y"][:, 0], np.arange(ROWS * 3).reshape(-1, 3).sum(axis=1) + 1)
    assert seen == sorted(seen)
    assert seen[-1] == ROWS
    assert sorted(tmp_path.iterdir()) == [data, tmp_path / "results.npz"]


@pytest.mark.parametrize("size", [1 << 18, "l"], ids=["fixed", "open"])
@pytest.mark.parametrize("dtype", [np.uint8, np.float32])
def test_chunks_of_wide_rows_are_small(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, load: Callable[..., zrt.Session], size: int | str, dtype: Any
) -> None:
    """A chunk of 8192 such rows took 8 GiB where their type is converted."""
    model = load(f"(float[n, {size}] x) => (float[n] y) <int64[1] a = {{1}}> {{ y = ReduceMax <keepdims = 0> (x, a) }}")
    np.save(tmp_path / "data.npy", np.repeat(np.arange(100, dtype=dtype)[:, None], 1 << 18, axis=1))
    source, parts = open_source(tmp_path / "data.npy", "npy"), parts_of(tmp_path)
    chunks, rows = source.chunks, list[int]()

    def spied(*arguments: Any) -> Iterator[Chunk]:
        for chunk in chunks(*arguments):
            rows.append(chunk.size)
            yield chunk

    monkeypatch.setattr(source, "chunks", spied)
    score(source, Scorer(model, 4), {"x": [""]}, parts, threads=2)
    parts.finish()
    with np.load(tmp_path / "results.npz") as columns:
        assert columns["y"].tolist() == list(range(100))
    assert rows == [32, 32, 32, 4]


def test_error_of_a_run_leaves_complete_parts(data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    runs = []

    def run(self: Scorer, feeds: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        runs.append(feeds)
        if len(runs) > 3:
            raise zrt.errors.FailError("a kernel fails")
        return {"n": 2 * feeds["k"]}

    folder = tmp_path
    with monkeypatch.context() as patch:
        patch.setattr(Scorer, "run", run)
        with closing(parts_of(folder)) as parts, pytest.raises(zrt.errors.FailError):
            score(open_source(data, "npz"), scorer(size=16), COLUMNS, parts, threads=1)
    for refused, message in ((parts_of, "--resume"), (lambda f: parts_of(f, resume=True, recipe="b"), "another run")):
        with pytest.raises(ArgumentError, match=message):
            refused(folder)
    again = parts_of(folder, resume=True)
    assert 0 < again.done < ROWS
    monkeypatch.setattr(Scorer, "run", lambda self, feeds: {"n": 2 * feeds["k"]})
    score(open_source(data, "npz"), scorer(), COLUMNS, again, threads=2)
    again.finish()
    assert np.load(tmp_path / "results.npz")["n"].tolist() == list(range(0, 2 * ROWS, 2))


@pytest.mark.parametrize("refused", [1, 2])
def test_thread_that_the_system_refuses_loses_no_row(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, refused: int
) -> None:
    start, starts = threading.Thread.start, count(1)

    def some(thread: threading.Thread) -> None:
        if next(starts) >= refused:
            raise RuntimeError("can't start new thread")
        start(thread)

    with monkeypatch.context() as patched, closing(parts_of(tmp_path)) as parts:
        patched.setattr(threading.Thread, "start", some)
        with pytest.raises(AllocationError, match="no thread for a lane: can't start new thread"):
            score(open_source(data, "npz"), scorer(), COLUMNS, parts, threads=2)
    parts = parts_of(tmp_path, resume=True)
    score(open_source(data, "npz"), scorer(), COLUMNS, parts, threads=2)
    parts.finish()
    with np.load(tmp_path / "results.npz") as columns:
        assert columns["n"].tolist() == list(range(0, 2 * ROWS, 2))


def test_interrupt_between_any_two_lines_loses_no_row(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parts, "PART_BYTES", 16)
    steps = [function.__code__ for function in (Parts.add, Parts.flush, parts._replace)]

    def interrupts(number: int, parts: Parts) -> bool:
        """Interrupts at that line; False if there are fewer."""
        lines = count(1)

        def trace(frame: FrameType, event: str, argument: Any) -> Any:
            if frame.f_code in steps and event == "line" and next(lines) == number:
                raise KeyboardInterrupt
            return trace

        sys.settrace(trace)
        try:
            for row in range(3):
                parts.add(Result(1, {"n": np.array([row])}, bad=[(row, "bad")]))
            return False
        except KeyboardInterrupt:
            return True
        finally:
            sys.settrace(None)

    interrupted = True
    for step in count(1):
        if not interrupted:
            break
        made = parts_of(tmp_path / str(step))
        interrupted = on_its_own(interrupts, step, made)
        made.flush()
        made.close()
        resumed = parts_of(tmp_path / str(step), resume=True)
        assert [int(number) for file in resumed.files for number in np.load(file)["n"]] == list(range(resumed.done))
        assert [row for row, _ in resumed.bad] == list(range(resumed.done))
    assert resumed.done == 3
    assert step > 40


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="Linux has a file that is always full")
@pytest.mark.parametrize("kind", ["npy", "npz"])
def test_full_disk_leaves_the_parts(tmp_path: Path, kind: str) -> None:
    results = tmp_path / f"results.{kind}"
    for resume in (False, True):
        parts = Parts(results, kind, {}, resume=resume)
        if not resume:
            for first in (0, 4):
                parts.add(Result(4, {"n": np.arange(first, first + 4)}))
                parts.flush()
            (tmp_path / f"{results.name}.parts" / "__joined.new").symlink_to("/dev/full")
            with pytest.raises(FileError, match="_joined' cannot be written: "):
                parts.finish()
            parts.close()
    parts.finish()
    columns = np.load(results)
    assert (columns if kind == "npy" else columns["n"]).tolist() == list(range(8))
    assert [file.name for file in tmp_path.iterdir()] == [results.name]


@pytest.mark.parametrize("kind", ["npy", "npz"])
def test_results_whose_rows_have_different_shapes_are_refused(tmp_path: Path, kind: str) -> None:
    """Also in another file: numpy would repeat a row of one element."""
    parts = Parts(tmp_path / f"results.{kind}", kind, {})
    parts.add(Result(2, {"y": np.ones((2, 3))}))
    parts.flush()
    parts.add(Result(2, {"y": np.ones((2, 1))}))
    with pytest.raises(ArgumentError, match=r"different shapes: {'y': \[3\]} and {'y': \[1\]}"):
        parts.flush()


@pytest.mark.parametrize("rows", [64, 7, 100])
def test_batch_that_needs_too_much_memory_is_halved(rows: int) -> None:
    """Each row needs 64 KiB of intermediate results, and the arena has 1 MiB, of which the load took some."""
    text = "(float[n, 16384] x) => (float[n] y) <int64[1] a = {1}> { b = Neg(x) y = ReduceSum <keepdims = 0> (b, a) }"
    limited = zrt.SessionOptions(intra_op_num_threads=1, log_severity_level="FATAL", memory_limit="1MiB")
    scorer = Scorer(zrt.Session(parsed(text), limited), 64)
    x = np.repeat(np.arange(rows, dtype=np.float32)[:, None], 16384, axis=1)
    assert scorer.run({"x": x})["y"].tolist() == [-16384 * row for row in range(rows)]
    assert scorer.batch == 8


def test_row_that_needs_too_much_memory_raises() -> None:
    limited = zrt.SessionOptions(log_severity_level="FATAL", memory_limit="1MiB")
    for sizes in ("n, m", "2, m"):
        model = parsed(f"(float[{sizes}] x) => (float[{sizes}] y) {{ a = Neg(x) y = Softmax(a) }}")
        with pytest.raises(MemoryLimitError):
            Scorer(zrt.Session(model, limited), 2).run({"x": np.ones((2, 1 << 20), np.float32)})


def test_runs_whose_rows_have_different_shapes_are_refused(load: Callable[..., zrt.Session]) -> None:
    """A row of the output has the distinct numbers of the batch: two, and then one."""
    text = """(float[2] x) => (float[2, k] y) {
        u = Unique(x)
        zero = Constant<value_ints = [0]>()
        row = Unsqueeze(u, zero)
        times = Constant<value_ints = [2, 1]>()
        y = Tile(row, times)
    }"""
    session = load(text)
    with pytest.raises(ShapeError, match="output 'y': its rows have different shapes"):
        Scorer(session, 1).run({"x": np.array([1, 2, 3, 3], np.float32)})


@pytest.mark.parametrize("name", ["file", "args", "allow_pickle", "a/b"])
def test_outputs_of_any_name_are_written(tmp_path: Path, name: str) -> None:
    parts = parts_of(tmp_path)
    for first in (0, 2):
        parts.add(Result(2, {name: np.arange(first, first + 2)}))
        parts.flush()
    parts.finish()
    assert np.load(tmp_path / "results.npz")[name].tolist() == [0, 1, 2, 3]


def test_folder_with_other_files_is_refused(tmp_path: Path) -> None:
    for folder, single in ((tmp_path / "results", False), (tmp_path / "results.npz.parts", True)):
        folder.mkdir()
        (folder / "mine.txt").touch()
        for resume in (False, True):
            with pytest.raises(ArgumentError, match=r"is not empty: 'mine\.txt' is no file of a run"):
                Parts(folder.with_suffix(""), "npz", {}, single=single, resume=resume, overwrite=True)
        assert [file.name for file in folder.iterdir()] == ["mine.txt"]


def test_pipe_is_not_replaced(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.npz")
    with pytest.raises(ArgumentError, match=r"OUTPUT: .*pipe\.npz' is no plain file"):
        Parts(tmp_path / "pipe.npz", "npz", {}, overwrite=True)
    assert [file.name for file in tmp_path.iterdir()] == ["pipe.npz"]


def test_missing_columns_are_named() -> None:
    for columns, batch, message in (
        ({"x": ["x"]}, ["x", "z"], "input 'k' has no column; the data set has 'x', 'z'"),
        ({**COLUMNS, "q": ["x"]}, ["x", "k"], "no input 'q'"),
        (COLUMNS, ["x"], "no column 'k'"),
    ):
        with pytest.raises(ArgumentError, match=message):
            check_columns(scorer(), columns, batch)


def test_models_that_take_no_rows_are_refused(load: Callable[..., zrt.Session]) -> None:
    with pytest.raises(UnsupportedError, match="input 'x'"):
        Scorer(load("(float x) => (float y) { y = Relu(x) }"), 1)
    with pytest.raises(UnsupportedError, match="the model has no input"):
        Scorer(load("() => (float[1] y) { y = Constant<value_floats = [1.0]>() }"), 1)
    with pytest.raises(UnsupportedError, match="different first sizes: 2, 3"):
        Scorer(load("(float[2] x, float[3] y) => (float[2] z, float[3] w) { z = Relu(x) w = Relu(y) }"), 1)
    # A lane has the packed bytes of these: as many as rows where a row has two elements.
    with pytest.raises(UnsupportedError, match="'y' is of int4, whose rows share bytes"):
        Scorer(load("(float[n, 2] x) => (int4[n, 2] y) { y = Cast<to = 22>(x) }"), 1)
    with pytest.raises(UnsupportedError, match="'x' is of uint4"):
        Scorer(load("(uint4[n, 2] x) => (float[n, 2] y) { y = Cast<to = 1>(x) }"), 1)


def test_arrays_of_different_lengths_are_refused(tmp_path: Path) -> None:
    np.savez(tmp_path / "data.npz", x=np.ones(3), k=np.ones(4))
    with pytest.raises(FileError, match="same number of rows"):
        open_source(tmp_path / "data.npz", "npz")


def test_format_follows_from_the_name(tmp_path: Path) -> None:
    assert format_of(Path("a.PARQUET")) == "parquet"
    (tmp_path / "part.arrow").touch()
    assert format_of(tmp_path) == "arrow"
    for name in ("_SUCCESS", ".part.arrow.crc", "more/part.feather", "_log/1.json", ".git/index"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()
    assert format_of(tmp_path) == "arrow"
    (tmp_path / "gone.csv").symlink_to(tmp_path / "nowhere")
    assert format_of(tmp_path) == "arrow"
    with pytest.raises(ArgumentError, match="does not tell the format"):
        format_of(Path("a.txt"))


@pytest.mark.parametrize("other", ["README.txt", "part.arrow.bak", "part.parquet", "z/more.csv", "part.arrow~"])
def test_folder_of_several_formats_is_refused(tmp_path: Path, other: str) -> None:
    """The rows of a copy, and the lines of notes, would be rows."""
    for name in ("part.arrow", other):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()
    with pytest.raises(ArgumentError, match=f"has files of arrow and others, such as '.*{other}': move"):
        format_of(tmp_path)
    (tmp_path / "linked").mkdir()
    (tmp_path / "linked" / "part.arrow").touch()
    (tmp_path / "linked" / "folder").symlink_to(tmp_path, target_is_directory=True)
    with pytest.raises(ArgumentError, match="has files of arrow and others"):
        format_of(tmp_path / "linked")
