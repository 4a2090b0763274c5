"""Files of results: parts, and parts joined in one file, whose bytes do not tell where the parts were cut."""

from __future__ import annotations

import shutil
import zipfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from zrt.errors import ArgumentError, FileError
from zrt.scoring.columns import Array, storable
from zrt.scoring.sources import UNREADABLE

# A row group of Parquet, and a batch of Arrow, takes about this many bytes.
GROUP_BYTES = 32 << 20

# The bytes that a value of open size, such as a text, counts for.
OPEN_BYTES = 16

COPIED_BYTES = 1 << 20


def joined(waiting: Sequence[Any]) -> tuple[int, dict[str, Array], Array | None, dict[str, Any]]:
    """Results one after the other as one: their rows, outputs, nulls and kept columns."""
    names = list(waiting[0][1])
    shapes = {name: {results[name].shape[1:] for _, results, _, _ in waiting} for name in names}
    for name, found in shapes.items():
        if len(found) > 1:
            raise ArgumentError(f"output {name!r}: its rows have different shapes: {sorted(found)}")
    results = {name: np.concatenate([one[1][name] for one in waiting]) for name in names}
    null = None
    if any(one[2] is not None for one in waiting):
        null = np.concatenate([np.zeros(one[0], bool) if one[2] is None else one[2] for one in waiting])
    kept = {name: _concatenated([one[3][name] for one in waiting]) for name in waiting[0][3]}
    return sum(one[0] for one in waiting), results, null, kept


def _concatenated(columns: Sequence[Any]) -> Any:
    if isinstance(columns[0], np.ndarray):
        return np.concatenate(columns)
    import pyarrow as pa

    return pa.concat_arrays(columns)


def write(
    path: Path, kind: str, count: int, results: Mapping[str, Array], null: Array | None, kept: Mapping[str, Any]
) -> None:
    """Writes the results of `count` rows; `null` marks those without any."""
    if kind in ("npy", "npz"):
        results = {name: storable(array) for name, array in results.items()}
        for array in results.values():
            if null is not None:
                array[null] = np.nan
        _write_numpy(path, kind, {name: [array] for name, array in results.items()})
        return
    from zrt.scoring import arrow

    _write_arrow(path, kind, [arrow.table_of(results, count, null, kept)])


def join(files: Sequence[Path], path: Path, kind: str) -> None:
    """Writes the rows of the files to one file, with about one of them in memory at a time."""
    if kind == "csv":
        _join_csv(files, path)
    elif kind == "npy":
        _write_numpy(path, kind, {"": _Pieces(files, None)})
    elif kind == "npz":
        names = _names(files[0]) if files else []
        _write_numpy(path, kind, {name: _Pieces(files, name) for name in names})
    else:
        _write_arrow(path, kind, _groups(_tables(files, kind)))


class _Pieces:
    """An array of each of the files, with a name in ``.npz``; each loop over it reads them again."""

    def __init__(self, files: Sequence[Path], name: str | None) -> None:
        self._files, self._name = files, name

    def __iter__(self) -> Iterator[Array]:
        for file in self._files:
            with _readable(file):
                piece = np.lib.format.open_memmap(file, mode="r") if self._name is None else _member(file, self._name)
            yield piece


def _names(file: Path) -> list[str]:
    with _readable(file), zipfile.ZipFile(file) as archive:
        return [name.removesuffix(".npy") for name in archive.namelist()]


def _member(file: Path, name: str) -> Array:
    with zipfile.ZipFile(file) as archive, archive.open(f"{name}.npy") as member:
        array: Array = np.lib.format.read_array(member, allow_pickle=False)
        return array


@contextmanager
def _readable(file: Path) -> Iterator[None]:
    try:
        yield
    except UNREADABLE as error:
        raise FileError(f"{str(file)!r} cannot be read: {error}") from None


