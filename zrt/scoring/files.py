"""Files of results: parts, and parts joined in one file, whose bytes do not tell where the parts were cut."""

from __future__ import annotations

import shutil
import zipfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from zrt.scoring.columns import Array, storable
from zrt.scoring.results import Result
from zrt.scoring.sources import NUMPY, Stored, archive, stored

COPIED_BYTES = 1 << 20


def write(path: Path, kind: str, result: Result) -> None:
    if kind in NUMPY:
        outputs = {name: storable(array) for name, array in result.outputs.items()}
        if result.null is not None:
            for array in outputs.values():
                array[result.null] = np.nan
        _write_numpy(path, kind, {name: [array] for name, array in outputs.items()})
        return
    from zrt.scoring import arrow_files

    arrow_files.write(path, kind, result)


def join(files: Sequence[Path], path: Path, kind: str) -> None:
    """Writes the rows of the files, one or more, to one file, with about one of them in memory at a time."""
    if kind == "csv":
        _join_csv(files, path)
    elif kind == "npy":
        _write_numpy(path, kind, {"": _Pieces(files, None)})
    elif kind == "npz":
        with archive(files[0]) as first:
            pieces = {name: _Pieces(files, name) for name in first.files}
        _write_numpy(path, kind, pieces)
    else:
        from zrt.scoring import arrow_files

        arrow_files.join(files, path, kind)


class _Pieces:
    """An array of each of the files, with a name in ``.npz``; each loop over it reads them again."""

    def __init__(self, files: Sequence[Path], name: str | None) -> None:
        self._files, self._name = files, name

    def __iter__(self) -> Iterator[Array | Stored]:
        for file in self._files:
            if self._name is None:
                yield stored(file)
            else:
                with archive(file) as opened:
                    yield opened[self._name]


def _write_numpy(path: Path, kind: str, arrays: Mapping[str, Iterable[Array | Stored]]) -> None:
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


def _write_array(file: Any, pieces: Iterable[Array | Stored]) -> None:
    """Writes an array, with one of its pieces in memory at a time."""
    shapes = [(piece.dtype, piece.shape) for piece in pieces]
    dtype, (_, *row) = shapes[0]
    header = np.lib.format.header_data_from_array_1_0(np.empty((0, *row), dtype))
    header["shape"] = (sum(shape[0] for _, shape in shapes), *row)
    # Not by a mapping of the file: where the disk is full, a write to one ends the process.
    np.lib.format.write_array_header_1_0(file, header)
    for piece in pieces:
        for start in range(0, len(piece), step := max(1, COPIED_BYTES // max(1, piece[:1].nbytes))):
            file.write(piece[start : start + step].tobytes())


def _join_csv(files: Sequence[Path], path: Path) -> None:
    with open(path, "wb") as target:
        for index, file in enumerate(files):
            with open(file, "rb") as part:
                header = part.readline() if index else b""
                # The name of a column may have several lines.
                while header.count(b'"') % 2 and (line := part.readline()):
                    header += line
                shutil.copyfileobj(part, target)
