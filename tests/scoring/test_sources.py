"""Pieces of data sets, which several processes may read."""

import math
import os
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from zrt.errors import FileError
from zrt.scoring import sources
from zrt.scoring.results import Result
from zrt.scoring.sources import Piece, open_source

ROWS = 1000
K = np.arange(ROWS)


def write(kind: str, path: Path) -> Path:
    """A data set of `ROWS` rows: a file, or a folder of two."""
    if kind in sources.NUMPY:
        path = path / f"data.{kind}"
        np.savez(path, k=K) if kind == "npz" else np.save(path, K)
        return path
    pa = pytest.importorskip("pyarrow", reason="needs the packages of the extra score")
    import pyarrow.csv
    import pyarrow.parquet

    for index in range(2):
        half = pa.table({"k": K[index * 600 : (index + 1) * 600]})
        file = path / f"{index}.{kind}"
        if kind == "parquet":
            pyarrow.parquet.write_table(half, file, row_group_size=100)
        elif kind == "csv":
            pyarrow.csv.write_csv(half, file)
        else:
            with pa.ipc.new_file(str(file), half.schema) as writer:
                writer.write_table(half, max_chunksize=100)
    return path


@pytest.mark.parametrize(("kind", "count"), [("npz", 1), ("npy", 4), ("parquet", 4), ("arrow", 2), ("csv", 2)])
@pytest.mark.parametrize("first", [0, 1, 599, 600, 777, ROWS])
def test_pieces_have_each_row_once(
    kind: str, count: int, first: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sources, "PIECE_ROWS", 300)
    path = write(kind, tmp_path)
    if kind not in sources.NUMPY:
        monkeypatch.setattr("zrt.scoring.arrow_files.CHUNK_ROWS", 300)
    pieces = open_source(path, kind).pieces()
    assert len(pieces) == count
    column = "" if kind == "npy" else "k"
    sizes: list[int] = []
    for piece in pieces:
        # Another process opens the data set itself.
        for chunk in open_source(path, kind).chunks([column], first, 70, piece):
            values: Any = chunk.columns[column]
            assert len(values) == chunk.size <= 70
            assert chunk.first == first + len(sizes)
            sizes += [int(value) for value in (values if kind in sources.NUMPY else values.to_pylist())]
    assert sizes == list(range(first, ROWS))


@pytest.mark.parametrize("kind", ["npz", "npy"])
@pytest.mark.parametrize("first", [1, 50, 333])
def test_chunks_end_at_the_same_rows_from_any_first_one(kind: str, first: int, tmp_path: Path) -> None:
    """So that the batches of a run that goes on have the same rows."""
    source = open_source(write(kind, tmp_path), kind)
    columns = source.names

    def ends(start: int) -> list[int]:
        return [chunk.first + chunk.size for chunk in source.chunks(columns, start, 70)]

    assert ends(first) == [end for end in ends(0) if end > first]


@pytest.mark.parametrize("kind", ["npz", "npy"])
def test_damaged_files_of_numpy_are_named(kind: str, tmp_path: Path) -> None:
    """Each byte of the headers and of the archive's directory is another one, and the file ends anywhere."""
    path = tmp_path / f"data.{kind}"
    np.savez_compressed(path, k=np.arange(8)) if kind == "npz" else np.save(path, np.arange(8))
    good = path.read_bytes()
    chance = np.random.default_rng(0)
    changed = [good[:end] for end in range(len(good))]
    for place in range(len(good)):
        for value in (0, 255, int(chance.integers(256))):
            changed.append(good[:place] + bytes([value]) + good[place + 1 :])
    refused = 0
    for content in changed:
        path.write_bytes(content)
        try:
            list(open_source(path, kind).chunks(["k"] if kind == "npz" else [""], 0, 10))
        except FileError:
            refused += 1
        except KeyError:
            # The array has another name, which `check_columns` tells.
            assert b"k.npy" not in content
    assert refused > len(good)


@pytest.mark.parametrize("content", [b"a model", b"\x93NUMPY", b"PK", b""])
def test_file_of_another_kind_is_no_archive(content: bytes, tmp_path: Path) -> None:
    path = tmp_path / "data.npz"
    path.write_bytes(content)
    with pytest.raises(FileError, match=r"data\.npz' cannot be read: File is not a zip file"):
        open_source(path, "npz")


@pytest.mark.parametrize("members", [{"k.txt": b"text"}, {"k.npy": b""}, {}, {"k.npy": b"\x93NUMPY\x01\x00\xff\xff"}])
def test_archives_without_arrays_are_named(members: dict[str, bytes], tmp_path: Path) -> None:
    path = tmp_path / "data.npz"
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    for kind in ("npz", "npy"):
        with pytest.raises(FileError, match=r"data\.npz"):
            open_source(path, kind)
    np.save(path.with_suffix(".npy"), np.array([{}], object), allow_pickle=True)
    for kind in ("npz", "npy"):
        with pytest.raises(FileError, match=r"data\.npy"):
            open_source(path.with_suffix(".npy"), kind)


