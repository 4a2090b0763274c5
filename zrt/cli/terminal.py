"""Text output with rich. Commands with ``--json`` do not import this module."""

from __future__ import annotations

import io
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich import box
from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeElapsedColumn
from rich.table import Table

from zrt.bench import harness

REFRESH_S = 0.1


class _Console(Console):
    """rich's own exits the process when the reader has closed the output; the command does that itself."""

    def on_broken_pipe(self) -> None:
        raise BrokenPipeError


def console() -> Console:
    """Standard output without markup: names of models and shapes may look like it."""
    if isinstance(sys.stdout, io.TextIOWrapper):
        # Print a question mark where the encoding lacks µ or block characters.
        sys.stdout.reconfigure(errors="replace")
    found = _Console(highlight=False, markup=False, emoji=False)
    if not found.is_terminal:
        # A file has no width.
        found.width = max(found.width, 120)
    return found


def table(*columns: str, left: int = 1) -> Table:
    """A table whose first `left` columns are text, shown whole, and whose other columns are numbers."""
    made = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for column in columns[:left]:
        made.add_column(column, overflow="fold")
    for column in columns[left:]:
        made.add_column(column, justify="right", no_wrap=True)
    return made


def facts(*rows: tuple[str, str]) -> Table:
    """A table of labels and facts."""
    made = Table.grid(padding=(0, 2))
    made.add_column(style="dim", no_wrap=True)
    made.add_column(overflow="fold")
    for word, text in rows:
        made.add_row(word, text)
    return made


@contextmanager
def row_bar(total: int) -> Iterator[Callable[[int], None]]:
    """A bar of rows with their rate, on standard error if that is a terminal; it takes the number of rows done."""
    bar = Progress(
        BarColumn(),
        TextColumn("{task.completed:,}/{task.total:,} rows"),
        TextColumn("{task.fields[rate]:,.0f} rows/s"),
        TimeElapsedColumn(),
        console=Console(stderr=True),
        transient=True,
        auto_refresh=False,
    )
    if not bar.console.is_terminal:
        yield lambda done: None
        return
    task = bar.add_task("", total=total, rate=0.0)
    start = drawn = time.monotonic()
    first: int | None = None

    def show(done: int) -> None:
        nonlocal drawn, first
        now = time.monotonic()
        first = done if first is None else first
        bar.update(task, completed=done, rate=(done - first) / max(now - start, 1e-9))
        if done == total or now - drawn > REFRESH_S:
            bar.refresh()
            drawn = now

    with bar:
        yield show


@contextmanager
def progress_bar() -> Iterator[harness.Progress]:
    """A progress bar for each stage, on standard error if that is a terminal; removed at the end."""
    bar = Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.completed}/{task.total}"),
        TimeElapsedColumn(),
        console=Console(stderr=True),
        transient=True,
        # A thread that redraws the bar would disturb the measurement.
        auto_refresh=False,
    )
    if not bar.console.is_terminal:
        yield harness.ignore_progress
        return
    stages: dict[str, TaskID] = {}
    drawn = 0.0

    def show(stage: str, done: int, total: int) -> None:
        nonlocal drawn
        if stage not in stages:
            stages[stage] = bar.add_task(stage, total=total)
        bar.update(stages[stage], completed=done)
        if done == total or time.monotonic() - drawn > REFRESH_S:
            bar.refresh()
            drawn = time.monotonic()

    with bar:
        yield show
