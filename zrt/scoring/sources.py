"""Data sets to score: Parquet, Arrow and CSV by pyarrow.dataset, and numpy's files."""

from __future__ import annotations

import math
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import numpy as np

from zrt._common.files import reading
from zrt._common.numpy_files import UNREADABLE
from zrt.errors import ArgumentError, FileError
from zrt.scoring.blocks import CHUNK_ROWS, Chunk
from zrt.scoring.columns import Array, has_nan
from zrt.values.type_info import ValueInfo

SUFFIXES = {
    ".parquet": "parquet",
    ".pq": "parquet",
    ".arrow": "arrow",
    ".feather": "arrow",
    ".ipc": "arrow",
    ".csv": "csv",
    ".npy": "npy",
    ".npz": "npz",
}
NUMPY = ("npy", "npz")

# The rows of a piece of a file that can be cut anywhere.
PIECE_ROWS = 64 * CHUNK_ROWS


class Piece(NamedTuple):
    """Consecutive rows that can be read without those before them."""

    first: int
    rows: int
    file: str
    """One of a data set's files, as pyarrow names it."""
    groups: tuple[int, ...] | None
    """The row groups of a Parquet file; None for a whole file."""


class Source(Protocol):
    """A data set, read from its first row to its last."""

    names: list[str]
    files: list[Path]
    """The files, in the order of their rows."""

    @property
    def rows(self) -> int:
        """The number of rows; a CSV file is read as a whole for it."""

    def pieces(self) -> list[Piece]:
        """All rows, in order, in pieces that several processes may read."""

    def chunks(self, columns: Sequence[str], first: int, size: int, piece: Piece | None = None) -> Iterator[Chunk]:
        """The rows from number `first` on, of all or of a piece, in chunks of at most `size`.

        Chunks end where they do with another `first`, so that batches have the same rows.
        """

    def no_rows(self, columns: Sequence[str]) -> dict[str, Any]:
        """The columns without rows."""

    def types(self, columns: Sequence[str]) -> dict[str, Any]:
        """Arrow's types of the columns that are read as texts and are none; a CSV file is read as a whole for them."""


def format_of(path: Path) -> str:
    """The format of a file, or of the files in a folder, by their names."""
    files = _files_in(path) if path.is_dir() else [path]
    kinds = {SUFFIXES.get(file.suffix.lower()): file for file in files}
    known = [kind for kind in kinds if kind]
    if not known:
        raise ArgumentError(f"{str(path)!r}: its name does not tell the format; there are {', '.join(SUFFIXES)}")
    if len(kinds) > 1:
        other = next(file for kind, file in kinds.items() if kind != known[0])
        raise ArgumentError(
            f"{str(path)!r} has files of {known[0]} and others, such as {str(other)!r}: move those away, or "
            "--input-format reads all as of one"
        )
    return known[0]


def _files_in(folder: Path) -> list[Path]:
    """The files of a data set, as pyarrow finds them: it leaves out hidden ones and those of other programs."""
    files = []
    for place, folders, names in os.walk(folder, followlinks=True):
        folders[:] = [name for name in folders if not name.startswith((".", "_"))]
        files += [Path(place, name) for name in names if not name.startswith((".", "_"))]
    return sorted(file for file in files if file.is_file())


def open_source(path: Path, kind: str) -> Source:
    """Opens a data set; raises `FileError` where it cannot be read."""
    if not path.exists():
        raise FileError(f"{str(path)!r}: there is no such file or folder")
    if kind in NUMPY:
        return NumpySource(path, kind)
    from zrt.scoring.arrow_files import ArrowSource

    return ArrowSource(path, kind)


def stamps(files: Sequence[Path]) -> dict[Path, tuple[int, ...]]:
    """Figures of the system that change where a file is written to or replaced."""
    figures: dict[Path, tuple[int, ...]] = {}
    for file in files:
        with reading(file, OSError):
            found = file.stat()
        figures[file] = (found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns)
    return figures


@contextmanager
def archive(path: Path) -> Iterator[np.lib.npyio.NpzFile]:
    """A ``.npz`` file, which reads an array when it is asked for."""
    # numpy would leave a damaged file open, and `np.load` calls a file of another kind a pickle.
    with reading(path, *UNREADABLE), open(path, "rb") as file, np.lib.npyio.NpzFile(file) as opened:
        yield opened


