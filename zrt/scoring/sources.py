"""Data sets to score: Parquet, Arrow and CSV by pyarrow.dataset, and numpy's files."""

from __future__ import annotations

import os
import struct
import tokenize
import zipfile
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from fnmatch import fnmatchcase
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import numpy as np

from zrt.errors import ArgumentError, FileError
from zrt.scoring.blocks import CHUNK_ROWS, Chunk
from zrt.scoring.columns import Array
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

# All that numpy and zipfile raise for files that are damaged, or that take more memory than there is.
UNREADABLE = (
    *(OSError, ValueError, EOFError, KeyError, TypeError, OverflowError, MemoryError, RuntimeError, struct.error),
    *(zipfile.BadZipFile, zlib.error, tokenize.TokenError, SyntaxError),
)

# The words that CSV files have in place of a value. "nan" is a number.
NULLS = ["", "null", "NULL", "NA", "N/A", "#N/A"]


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
        """The number of rows."""

    def pieces(self) -> list[Piece]:
        """All rows, in order, in pieces that several processes may read."""

    def chunks(self, columns: Sequence[str], first: int, size: int, piece: Piece | None = None) -> Iterator[Chunk]:
        """The rows from number `first` on, of all or of a piece, in chunks of at most `size`.

        Chunks end where they do with another `first`, so that batches have the same rows.
        """

    def types(self, columns: Sequence[str]) -> dict[str, Any]:
        """Arrow's types of the columns that are read as texts and are none."""


def format_of(path: Path, given: str | None) -> str:
    """The format of a file, or of the files in a folder: as given, or by their names."""
    if given is not None:
        return given
    names = [path.name]
    if path.is_dir():
        names = sorted(name for _, _, files in os.walk(path) for name in files if not name.startswith((".", "_")))
    for name in names:
        found = SUFFIXES.get(Path(name).suffix.lower())
        if found is not None:
            return found
    raise ArgumentError(f"{str(path)!r}: its name does not tell the format; there are {', '.join(SUFFIXES)}")


def open_source(path: Path, kind: str) -> Source:
    """Opens a data set; raises `FileError` where it cannot be read."""
    if not path.exists():
        raise FileError(f"{str(path)!r}: there is no such file or folder")
    return NumpySource(path, kind) if kind in NUMPY else ArrowSource(path, kind)


def _members(path: Path) -> Iterator[tuple[str, Array]]:
    """The arrays of a ``.npz`` file by name, each read when it is its turn; raises `UNREADABLE`."""
    # numpy would leave a damaged file open, and `np.load` calls a file of another kind a pickle.
    with open(path, "rb") as file, np.lib.npyio.NpzFile(file) as loaded:
        for name in loaded.files:
            yield name, loaded[name]


class NumpySource:
    """A ``.npy`` file is one column without a name, a ``.npz`` file a column for each of its arrays."""

    def __init__(self, path: Path, kind: str) -> None:
        self.files = [path]
        try:
            if kind == "npy":
                self._arrays: dict[str, Array] = {"": np.lib.format.open_memmap(path, mode="r")}
            else:
                self._arrays = dict(_members(path))
        except UNREADABLE as error:
            raise FileError(f"{str(path)!r} cannot be read: {error}") from None
        counts = {
            name: len(array) if isinstance(array, np.ndarray) and array.ndim else None
            for name, array in self._arrays.items()
        }
        if None in counts.values() or len(set(counts.values())) != 1:
            raise FileError(f"{str(path)!r}: its arrays do not all have the same number of rows: {counts}")
        self.names = list(self._arrays)
        self.rows = len(next(iter(self._arrays.values())))
        # A .npz file is read as a whole.
        self._piece_rows = PIECE_ROWS if kind == "npy" else max(1, self.rows)

    def pieces(self) -> list[Piece]:
        """All rows, in order, in pieces that several processes may read."""
        step = self._piece_rows
        return [Piece(start, min(step, self.rows - start), "", None) for start in range(0, self.rows, step)]

    def chunks(self, columns: Sequence[str], first: int, size: int, piece: Piece | None = None) -> Iterator[Chunk]:
        """The rows from number `first` on, of all or of a piece, in chunks of at most `size`."""
        end = self.rows if piece is None else min(piece.first + piece.rows, self.rows)
        begin = 0 if piece is None else piece.first
        for aligned in range(begin, end, size):
            start, stop = max(aligned, first), min(aligned + size, end)
            if start < stop:
                yield Chunk(start, stop - start, {name: self._arrays[name][start:stop] for name in columns})

    def types(self, columns: Sequence[str]) -> dict[str, Any]:
        """Arrow's types of the columns that are read as texts and are none."""
        return {}


