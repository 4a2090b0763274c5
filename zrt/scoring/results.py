"""`Result`: what a run gives for consecutive rows of a data set."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from zrt.errors import ArgumentError
from zrt.scoring.columns import Array


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


def joined(results: Sequence[Result]) -> Result:
    """Results one after the other as one; the outputs and columns are those of the results that have any."""
    filled = [result for result in results if result.outputs]
    covered = sum(result.covered for result in results)
    bad = [row for result in results for row in result.bad]
    if not filled:
        return Result(covered, bad=bad)
    outputs = {}
    for name in filled[0].outputs:
        shapes = {result.outputs[name].shape[1:] for result in filled}
        if len(shapes) > 1:
            raise ArgumentError(f"output {name!r}: its rows have different shapes: {sorted(shapes)}")
        outputs[name] = np.concatenate([result.outputs[name] for result in filled])
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
    # Deferred: pyarrow is an extra, which numpy's files do not need.
    import pyarrow as pa

    return pa.concat_arrays(columns)
