"""Files of pyarrow's: data sets in Parquet, Arrow and CSV, and results written as such. Needs the pyarrow package."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.dataset as datasets
import pyarrow.parquet

from zrt._common.files import reading
from zrt.errors import ArgumentError, FileError
from zrt.scoring.arrow import flattened, table_of, types_of
from zrt.scoring.blocks import CHUNK_ROWS, Chunk
from zrt.scoring.results import Result
from zrt.scoring.sources import Piece

# pyarrow raises the last one for names of files and of columns that are no UTF-8.
UNREADABLE = (pa.ArrowException, OSError, UnicodeError)

# A row group of Parquet, and a batch of Arrow, takes about this many bytes.
GROUP_BYTES = 32 << 20

# The bytes that a row of CSV may have: pyarrow reads as many at once, by default one MiB.
MOST_CSV_ROW = 8 << 20

# The bytes that a value of open size, such as a text, counts for besides its contents.
OPEN_BYTES = 16

# The rows whose bytes are counted together.
STEP_ROWS = 1024

WRITERS: dict[str, Callable[..., Any]] = {
    "parquet": pyarrow.parquet.ParquetWriter,
    "arrow": pa.ipc.new_file,
    "csv": pyarrow.csv.CSVWriter,
}


class ArrowSource:
    """A file or a folder of files, as a data set of pyarrow."""

    def __init__(self, path: Path, kind: str) -> None:
        self._path, self._kind = path, kind
        # By default all row groups of a file are read ahead.
        few = datasets.ParquetFragmentScanOptions(pre_buffer=False)
        self._options = {"fragment_scan_options": few} if kind == "parquet" else {}
        with reading(path, *UNREADABLE):
            form: Any = kind
            if kind == "csv":
                read = pyarrow.csv.ReadOptions(block_size=MOST_CSV_ROW)
                # As texts: pyarrow takes the types from the first rows, and a bad row must not end the run.
                names = datasets.dataset(path, format=datasets.CsvFileFormat(read_options=read)).schema.names
                convert = pyarrow.csv.ConvertOptions(
                    column_types=dict.fromkeys(names, pa.string()),
                    strings_can_be_null=True,
                    null_values=[""],
                    quoted_strings_can_be_null=False,
                )
                # A line without anything is a row with an empty field where there is one column.
                parse = pyarrow.csv.ParseOptions(newlines_in_values=True, ignore_empty_lines=len(names) > 1)
                form = datasets.CsvFileFormat(parse, convert_options=convert, read_options=read)
            self._dataset = datasets.dataset(path, format=form)
            if kind != "csv":
                self._dataset = datasets.dataset(path, _schema(self._dataset), form)
            self.names: list[str] = list(self._dataset.schema.names)
            self.files: list[Path] = [Path(file) for file in self._dataset.files]

    @contextmanager
    def _reading(self) -> Iterator[None]:
        try:
            yield
        except UNREADABLE as error:
            raise FileError(f"{self._culprit()!r} cannot be read: {error}") from None

    def _culprit(self) -> str:
        """The first file whose rows cannot be counted, which pyarrow's errors may not name; else the data set."""
        for fragment in self._dataset.get_fragments() if len(self.files) > 1 else ():
            try:
                fragment.count_rows()
            except UNREADABLE:
                return str(fragment.path)
        return str(self._path)

    @cached_property
    def rows(self) -> int:
        with self._reading():
            return int(self._dataset.count_rows())

    def pieces(self) -> list[Piece]:
        pieces: list[Piece] = []
        with self._reading():
            at = 0
            fragments = list(self._dataset.get_fragments())
            for fragment in fragments:
                units: list[tuple[tuple[int, ...] | None, int]]
                if hasattr(fragment, "row_groups"):
                    units = [((group.id,), group.num_rows) for group in fragment.row_groups]
                else:
                    units = [(None, self.rows if len(fragments) == 1 else fragment.count_rows())]
                for groups, rows in units:
                    last = pieces[-1] if pieces else None
                    if groups and last and last.groups and last.file == fragment.path and last.rows < CHUNK_ROWS:
                        pieces[-1] = Piece(last.first, last.rows + rows, last.file, last.groups + groups)
                    else:
                        pieces.append(Piece(at, rows, fragment.path, groups))
                    at += rows
        return [piece for piece in pieces if piece.rows]

    def _part(self, piece: Piece) -> Any:
        whole = self._dataset
        for fragment in whole.get_fragments():
            if fragment.path == piece.file:
                part = fragment if piece.groups is None else fragment.subset(row_group_ids=list(piece.groups))
                return type(whole)([part], whole.schema, whole.format, whole.filesystem)
        raise FileError(f"{piece.file!r} is not in the data set")

    def no_rows(self, columns: Sequence[str]) -> dict[str, Any]:
        return {name: _decoded(pa.nulls(0, self._dataset.schema.field(name).type)) for name in columns}

    def types(self, columns: Sequence[str]) -> dict[str, Any]:
        if self._kind != "csv" or not columns:
            return {}
        with self._reading():
            return types_of(self._dataset.to_batches(columns=list(columns)), columns)

    def chunks(self, columns: Sequence[str], first: int, size: int, piece: Piece | None = None) -> Iterator[Chunk]:
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
                    named = {name: _decoded(rest.column(index)) for index, name in enumerate(columns)}
                    yield Chunk(at + skipped, rest.num_rows, named)
                at += batch.num_rows
        except UNREADABLE as error:
            culprit = self._culprit() if piece is None else piece.file
            raise FileError(f"{culprit!r} cannot be read from row {at}: {error}") from None