@pytest.mark.parametrize("dtype", [np.float16, ">i4", "<U3", "S2", "M8[s]", bool, "<U0"])
@pytest.mark.parametrize("shape", [(5,), (5, 3), (5, 0), (0, 2)])
@pytest.mark.parametrize("order", ["C", "F"])
def test_slices_of_a_numpy_file_are_its_rows(dtype: Any, shape: tuple[int, ...], order: Any, tmp_path: Path) -> None:
    rows = np.arange(math.prod(shape)).reshape(shape).astype(dtype, order=order)
    np.save(tmp_path / "data.npy", rows)
    source = open_source(tmp_path / "data.npy", "npy")
    for size in (2, 5):
        parts = [chunk.columns[""] for chunk in source.chunks([""], 0, size)]
        assert [len(part) for part in parts] == [min(size, len(rows) - start) for start in range(0, len(rows), size)]
        np.testing.assert_array_equal(np.concatenate([source.no_rows([""])[""], *parts]), rows)
        assert all(part.dtype == rows.dtype for part in parts)


def test_numpy_file_without_rows_is_an_error(tmp_path: Path) -> None:
    np.save(tmp_path / "data.npy", np.float32(1))
    with pytest.raises(FileError, match=r"data\.npy': its arrays do not all have the same number of rows"):
        open_source(tmp_path / "data.npy", "npy")


def test_numpy_file_that_is_cut_off_while_it_is_read_is_an_error(tmp_path: Path) -> None:
    """A mapping of it would end the process."""
    path = write("npy", tmp_path)
    chunks = open_source(path, "npy").chunks([""], 0, 70)
    assert next(chunks).columns[""].tolist() == list(range(70))
    os.truncate(path, 2000)
    with pytest.raises(FileError, match=r"data\.npy' cannot be read: it was cut off"):
        list(chunks)


def test_types_of_texts(tmp_path: Path) -> None:
    pytest.importorskip("pyarrow", reason="needs the packages of the extra score")
    rows = {
        "whole": ("1", "-2", "", "0"),
        "real": ("1", "2.50", "-1.5e-05", ""),
        "zip": ("1", "007", "2", "3"),
        "long": ("1", str(10**18), "2", "3"),
        "more": ("1.5", str(10**16), "2", "3"),
        "text": ("1", "a", "2", "3"),
        "empty": ("", "", "", ""),
    }
    lines = [",".join(rows), *(",".join(values) for values in zip(*rows.values(), strict=True))]
    (tmp_path / "data.csv").write_text("\n".join(lines) + "\n")
    types = open_source(tmp_path / "data.csv", "csv").types(list(rows))
    assert {name: str(kind) for name, kind in types.items()} == {"whole": "int64", "real": "double"}


def test_column_whose_name_is_no_utf_8_is_an_error_of_the_file(tmp_path: Path) -> None:
    pytest.importorskip("pyarrow", reason="needs the packages of the extra score")
    (tmp_path / "data.csv").write_bytes("größe,k\n1,2\n".encode("latin-1"))
    with pytest.raises(FileError, match=r"data\.csv' cannot be read: .*utf-8"):
        open_source(tmp_path / "data.csv", "csv")


def test_piece_of_a_file_that_is_gone(tmp_path: Path) -> None:
    source = open_source(write("parquet", tmp_path), "parquet")
    with pytest.raises(FileError, match=r"gone\.parquet' is not in the data set"):
        list(source.chunks(["k"], 0, 10, Piece(0, 10, "gone.parquet", None)))


@pytest.mark.parametrize("content", ["", "k\n1,2\n"])
def test_file_of_a_folder_that_cannot_be_read_is_named(content: str, tmp_path: Path) -> None:
    write("csv", tmp_path)
    (tmp_path / "2.csv").write_text(content)
    source = open_source(tmp_path, "csv")
    for read in (
        lambda: source.rows,
        source.pieces,
        lambda: source.types(["k"]),
        lambda: list(source.chunks(["k"], 0, 70)),
    ):
        with pytest.raises(FileError, match=r"2\.csv' cannot be read"):
            read()


def test_results_that_the_format_cannot_hold_are_an_error(tmp_path: Path) -> None:
    pa = pytest.importorskip("pyarrow", reason="needs the packages of the extra score")
    from zrt.scoring import arrow_files

    result = Result(0, columns={"nested": pa.array([[1, 2]])})
    with pytest.raises(FileError, match=r"csv files cannot hold the results: .*list"):
        arrow_files.write(tmp_path / "r.csv", "csv", result)
