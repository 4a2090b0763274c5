"""`Scorer`: rows through a session in batches, on a lane for each thread."""

from __future__ import annotations

import math
import threading
from collections.abc import Mapping, Sequence

import numpy as np

from zrt.errors import ArgumentError, MemoryLimitError, ShapeError, UnsupportedError
from zrt.lanes.rows import padded_rows, write_rows
from zrt.scoring.columns import Array, Wanted
from zrt.session.session import Session
from zrt.types import ValueKind


class Scorer:
    """Runs blocks of rows in batches; any number of threads may use it at once.

    Where the model fixes its first size, that is the batch; else `batch` is. In a batch that is not full the last row
    repeats, and the result is cut. A batch that needs more memory than the session's `memory_limit` is halved, down to
    one row, unless the model fixes its size; the smaller size stays.
    """

    def __init__(self, session: Session, batch: int) -> None:
        self._session = session
        self._local = threading.local()
        if not session.inputs:
            raise UnsupportedError("the model has no input that rows could feed")
        sizes = set()
        for info in session.inputs:
            if info.kind is not ValueKind.TENSOR or not info.shape:
                raise UnsupportedError(f"input {info.name!r}: rows feed tensors whose first size counts them")
            if isinstance(info.shape[0], int):
                sizes.add(info.shape[0])
        if len(sizes) > 1:
            raise UnsupportedError(f"the inputs have different first sizes: {', '.join(map(str, sorted(sizes)))}")
        for info in session.outputs:
            if info.kind is not ValueKind.TENSOR:
                raise UnsupportedError(f"output {info.name!r} is no tensor")
        for info in (*session.inputs, *session.outputs):
            if info.element_type.packed:
                raise UnsupportedError(f"{info.name!r} is of {info.element_type.onnx_name}, whose rows share bytes")
        self._divisible = not sizes
        self.batch: int = sizes.pop() if sizes else batch
        if self.batch < 1:
            raise UnsupportedError("the model takes batches of 0 rows")
        self.wanted: tuple[Wanted, ...] = tuple(map(Wanted.of, session.inputs))
        self.outputs: tuple[str, ...] = session.output_names
        self.declared: tuple[Wanted, ...] = tuple(map(Wanted.of, session.outputs))
        self._plain = all(each.dtype.kind != "O" for each in (*self.wanted, *self.declared))

    def run(self, feeds: Mapping[str, Array]) -> dict[str, Array]:
        """The outputs for a block of rows, of which each input has the same number."""
        count = len(next(iter(feeds.values())))
        results: dict[str, Array] = {}
        start = 0
        while start < count:
            batch = self.batch
            part = {name: array[start : start + batch] for name, array in feeds.items()}
            try:
                outputs = self._run(part, batch)
            except MemoryLimitError:
                if batch == 1 or not self._divisible:
                    raise
                # Another thread may have halved it too.
                self.batch = min(self.batch, (batch + 1) // 2)
                continue
            size = min(batch, count - start)
            for name, array in outputs.items():
                if array.ndim == 0 or len(array) != batch:
                    raise ShapeError(
                        f"output {name!r}: shape {list(array.shape)} does not have a row for each of {batch}"
                    )
                if name not in results:
                    results[name] = np.empty((count, *array.shape[1:]), array.dtype)
                # numpy would repeat a row of one element.
                if array.shape[1:] != results[name].shape[1:]:
                    raise ShapeError(f"output {name!r}: its rows have different shapes")
                results[name][start : start + size] = array[:size]
            start += size
        return results

    def _run(self, feeds: Mapping[str, Array], batch: int) -> Mapping[str, Array]:
        if self._plain:
            try:
                return self._run_lane(feeds, batch)
            except (ShapeError, UnsupportedError):
                # An output is not as the model declares it: the session runs it nevertheless.
                self._plain = False
        full = {name: rows if len(rows) == batch else padded_rows([rows], batch) for name, rows in feeds.items()}
        return dict(zip(self.outputs, self._session.run(full), strict=True))

    def _run_lane(self, feeds: Mapping[str, Array], batch: int) -> Mapping[str, Array]:
        shapes = {name: (batch, *array.shape[1:]) for name, array in feeds.items()}
        key = tuple(shapes.values())
        if getattr(self._local, "key", None) != key:
            # On made-up data a loop of the model may never end.
            lane = self._session.lane(shapes, trials=False)
            self._local.inputs = {name: lane.inputs[name] for name in shapes}
            self._local.lane, self._local.key = lane, key
        lane = self._local.lane
        for name, memory in self._local.inputs.items():
            write_rows(memory, [feeds[name]])
        lane.run()
        return {name: lane.outputs[name] for name in self.outputs}


def check_columns(
    scorer: Scorer, columns: Mapping[str, list[str]], available: Sequence[str], keep: Sequence[str] = ()
) -> None:
    """Raises unless each input of the model has columns, and the data set has all columns that are named."""
    names = [wanted.name for wanted in scorer.wanted]
    for name in columns:
        if name not in names:
            raise ArgumentError(f"the model has no input {name!r}; it has {', '.join(map(repr, names))}")
    for source in [*keep, *(source for sources in columns.values() for source in sources)]:
        if source not in available:
            raise ArgumentError(f"the data set has no column {source!r}; it has {', '.join(map(repr, available))}")
    for column in keep:
        if column in scorer.outputs:
            raise ArgumentError(f"column {column!r} cannot be kept: an output of the model has its name")
    for wanted in scorer.wanted:
        name, row = wanted.name, wanted.row
        if name not in columns:
            raise ArgumentError(f"input {name!r} has no column; the data set has {', '.join(map(repr, available))}")
        count = len(columns[name])
        # One column may have lists; and one size may be open, but columns are a row without any other.
        if count > 1 and (len(row) != 1 if None in row else math.prod(size or 0 for size in row) != count):
            shape = ", ".join("?" if size is None else str(size) for size in row)
            raise ArgumentError(f"input {name!r} takes rows of shape [{shape}], which {count} columns do not make")