def _schema(dataset: Any) -> Any:
    """The columns of the first file, in types that hold the values of all files.

    Where no type does, it is that of the first file, in which pyarrow then reads the others, or fails.
    """
    fields = {field.name: pa.schema([field]) for field in dataset.schema}
    for fragment in dataset.get_fragments():
        for field in fragment.physical_schema:
            if field.name in fields and fields[field.name].field(0).type != field.type:
                with suppress(pa.ArrowException):
                    fields[field.name] = pa.unify_schemas(
                        [fields[field.name], pa.schema([field])], promote_options="permissive"
                    )
    return pa.schema([each.field(0) for each in fields.values()], dataset.schema.metadata)


def _decoded(column: Any) -> Any:
    """A column without a dictionary: an Arrow file has one for all rows, and the next file may have another one."""
    return column.dictionary_decode() if pa.types.is_dictionary(column.type) else column


def check_kept(columns: Mapping[str, Any], kind: str) -> None:
    """Raises for a column, given without rows, that files of this format cannot hold."""
    for name, column in columns.items():
        try:
            table = table_of(Result(0, columns={name: column}))
            shaped = flattened(table) if kind == "csv" else table
            with WRITERS[kind](pa.BufferOutputStream(), shaped.schema) as writer:
                writer.write(shaped)
        except pa.ArrowException:
            own = column.dtype if isinstance(column, np.ndarray) else column.type
            raise ArgumentError(f"column {name!r} cannot be kept: {kind} files cannot hold its type {own}") from None


def write(path: Path, kind: str, result: Result) -> None:
    _write(path, kind, (table_of(each) for each in [result]))


def join(files: Sequence[Path], path: Path, kind: str) -> None:
    """Writes the rows of files of Parquet or Arrow to one file."""
    _write(path, kind, _groups(_tables(files, kind)))


def _tables(files: Sequence[Path], kind: str) -> Iterator[Any]:
    for file in files:
        with reading(file, *UNREADABLE):
            table = datasets.dataset(file, format=kind).to_table()
        yield table


def _groups(tables: Iterable[Any]) -> Iterator[Any]:
    """The same rows in tables whose sizes follow from the types and the values of the columns."""
    group: list[Any] = []
    size = 0
    for step in _steps(tables):
        size += sum(map(_bytes, step.columns))
        group.append(step)
        if size >= GROUP_BYTES:
            yield pa.concat_tables(group).combine_chunks()
            group, size = [], 0
    if group:
        yield pa.concat_tables(group).combine_chunks()


def _steps(tables: Iterable[Any]) -> Iterator[Any]:
    """The same rows in tables of as many rows each, but for the last."""
    rest, size = None, 0
    for table in tables:
        size = size or max(1, min(STEP_ROWS, GROUP_BYTES // max(1, sum(_width(each.type) for each in table.schema))))
        rest = table if rest is None else pa.concat_tables([rest, table])
        whole = rest.num_rows // size * size
        for start in range(0, whole, size):
            yield rest.slice(start, size)
        rest = rest.slice(whole)
    if rest is not None:
        yield rest


def _bytes(column: Any) -> int:
    """About the bytes of a column, however its parts were cut."""
    kind = column.type
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return len(column) * OPEN_BYTES + _bytes(pc.list_flatten(column))
    if any(of(kind) for of in (pa.types.is_string, pa.types.is_large_string, pa.types.is_binary)):
        return len(column) * OPEN_BYTES + (pc.sum(pc.binary_length(column)).as_py() or 0)
    return len(column) * _width(kind)


def _width(kind: Any) -> int:
    """About the bytes of a value."""
    if pa.types.is_fixed_size_list(kind):
        return int(kind.list_size) * _width(kind.value_type)
    return max(1, kind.bit_width // 8) if pa.types.is_primitive(kind) else OPEN_BYTES


def _write(path: Path, kind: str, tables: Iterable[Any]) -> None:
    """Writes tables of the same schema, of which there is at least one, to one file."""
    # Also an iteration over `tables` may raise Arrow's errors.
    writer: Any = None
    try:
        for table in tables:
            shaped = flattened(table) if kind == "csv" else table
            writer = writer or WRITERS[kind](str(path), shaped.schema)
            if kind == "parquet":
                writer.write_table(shaped, row_group_size=max(1, shaped.num_rows))
            else:
                writer.write(shaped)
        writer.close()
    except (pa.ArrowException, UnicodeError) as error:
        raise FileError(f"{kind} files cannot hold the results: {error}") from error
