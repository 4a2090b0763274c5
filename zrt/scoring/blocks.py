"""Chunks of a data set as the inputs of a model, cut into blocks: the work of one thread at a time."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from zrt.scoring.columns import Array, Rows, Wanted, fit, fit_each, stack
from zrt.scoring.scorer import Scorer

# The rows that are read and converted at once.
CHUNK_ROWS = 8192

# A thread gets work for about this many seconds at a time: less would cost more than the runs, more would delay the
# progress and an interrupt.
BLOCK_S = 0.05


class Chunk(NamedTuple):
    """Consecutive rows: their number in the data set, how many they are, and their columns (numpy's or pyarrow's)."""

    first: int
    size: int
    columns: Mapping[str, Any]


class Block(NamedTuple):
    """Consecutive rows for one thread: those that can be fed, and what is known of the others."""

    covered: int
    feeds: dict[str, Array]
    null: Array | None
    """With `skip_bad`, which rows get no results; None for none."""
    kept: dict[str, Any]
    bad: list[tuple[int, str]]


class Pace:
    """How many batches a block has, from the time that batches take."""

    def __init__(self, batch: int) -> None:
        self._batch = batch
        self.rows = batch

    def ran(self, rows: int, seconds: float) -> None:
        """Learns from a block of that many rows."""
        batches = max(1, -(-rows // self._batch))
        fitting = int(BLOCK_S * batches / max(seconds, 1e-6))
        # At most doubled: the first runs are slower than later ones.
        self.rows = self._batch * max(1, min(fitting, 2 * batches, CHUNK_ROWS // self._batch))


def feed(chunk: Chunk, columns: Sequence[str], wanted: Wanted) -> Rows:
    """The rows of an input, from one column or from several side by side."""
    if len(columns) == 1:
        return _rows_of(chunk.columns[columns[0]], f"column {columns[0]!r}", wanted)
    one = Wanted(wanted.name, wanted.dtype, ())
    return stack([_rows_of(chunk.columns[name], f"column {name!r}", one) for name in columns], wanted)


def _rows_of(column: Any, subject: str, wanted: Wanted) -> Rows:
    if not isinstance(column, np.ndarray):
        from zrt.scoring.arrow import rows_of

        return rows_of(column, subject, wanted)
    if column.dtype.kind == "O":
        return fit_each(subject, list(column), wanted)
    return fit(subject, column, wanted)


def reasons_of(inputs: Mapping[str, Rows]) -> dict[int, str]:
    """Why rows cannot be fed, by their place in the chunk; of several reasons for a row the first."""
    reasons: dict[int, str] = {}
    for rows in inputs.values():
        reasons = {**rows.bad, **reasons}
    return reasons


def blocks(
    chunk: Chunk, inputs: Mapping[str, Rows], keep: Sequence[str], scorer: Scorer, pace: Pace, skip_bad: bool
) -> Iterator[Block]:
    """The rows of a chunk, cut into blocks whose rows have the same shapes."""
    reasons = reasons_of(inputs)
    start = 0
    while start < chunk.size:
        end = _end_of_shape(inputs, reasons, start, min(start + pace.rows, chunk.size))
        bad = [(chunk.first + row, reasons[row]) for row in range(start, end) if row in reasons] if reasons else []
        if not bad:
            feeds = {name: _slice(rows.values, start, end) for name, rows in inputs.items()}
            kept = {name: chunk.columns[name][start:end] for name in keep}
            yield Block(end - start, feeds, None, kept, [])
        else:
            good = [row for row in range(start, end) if row not in reasons]
            null = np.array([row in reasons for row in range(start, end)])
            feeds = {name: _pick(rows.values, good) for name, rows in inputs.items()} if good else {}
            if skip_bad and not good:
                # A made-up row tells the shapes of the nulls.
                feeds = _made_up(scorer)
            picked = list(range(start, end)) if skip_bad else good
            kept = {name: chunk.columns[name].take(picked) for name in keep}
            yield Block(end - start, feeds, null if skip_bad else None, kept, bad)
        start = end


def no_rows(scorer: Scorer) -> dict[str, Array]:
    """The outputs for no rows, with the shapes that a row of zeros gives them."""
    return {name: array[:0] for name, array in scorer.run(_made_up(scorer)).items()}


def _made_up(scorer: Scorer) -> dict[str, Array]:
    """A row of zeros."""
    return {wanted.name: np.zeros((1, *[size or 1 for size in wanted.row]), wanted.dtype) for wanted in scorer.wanted}


def _end_of_shape(inputs: Mapping[str, Rows], bad: Mapping[int, str], start: int, end: int) -> int:
    """The end of the rows from `start` on whose values have the same shapes."""
    ragged = [rows.values for rows in inputs.values() if isinstance(rows.values, list)]
    if not ragged:
        return end
    first = None
    for row in range(start, end):
        if row in bad:
            continue
        shapes = [None if values[row] is None else values[row].shape for values in ragged]  # type: ignore[union-attr]
        first = first or shapes
        if shapes != first:
            return row
    return end


def _slice(values: Array | list[Array | None], start: int, end: int) -> Array:
    return np.stack(values[start:end]) if isinstance(values, list) else values[start:end]  # type: ignore[arg-type]


def _pick(values: Array | list[Array | None], rows: Sequence[int]) -> Array:
    if isinstance(values, list):
        return np.stack([values[row] for row in rows])  # type: ignore[misc]
    return values[list(rows)]
