"""`Parts`: the results of a run in complete files, which an interrupted run leaves and a later one continues."""

from __future__ import annotations

import json
import os
import shutil
import tempfile
import zipfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from zrt.errors import ArgumentError, FileError
from zrt.scoring.columns import Array, storable

MANIFEST = "_zrt.json"

# A part is written when its results take this many bytes.
PART_BYTES = 32 << 20

# A manifest has the numbers of at most this many bad rows, and the number of all.
NAMED = 1000


class Parts:
    """A folder of parts and a manifest, which says which rows are done; only files that it names count."""

    def __init__(self, folder: Path, kind: str, recipe: Mapping[str, Any], *, resume: bool) -> None:
        self._folder = folder
        self._kind = kind
        self._manifest: dict[str, Any] = {"recipe": dict(recipe), "done": 0, "parts": [], "bad": [], "bad_count": 0}
        path = folder / MANIFEST
        if path.exists():
            if not resume:
                raise ArgumentError(
                    f"{str(folder)!r} has the results of an interrupted run: --resume goes on, or remove it"
                )
            try:
                found = json.loads(path.read_text("utf-8"))
            except (OSError, ValueError) as error:
                raise FileError(f"{str(path)!r} cannot be read: {error}") from None
            if not isinstance(found, dict):
                raise FileError(f"{str(path)!r} is not the manifest of a run")
            if found.get("recipe") != self._manifest["recipe"]:
                raise ArgumentError(
                    f"{str(folder)!r} has the results of another run, with another model, data or options"
                )
            self._manifest = found
        elif folder.exists() and any(folder.iterdir()):
            raise ArgumentError(f"{str(folder)!r} is not empty")
        folder.mkdir(parents=True, exist_ok=True)
        self._waiting: list[
            tuple[int, Mapping[str, Array], Array | None, Mapping[str, Any], Sequence[tuple[int, str]]]
        ] = []
        self._bytes = 0

    @property
    def done(self) -> int:
        """The number of rows of the data set that complete parts cover."""
        return int(self._manifest["done"])

    @property
    def bad(self) -> list[tuple[int, str]]:
        """The first bad rows and their reasons."""
        return [(int(number), str(reason)) for number, reason in self._manifest["bad"]]

    @property
    def bad_count(self) -> int:
        """The number of bad rows."""
        return int(self._manifest["bad_count"])

    @property
    def files(self) -> list[Path]:
        """The parts, in the order of their rows."""
        return [self._folder / name for name in self._manifest["parts"]]

    def add(
        self,
        covered: int,
        results: Mapping[str, Array],
        null: Array | None,
        kept: Mapping[str, Any],
        bad: Sequence[tuple[int, str]],
    ) -> None:
        """Adds the results of the next `covered` rows of the data set, some of which may have none."""
        # One append: an interrupt cannot separate the results from the number of their rows.
        self._waiting.append((covered, results, null, kept, bad))
        self._bytes += sum(array.nbytes for array in results.values())
        if self._bytes >= PART_BYTES:
            self.flush()

    def flush(self) -> None:
        """Writes what waits as a part."""
        if not self._waiting:
            return
        done = self.done + sum(one[0] for one in self._waiting)
        bad = [list(row) for one in self._waiting for row in one[4]]
        filled = [(len(next(iter(one[1].values()))), *one[1:4]) for one in self._waiting if one[1]]
        manifest = dict(self._manifest)
        if filled:
            name = f"part-{self.done:012d}-{done:012d}.{self._kind}"
            count, results, null, kept = joined(filled)
            shapes = {output: list(array.shape[1:]) for output, array in results.items()}
            if manifest.setdefault("shapes", shapes) != shapes:
                raise ArgumentError(f"the rows of outputs have different shapes: {manifest['shapes']} and {shapes}")
            _write(self._folder / name, self._kind, count, results, null, kept)
            manifest["parts"] = [*manifest["parts"], name]
        manifest["done"] = done
        manifest["bad_count"] = self.bad_count + len(bad)
        manifest["bad"] = (manifest["bad"] + bad)[:NAMED]
        _replace(self._folder / MANIFEST, lambda path: path.write_text(json.dumps(manifest), "utf-8"))
        self._manifest, self._waiting, self._bytes = manifest, [], 0

    def finish(self, target: Path | None) -> None:
        """Joins the parts in one file and removes them; without a `target` they are the result."""
        if target is None:
            (self._folder / MANIFEST).unlink(missing_ok=True)
            return
        if self._kind in ("npy", "npz"):
            _replace(target, lambda path: _join_numpy(self.files, path, self._kind))
        else:
            _replace(target, lambda path: _join_arrow(self.files, path, self._kind))
        shutil.rmtree(self._folder)


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
    kept = {}
    if waiting[0][3]:
        import pyarrow as pa

        kept = {name: pa.concat_arrays([one[3][name] for one in waiting]) for name in waiting[0][3]}
    return sum(one[0] for one in waiting), results, null, kept


