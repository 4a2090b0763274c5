"""Pieces of data sets, which several processes may read."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from zrt.errors import FileError
from zrt.scoring import sources
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
    monkeypatch.setattr(sources, "CHUNK_ROWS", 300)
    path = write(kind, tmp_path)
    pieces = open_source(path, kind).pieces()
    assert len(pieces) == count
    column = "" if kind == "npy" else "k"
    found: list[int] = []
    for piece in pieces:
        # Another process opens the data set itself.
        for chunk in open_source(path, kind).chunks([column], first, 70, piece):
            values: Any = chunk.columns[column]
            assert len(values) == chunk.size <= 70
            assert chunk.first == first + len(found)
            found += [int(value) for value in (values if kind in sources.NUMPY else values.to_pylist())]
    assert found == list(range(first, ROWS))


def test_piece_of_a_file_that_is_gone(tmp_path: Path) -> None:
    source = open_source(write("parquet", tmp_path), "parquet")
    with pytest.raises(FileError, match=r"gone\.parquet' is not in the data set"):
        list(source.chunks(["k"], 0, 10, Piece(0, 10, "gone.parquet", None)))
