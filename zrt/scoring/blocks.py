"""Chunks of a data set as the inputs of a model, cut into blocks: the work of one thread at a time."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from zrt.errors import OrtError, ShapeError
from zrt.scoring.columns import Array, Rows, Wanted, blank, fit, fit_each, matches, stack
from zrt.scoring.results import Result
from zrt.scoring.scorer import Scorer

# The rows that are read and converted at once: at most so many, and of wide rows about so many bytes.
CHUNK_ROWS = 8192
CHUNK_BYTES = 32 << 20

# A thread gets work for about this many seconds at a time: less would cost more than the runs, more would delay the
# progress and an interrupt.
BLOCK_S = 0.05


class Chunk(NamedTuple):
    """Consecutive rows: their number in the data set, how many they are, and their columns (numpy's or pyarrow's)."""

    first: int
    size: int
    columns: Mapping[str, Any]


class Block(NamedTuple):
    """Consecutive rows for one thread."""

    feeds: dict[str, Array]
    """Those that can be fed; empty for none."""
    result: Result
    """Their result but for the outputs."""
    rows: Sequence[int] = ()
    """The numbers in the data set of those that can be fed."""


class Pace:
    """How many batches a block has, from the time that batches take."""

    def __init__(self, batch: int) -> None:
        self._batch = batch
        self.rows: int = batch

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


def blocks(
    chunk: Chunk, inputs: Mapping[str, Rows], keep: Sequence[str], scorer: Scorer, pace: Pace, skip_bad: bool
) -> Iterator[Block]:
    """The rows of a chunk, cut into blocks whose rows have the same shapes."""
    # By their place in the chunk; of several reasons for a row the first.
    reasons = {row: reason for rows in reversed(list(inputs.values())) for row, reason in rows.bad.items()}
    start = 0
    while start < chunk.size:
        end = min(start + pace.rows, chunk.size)
        if reasons and any(row in reasons for row in range(start, end)):
            # So a batch has the same rows however fast others were.
            end = min(start + scorer.batch, chunk.size)
        end = _end_of_shape(inputs, reasons, start, end)
        every: Sequence[int] = range(start, end)
        bad = [(chunk.first + row, reasons[row]) for row in every if row in reasons] if reasons else []
        good = [row for row in every if row not in reasons] if bad else every
        null = np.array([row in reasons for row in every]) if bad and skip_bad else None
        feeds = {name: _pick(rows.values, good) for name, rows in inputs.items()} if good else {}
        if null is not None and not good:
            # A made-up row tells the shapes of the nulls.
            feeds = _made_up(scorer, inputs)
        columns = {name: _pick(chunk.columns[name], every if skip_bad else good) for name in keep}
        result = Result(end - start, null=null, columns=columns, bad=bad)
        yield Block(feeds, result, [chunk.first + row for row in good])
        start = end


def no_rows(scorer: Scorer) -> dict[str, Array]:
    """The outputs for no rows."""
    return {name: array[:0] for name, array in example(scorer, _made_up(scorer, {})).items()}


def example(scorer: Scorer, made_up: Mapping[str, Array]) -> Mapping[str, Array]:
    """The outputs for a made-up row, for their shapes; as the model declares them if it refuses that row."""
    try:
        return scorer.run(made_up)
    except (OrtError, ShapeError):
        return {output.name: blank((1, *output.least), output.dtype) for output in scorer.declared}


def _made_up(scorer: Scorer, inputs: Mapping[str, Rows]) -> dict[str, Array]:
    """A blank row: its open sizes are those of the rows around it, or 1."""
    feeds = {}
    for wanted in scorer.wanted:
        rows = inputs[wanted.name].values if wanted.name in inputs else ()
        shapes = (np.shape(row) for row in rows if row is not None)
        row = next((shape for shape in shapes if matches(shape, wanted.row)), wanted.least)
        feeds[wanted.name] = blank((1, *row), wanted.dtype)
    return feeds


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


def _pick(values: Any, rows: Sequence[int]) -> Any:
    """Some rows of an array, of a list of arrays, or of a column of pyarrow's."""
    if isinstance(values, list):
        return np.stack([values[row] for row in rows])
    # A slice copies nothing.
    if isinstance(rows, range):
        return values[rows.start : rows.stop]
    places = np.array(rows, np.int64)
    if isinstance(values, np.ndarray):
        return values[places]
    import pyarrow as pa

    # Slices, as pyarrow has no `take` for the texts of some writers.
    runs = np.split(places, np.flatnonzero(np.diff(places) != 1) + 1)
    return pa.concat_arrays([values[:0], *(values[run[0] : run[-1] + 1] for run in runs if len(run))])
