"""`Result`: what a run gives for consecutive rows of a data set."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from zrt.errors import ArgumentError
from zrt.scoring.columns import Array, blank


class Result(NamedTuple):
    """The results of consecutive rows, some of which may have none."""

    covered: int
    """The rows of the data set."""
    outputs: Mapping[str, Array] = {}
    null: Array | None = None
    """With `skip_bad`, which rows of the outputs stand for rows without results; None for none."""
    columns: Mapping[str, Any] = {}
    """The columns that are copied from the data set."""
    bad: Sequence[tuple[int, str]] = ()
    """The rows that cannot be fed, by their numbers in the data set, each with the reason."""

    @property
    def size(self) -> int:
        """The number of rows that the outputs have."""
        return len(next(iter(self.outputs.values()))) if self.outputs else 0


def all_null(results: Sequence[Result]) -> bool:
    """Whether there are outputs, and all of them are nulls."""
    filled = [result for result in results if result.outputs]
    return bool(filled) and all(result.null is not None and bool(result.null.all()) for result in filled)


def joined(results: Sequence[Result], shapes: Mapping[str, Sequence[int]] | None = None) -> Result:
    """Results one after the other as one; the outputs and columns are those of the results that have any.

    Nulls take the shape of the rows beside them, or else of `shapes`.
    """
    filled = [result for result in results if result.outputs]
    covered = sum(result.covered for result in results)
    bad = [row for result in results for row in result.bad]
    if not filled:
        return Result(covered, bad=bad)
    outputs = {}
    for name in filled[0].outputs:
        found = {result.outputs[name].shape[1:] for result in filled if result.null is None or not result.null.all()}
        if len(found) > 1:
            raise ArgumentError(f"output {name!r}: its rows have different shapes: {sorted(found)}")
        row = found.pop() if found else (shapes or {}).get(name, filled[0].outputs[name].shape[1:])
        arrays = [result.outputs[name] for result in filled]
        outputs[name] = np.concatenate(
            [array if array.shape[1:] == (*row,) else blank((len(array), *row), array.dtype) for array in arrays]
        )
    null = None
    if any(result.null is not None for result in filled):
        null = np.concatenate(
            [np.zeros(result.size, bool) if result.null is None else result.null for result in filled]
        )
    columns = {name: _concatenated([result.columns[name] for result in filled]) for name in filled[0].columns}
    return Result(covered, outputs, null, columns, bad)


def _concatenated(columns: Sequence[Any]) -> Any:
    if isinstance(columns[0], np.ndarray):
        return np.concatenate(columns)
    import pyarrow as pa

    return pa.concat_arrays(columns)
