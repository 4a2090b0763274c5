"""`score`: the rows of a data set through a model, in order, by several threads, with bounded memory."""

from __future__ import annotations

import math
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import numpy as np

from zrt._native import status
from zrt.errors import AllocationError, MemoryLimitError, OrtError
from zrt.scoring.blocks import CHUNK_BYTES, CHUNK_ROWS, Block, Chunk, Pace, blocks, example, feed, no_rows
from zrt.scoring.columns import Array, blank
from zrt.scoring.parts import Parts
from zrt.scoring.results import Result
from zrt.scoring.scorer import Scorer
from zrt.scoring.sources import Source

# The blocks that wait or run for each thread.
AHEAD = 2


class Lanes:
    """Chunks of rows through a model by several threads, of which each has a lane of its own.

    `columns` are those of each input, `keep` those that are copied to the results. Rows that cannot be fed have no
    results; with `skip_bad` they have nulls.
    """

    def __init__(
        self,
        scorer: Scorer,
        columns: Mapping[str, Sequence[str]],
        *,
        threads: int,
        keep: Sequence[str] = (),
        skip_bad: bool = False,
    ) -> None:
        self.scorer = scorer
        self._columns = columns
        self._keep = keep
        self._skip_bad = skip_bad
        self._waiting = threads * AHEAD
        self._pace = Pace(scorer.batch)
        self._pool = ThreadPoolExecutor(threads, "zrt-score")

    def results(self, chunks: Iterable[Chunk]) -> Iterator[Result]:
        """The results of all rows, in order."""
        running: deque[tuple[Block, Future[dict[str, Array]]]] = deque()

        def first() -> Result:
            block, future = running[0]
            result = block.result._replace(outputs=future.result())
            running.popleft()
            return result

        try:
            for chunk in chunks:
                inputs = {wanted.name: feed(chunk, self._columns[wanted.name], wanted) for wanted in self.scorer.wanted}
                for block in blocks(chunk, inputs, self._keep, self.scorer, self._pace, self._skip_bad):
                    try:
                        running.append((block, self._pool.submit(self._work, block)))
                    except RuntimeError as error:
                        raise AllocationError(f"no thread for a lane: {error}") from error
                    if len(running) >= self._waiting:
                        yield first()
            while running:
                yield first()
        finally:
            for _, future in running:
                future.cancel()

    def close(self) -> None:
        """Ends the threads, after the runs that have begun."""
        self._pool.shutdown(cancel_futures=True)

    def _work(self, block: Block) -> dict[str, Array]:
        if not block.feeds:
            return {}
        null = block.result.null
        if null is not None and null.all():
            return _spread(example(self.scorer, block.feeds), null)
        start = time.perf_counter()
        try:
            outputs = self.scorer.run(block.feeds)
        except MemoryLimitError:
            # Rows of one shape take as much as each other: none is the cause.
            raise
        except OrtError as error:
            row, cause = self._refused(error, block)
            if row is None:
                raise
            raise status.about(f"row {row}", cause) from cause
        self._pace.ran(len(next(iter(block.feeds.values()))), time.perf_counter() - start)
        return outputs if null is None else _spread(outputs, null)

    def _refused(self, error: OrtError, block: Block) -> tuple[int | None, OrtError]:
        """The number of the row that the model refuses, and its error; None where no row is refused by itself."""
        low, high = 0, len(block.rows)
        while low < high:
            # The rows before `low` run; the first that does not is not after `high`.
            middle = (low + high) // 2
            try:
                self.scorer.run({name: array[low : middle + 1] for name, array in block.feeds.items()})
                low = middle + 1
            except OrtError as one:
                error, high = one, middle
        return block.rows[low] if low < len(block.rows) else None, error


def score(
    source: Source,
    scorer: Scorer,
    columns: Mapping[str, Sequence[str]],
    parts: Parts,
    *,
    threads: int,
    keep: Sequence[str] = (),
    skip_bad: bool = False,
    progress: Callable[[int], None] = lambda rows: None,
) -> None:
    """Adds the results of all rows that `parts` lacks to `parts`, and flushes it, also where an error ends the run.

    `columns`, `keep` and `skip_bad` are those of `Lanes`. `progress` is called with the number of rows that are done.
    """
    lanes = Lanes(scorer, columns, threads=threads, keep=keep, skip_bad=skip_bad)
    try:
        names = needed(columns, keep)
        chunks = source.chunks(names, parts.done, chunk_rows(scorer, source.no_rows(names)))
        gather(lanes.results(chunks), scorer, parts, progress, source.no_rows(keep))
    finally:
        lanes.close()


def chunk_rows(scorer: Scorer, columns: Mapping[str, Any]) -> int:
    """The rows of a chunk, in whole batches; it depends on the types and shapes alone, so that a later run agrees.

    A size that both the model and the column leave open counts as 1.
    """
    widest = max((wanted.dtype.itemsize for wanted in scorer.wanted), default=1)
    width: int = max(
        sum(wanted.dtype.itemsize * math.prod(size or 1 for size in wanted.row) for wanted in scorer.wanted),
        # A chunk of a list column of pyarrow's is at most as large as a part of its file, which its writer has bounded.
        sum(
            max(array.dtype.itemsize, widest) * math.prod(array.shape[1:])
            for array in columns.values()
            if isinstance(array, np.ndarray)
        ),
    )
    fitting = min(CHUNK_ROWS, CHUNK_BYTES // max(1, width))
    return max(1, fitting // scorer.batch) * scorer.batch


def needed(columns: Mapping[str, Sequence[str]], keep: Sequence[str]) -> list[str]:
    """The columns that are read."""
    return list(dict.fromkeys([name for names in columns.values() for name in names] + list(keep)))


def gather(
    results: Iterator[Result],
    scorer: Scorer,
    parts: Parts,
    progress: Callable[[int], None] = lambda rows: None,
    kept: Mapping[str, Any] | None = None,
) -> None:
    """Adds results to `parts`, and flushes it, also where an error ends them; nulls that still wait are lost then.

    `kept` has the columns of the results without rows: those of a data set of which no row has results.
    """
    done = parts.done
    try:
        for result in results:
            parts.add(result)
            done += result.covered
            progress(done)
    except BaseException:
        parts.flush()
        raise
    parts.flush(end=True)
    if not parts.files:
        # Results of no rows, so that there is a file.
        parts.add(Result(0, no_rows(scorer), columns=kept or {}))
        parts.flush()


def _spread(results: Mapping[str, Array], null: Array) -> dict[str, Array]:
    """Results with a blank row for each row that has none."""
    spread = {}
    for name, array in results.items():
        whole = blank((len(null), *array.shape[1:]), array.dtype)
        if not null.all():
            whole[~null] = array
        spread[name] = whole
    return spread