def _write(
    path: Path, kind: str, count: int, results: Mapping[str, Array], null: Array | None, kept: Mapping[str, Any]
) -> None:
    if kind in ("npy", "npz"):
        results = {name: storable(array) for name, array in results.items()}
        for array in results.values():
            if null is not None:
                array[null] = np.nan
        _replace(path, lambda fresh: _write_numpy(fresh, kind, results))
        return
    from zrt.scoring import arrow

    table = arrow.table_of(results, count, null, kept)
    _replace(path, lambda fresh: _write_arrow(fresh, kind, [table]))


def _write_numpy(path: Path, kind: str, results: Mapping[str, Array]) -> None:
    with open(path, "wb") as file:
        if kind == "npy":
            np.save(file, next(iter(results.values())), allow_pickle=False)
        else:
            # savez takes names as keywords, and not that of its own argument.
            with zipfile.ZipFile(file, "w") as archive:
                for name, array in results.items():
                    with archive.open(f"{name}.npy", "w", force_zip64=True) as member:
                        np.lib.format.write_array(member, array, allow_pickle=False)


def _write_arrow(path: Path, kind: str, tables: Any) -> None:
    """Writes tables of the same schema to one file."""
    import pyarrow as pa
    import pyarrow.csv
    import pyarrow.parquet

    from zrt.scoring import arrow

    makers = {
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
            writer.write_table(shaped) if kind == "parquet" else writer.write(shaped)
        if writer is None:
            path.touch()
        else:
            writer.close()
    except pa.ArrowException as error:
        raise FileError(f"{kind} files cannot hold the results: {error}") from error


def _join_arrow(files: Sequence[Path], path: Path, kind: str) -> None:
    if len(files) == 1:
        shutil.copyfile(files[0], path)
        return
    if kind == "csv":
        with open(path, "wb") as target:
            for index, file in enumerate(files):
                with open(file, "rb") as part:
                    if index:
                        part.readline()
                    shutil.copyfileobj(part, target)
        return
    import pyarrow.parquet

    read = pyarrow.parquet.read_table if kind == "parquet" else _read_ipc
    _write_arrow(path, kind, (read(str(file)) for file in files))


def _read_ipc(path: str) -> Any:
    import pyarrow as pa

    with pa.OSFile(path) as file:
        return pa.ipc.open_file(file).read_all()


def _join_numpy(files: Sequence[Path], path: Path, kind: str) -> None:
    if kind == "npy":
        _stream(path, lambda: (np.load(file, mmap_mode="r") for file in files))
        return

    with (
        zipfile.ZipFile(path, "w", zipfile.ZIP_STORED, allowZip64=True) as archive,
        tempfile.TemporaryDirectory(dir=path.parent) as folder,
    ):
        names = np.load(files[0]).files if files else []
        for name in names:
            whole = Path(folder, "whole.npy")
            _stream(whole, partial(_each, files, name))
            archive.write(whole, f"{name}.npy")


def _each(files: Sequence[Path], name: str) -> Iterator[Array]:
    """The array of that name in each of the files."""
    for file in files:
        with np.load(file) as part:
            yield part[name]


def _stream(path: Path, parts: Callable[[], Iterable[Array]]) -> None:
    """Writes the rows of arrays to one ``.npy`` file, with one of the arrays in memory at a time."""
    shapes = [(part.dtype, part.shape) for part in parts()]
    dtype, row = (shapes[0][0], shapes[0][1][1:]) if shapes else (np.dtype(np.float32), ())
    header = np.lib.format.header_data_from_array_1_0(np.empty((0, *row), dtype))
    header["shape"] = (sum(shape[0] for _, shape in shapes), *row)
    # Not by a mapping of the file: where the disk is full, a write to one ends the process.
    with open(path, "wb") as file:
        np.lib.format.write_array_header_1_0(file, header)
        for part in parts():
            part.tofile(file)


def _replace(path: Path, write: Any) -> None:
    """Writes a file under another name, and gives it its own when it is complete."""
    fresh = path.with_name(f"_{path.name}.new")
    try:
        write(fresh)
        os.replace(fresh, path)
    except FileError:
        raise
    except OSError as error:
        raise FileError(f"{str(path)!r} cannot be written: {error}") from error
    finally:
        with suppress(OSError):
            fresh.unlink()