class Stored:
    """An array in a ``.npy`` file, of which each slice is read when it is taken.

    Not by a mapping: where a mapped file is cut off meanwhile, the next access ends the process.
    """

    def __init__(self, path: Path, mapped: np.memmap[Any, Any]) -> None:
        self._path = path
        self.dtype: np.dtype[Any] = mapped.dtype
        self.shape: tuple[int, ...] = mapped.shape
        self._begin: int = mapped.offset
        self._row_bytes: int = mapped[:1].nbytes

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, rows: slice) -> Array:
        start, stop, _ = rows.indices(len(self))
        shape = (stop - start, *self.shape[1:])
        with reading(self._path, *UNREADABLE):
            values: Array = np.fromfile(
                self._path, self.dtype, math.prod(shape), offset=self._begin + start * self._row_bytes
            )
            if values.size < math.prod(shape):
                raise EOFError("it was cut off")
        return values.reshape(shape)


def stored(path: Path) -> Array | Stored:
    """The array in a ``.npy`` file, read as a whole where its rows cannot be read by themselves."""
    with reading(path, *UNREADABLE):
        mapped = np.lib.format.open_memmap(path, mode="r")
        # In Fortran's order the bytes of a row are not side by side: such a file is read as a whole.
        in_pieces = mapped.ndim and mapped.dtype.itemsize and mapped.flags.c_contiguous
        return Stored(path, mapped) if in_pieces else np.load(path)


class NumpySource:
    """A ``.npy`` file is one column without a name, a ``.npz`` file a column for each of its arrays."""

    def __init__(self, path: Path, kind: str) -> None:
        self.files: list[Path] = [path]
        if kind == "npy":
            self._arrays: Mapping[str, Array | Stored] = {"": stored(path)}
        else:
            with archive(path) as opened:
                self._arrays = dict(opened)
        counts = {
            name: len(array) if isinstance(array, np.ndarray | Stored) and array.shape else None
            for name, array in self._arrays.items()
        }
        if None in counts.values() or len(set(counts.values())) != 1:
            raise FileError(f"{str(path)!r}: its arrays do not all have the same number of rows: {counts}")
        self.names: list[str] = list(self._arrays)
        self.rows: int = len(next(iter(self._arrays.values())))
        # A .npz file is read as a whole.
        self._piece_rows = PIECE_ROWS if kind == "npy" else max(1, self.rows)

    def pieces(self) -> list[Piece]:
        step = self._piece_rows
        return [Piece(start, min(step, self.rows - start), "", None) for start in range(0, self.rows, step)]

    def chunks(self, columns: Sequence[str], first: int, size: int, piece: Piece | None = None) -> Iterator[Chunk]:
        # The chunks of all rows are those of the pieces.
        for each in self.pieces() if piece is None else [piece]:
            end = min(each.first + each.rows, self.rows)
            for aligned in range(each.first, end, size):
                start, stop = max(aligned, first), min(aligned + size, end)
                if start < stop:
                    yield Chunk(start, stop - start, {name: self._arrays[name][start:stop] for name in columns})

    def no_rows(self, columns: Sequence[str]) -> dict[str, Any]:
        return {name: self._arrays[name][:0] for name in columns}

    def types(self, columns: Sequence[str]) -> dict[str, Any]:
        return {}


def check_numpy(outputs: Sequence[ValueInfo], kind: str, keep: Sequence[str], skip_bad: bool) -> None:
    """Raises for results that numpy's files cannot hold."""
    if kind == "npy" and len(outputs) != 1:
        raise ArgumentError(f"a .npy file holds one array, and the model has {len(outputs)} outputs: use .npz")
    if keep:
        raise ArgumentError(f"--keep: {kind} files hold the outputs only")
    for info in outputs:
        dtype = info.element_type.dtype
        if dtype.kind == "O" or (skip_bad and not has_nan(dtype)):
            reason = "has no nulls in numpy" if skip_bad else "is of texts"
            raise ArgumentError(f"output {info.name!r} {reason}: write Parquet, Arrow or CSV")


def input_columns(
    pairs: Sequence[tuple[str, str]], source: Source, names: Sequence[str], kind: str
) -> dict[str, list[str]]:
    """The columns of each input: of the pairs of a column and an input, else by name; a ``.npy`` file has one.

    A column of a pair that the data set lacks may be a pattern: it stands for the columns that match, in their order.
    """
    columns: dict[str, list[str]] = {}
    for column, name in pairs:
        matching = [each for each in source.names if column not in source.names and fnmatchcase(each, column)]
        columns.setdefault(name, []).extend(matching or [column])
    if kind == "npy" and not columns and len(names) == 1:
        return {names[0]: [""]}
    for name in names:
        if name not in columns and name in source.names:
            columns[name] = [name]
    return columns