def _write_numpy(path: Path, kind: str, arrays: Mapping[str, Iterable[Array]]) -> None:
    """Writes arrays, each given by its pieces."""
    with open(path, "wb") as file:
        if kind == "npy":
            _write_array(file, next(iter(arrays.values())))
            return
        # savez takes names as keywords, and not that of its own argument.
        with zipfile.ZipFile(file, "w") as archive:
            for name, pieces in arrays.items():
                with archive.open(f"{name}.npy", "w", force_zip64=True) as member:
                    _write_array(member, pieces)


def _write_array(file: Any, pieces: Iterable[Array]) -> None:
    """Writes an array, with one of its pieces in memory at a time."""
    shapes = [(piece.dtype, piece.shape) for piece in pieces]
    dtype, row = (shapes[0][0], shapes[0][1][1:]) if shapes else (np.dtype(np.float32), ())
    header = np.lib.format.header_data_from_array_1_0(np.empty((0, *row), dtype))
    header["shape"] = (sum(shape[0] for _, shape in shapes), *row)
    # Not by a mapping of the file: where the disk is full, a write to one ends the process.
    np.lib.format.write_array_header_1_0(file, header)
    for piece in pieces:
        plain = np.ascontiguousarray(piece)
        for start in range(0, len(plain), step := max(1, COPIED_BYTES // max(1, plain[:1].nbytes))):
            file.write(plain[start : start + step].tobytes())


def _join_csv(files: Sequence[Path], path: Path) -> None:
    with open(path, "wb") as target:
        for index, file in enumerate(files):
            with open(file, "rb") as part:
                if index:
                    part.readline()
                shutil.copyfileobj(part, target)


def _tables(files: Sequence[Path], kind: str) -> Iterator[Any]:
    import pyarrow as pa
    import pyarrow.parquet

    for file in files:
        try:
            if kind == "parquet":
                yield pyarrow.parquet.read_table(str(file))
            else:
                with pa.OSFile(str(file)) as opened:
                    yield pa.ipc.open_file(opened).read_all()
        except (pa.ArrowException, OSError) as error:
            raise FileError(f"{str(file)!r} cannot be read: {error}") from None


def _groups(tables: Iterable[Any]) -> Iterator[Any]:
    """The same rows in tables whose sizes follow from the types of the columns."""
    import pyarrow as pa

    waiting: list[Any] = []
    rows = size = 0
    for table in tables:
        size = size or max(1, GROUP_BYTES // max(1, sum(_width(each.type) for each in table.schema)))
        waiting.append(table)
        rows += table.num_rows
        while rows > size:
            whole = pa.concat_tables(waiting)
            yield whole.slice(0, size).combine_chunks()
            waiting, rows = [whole.slice(size)], rows - size
    if waiting:
        yield pa.concat_tables(waiting).combine_chunks()


def _width(kind: Any) -> int:
    """About the bytes of a value."""
    import pyarrow as pa

    if pa.types.is_fixed_size_list(kind):
        return int(kind.list_size) * _width(kind.value_type)
    return max(1, kind.bit_width // 8) if pa.types.is_primitive(kind) else OPEN_BYTES


def _write_arrow(path: Path, kind: str, tables: Iterable[Any]) -> None:
    """Writes tables of the same schema to one file."""
    import pyarrow as pa
    import pyarrow.csv
    import pyarrow.parquet

    from zrt.scoring import arrow

    makers: dict[str, Callable[..., Any]] = {
        "parquet": pyarrow.parquet.ParquetWriter,
        "arrow": pa.ipc.new_file,
        "csv": pyarrow.csv.CSVWriter,
    }
    writer = None
    try:
        for table in tables:
            shaped = arrow.flattened(table) if kind == "csv" else table
            if writer is None:
                writer = makers[kind](str(path), shaped.schema)
            if kind == "parquet":
                writer.write_table(shaped, row_group_size=max(1, shaped.num_rows))
            else:
                writer.write(shaped)
        if writer is None:
            path.touch()
        else:
            writer.close()
    except pa.ArrowException as error:
        raise FileError(f"{kind} files cannot hold the results: {error}") from error
