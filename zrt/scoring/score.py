"""`score`: the rows of a data set through a model, in order, by several threads, with bounded memory."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from typing import Any, NamedTuple

import numpy as np

from zrt.errors import Error
from zrt.scoring.columns import Array, Rows
from zrt.scoring.parts import Parts
from zrt.scoring.scorer import Scorer
from zrt.scoring.sources import Chunk, Source

# The rows that are read and converted at once.
CHUNK_ROWS = 8192

# A thread gets work for about this many seconds at a time: less would cost more than the runs, more would delay the
# progress and an interrupt.
BLOCK_S = 0.05

# The blocks that wait or run for each thread.
AHEAD = 2


class Block(NamedTuple):
    """Consecutive rows for one thread: those that can be fed, and what is known of the others."""

    covered: int
    feeds: dict[str, Array]
    null: Array | None
    """With `skip_bad`, which rows get no results; None for none."""
    kept: dict[str, Any]
    bad: list[tuple[int, str]]


class _Pace:
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

    `columns` are those of each input, `keep` those that are copied to the results. Rows that cannot be fed have no
    results; with `skip_bad` they have nulls. `progress` is called with the number of rows that are done.
    """
    pace = _Pace(scorer.batch)

    def work(block: Block) -> dict[str, Array]:
        if not block.feeds:
            return {}
        start = time.perf_counter()
        results = scorer.run(block.feeds)
        pace.ran(len(next(iter(block.feeds.values()))), time.perf_counter() - start)
        return results if block.null is None else _spread(results, block.null)

    needed = list(dict.fromkeys([name for names in columns.values() for name in names] + list(keep)))
    running: deque[tuple[Block, Future[dict[str, Array]]]] = deque()
    done = parts.done
    pool = ThreadPoolExecutor(threads, "zrt-score")

    def take() -> None:
        nonlocal done
        block, future = running[0]
        parts.add(block.covered, future.result(), block.null, block.kept, block.bad)
        running.popleft()
        done += block.covered
        progress(done)

    try:
        for chunk in source.chunks(needed, done, CHUNK_ROWS):
            inputs = {wanted.name: source.fit(chunk, columns[wanted.name], wanted) for wanted in scorer.wanted}
            for block in _blocks(chunk, inputs, keep, scorer, pace, skip_bad):
                running.append((block, pool.submit(work, block)))
                if len(running) >= threads * AHEAD:
                    take()
        while running:
            take()
    finally:
        for _, future in running:
            future.cancel()
        pool.shutdown()
        parts.flush()
    if not parts.files:
        # Results of no rows, so that there is a file.
        with suppress(Error):
            parts.add(0, {name: array[:0] for name, array in scorer.run(_made_up(scorer)).items()}, None, {}, [])
            parts.flush()


def _blocks(
    chunk: Chunk, inputs: Mapping[str, Rows], keep: Sequence[str], scorer: Scorer, pace: _Pace, skip_bad: bool
) -> Iterator[Block]:
    reasons: dict[int, str] = {}
    for rows in inputs.values():
        reasons = {**rows.bad, **reasons}
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


def _spread(results: Mapping[str, Array], null: Array) -> dict[str, Array]:
    """Results with a row, of zeros, for each row that has none."""
    spread = {}
    for name, array in results.items():
        whole = np.zeros((len(null), *array.shape[1:]), array.dtype)
        if not null.all():
            whole[~null] = array
        spread[name] = whole
    return spread