class ArrowSource:
    """A file or a folder of files, as a data set of pyarrow."""

    def __init__(self, path: Path, kind: str) -> None:
        import pyarrow as pa
        import pyarrow.csv
        import pyarrow.dataset as datasets

        self._path, self._kind = path, kind
        # By default all row groups of a file are read ahead.
        few = datasets.ParquetFragmentScanOptions(pre_buffer=False)
        self._options = {"fragment_scan_options": few} if kind == "parquet" else {}
        self._error = pa.ArrowException
        try:
            kept: Any = kind
            if kind == "csv":
                # As texts: pyarrow takes the types from the first rows, and a bad row must not end the run.
                names = datasets.dataset(path, format="csv").schema.names
                texts = dict.fromkeys(names, pa.string())
                convert = pyarrow.csv.ConvertOptions(column_types=texts, strings_can_be_null=True, null_values=NULLS)
                kept = datasets.CsvFileFormat(convert_options=convert)
            self._dataset = datasets.dataset(path, format=kept)
            self.names = list(self._dataset.schema.names)
            self.files = [Path(file) for file in self._dataset.files]
        except (pa.ArrowException, OSError) as error:
            raise FileError(f"{str(path)!r} cannot be read: {error}") from None

    @cached_property
    def rows(self) -> int:
        """The number of rows, for which a CSV file is read as a whole."""
        with self._named():
            return int(self._dataset.count_rows())

    def pieces(self) -> list[Piece]:
        """All rows, in order, in pieces that several processes may read."""
        made: list[Piece] = []
        with self._named():
            at = 0
            fragments = list(self._dataset.get_fragments())
            for fragment in fragments:
                units: list[tuple[tuple[int, ...] | None, int]]
                if hasattr(fragment, "row_groups"):
                    units = [((group.id,), group.num_rows) for group in fragment.row_groups]
                else:
                    units = [(None, self.rows if len(fragments) == 1 else fragment.count_rows())]
                for groups, rows in units:
                    last = made[-1] if made else None
                    if groups and last and last.groups and last.file == fragment.path and last.rows < CHUNK_ROWS:
                        made[-1] = Piece(last.first, last.rows + rows, last.file, last.groups + groups)
                    else:
                        made.append(Piece(at, rows, fragment.path, groups))
                    at += rows
        return [piece for piece in made if piece.rows]

    def _part(self, piece: Piece) -> Any:
        """The data set of a piece."""
        whole = self._dataset
        for fragment in whole.get_fragments():
            if fragment.path == piece.file:
                found = fragment if piece.groups is None else fragment.subset(row_group_ids=list(piece.groups))
                return type(whole)([found], whole.schema, whole.format, whole.filesystem)
        raise FileError(f"{piece.file!r} is not in the data set")

    def types(self, columns: Sequence[str]) -> dict[str, Any]:
        """Arrow's types of the columns that are read as texts and are none; a CSV file is read as a whole for them."""
        if self._kind != "csv" or not columns:
            return {}
        from zrt.scoring.arrow import types_of

        with self._named():
            return types_of(self._dataset.to_batches(columns=list(columns)), columns)

    @contextmanager
    def _named(self) -> Iterator[None]:
        try:
            yield
        except (self._error, OSError) as error:
            raise FileError(f"{str(self._path)!r} cannot be read: {error}") from None

    def chunks(self, columns: Sequence[str], first: int, size: int, piece: Piece | None = None) -> Iterator[Chunk]:
        """The rows from number `first` on, of all or of a piece, in chunks of at most `size`."""
        at = 0 if piece is None else piece.first
        try:
            scanned = self._dataset if piece is None else self._part(piece)
            # Few batches ahead: the rows wait in memory.
            batches = scanned.to_batches(
                columns=list(columns), batch_size=size, batch_readahead=2, fragment_readahead=1, **self._options
            )
            for batch in batches:
                skipped = min(max(first - at, 0), batch.num_rows)
                if skipped < batch.num_rows:
                    rest = batch.slice(skipped)
                    named = {name: rest.column(index) for index, name in enumerate(columns)}
                    yield Chunk(at + skipped, rest.num_rows, named)
                at += batch.num_rows
        except (self._error, OSError) as error:
            raise FileError(f"{str(self._path)!r} cannot be read from row {at}: {error}") from None


def check_numpy(outputs: Sequence[ValueInfo], kind: str, keep: Sequence[str], skip_bad: bool) -> None:
    """Raises for results that numpy's files cannot hold."""
    if kind == "npy" and len(outputs) != 1:
        raise ArgumentError(f"a .npy file holds one array, and the model has {len(outputs)} outputs: use .npz")
    if keep:
        raise ArgumentError(f"--keep: {kind} files hold the outputs only")
    for info in outputs:
        kind_of_numbers = info.element_type.dtype.kind
        if kind_of_numbers == "O" or (skip_bad and kind_of_numbers not in "fc"):
            reason = "has no nulls in numpy" if skip_bad else "is of texts"
            raise ArgumentError(f"output {info.name!r} {reason}: write Parquet, Arrow or CSV")


def input_columns(
    given: Sequence[tuple[str, str]], source: Source, names: Sequence[str], kind: str
) -> dict[str, list[str]]:
    """The columns of each input: as given (pairs of column and input), else by name; a ``.npy`` file has one.

    A given column that the data set lacks may be a pattern: it stands for the columns that match, in their order.
    """
    columns: dict[str, list[str]] = {}
    for column, name in given:
        matching = [each for each in source.names if column not in source.names and fnmatchcase(each, column)]
        columns.setdefault(name, []).extend(matching or [column])
    if kind == "npy" and not columns and len(names) == 1:
        return {names[0]: [""]}
    for name in names:
        if name not in columns and name in source.names:
            columns[name] = [name]
    return columns
