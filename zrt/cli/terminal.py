"""Text output with rich. Commands with ``--json`` do not import this module."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import zip_longest

from rich import box
from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeElapsedColumn
from rich.table import Table
from rich.text import Text

from zrt.bench import harness
from zrt.cli.common import harmless

REFRESH_S = 0.1


class _Console(Console):
    """rich's own exits the process when the reader has closed the output; the command does that itself."""

    def on_broken_pipe(self) -> None:
        raise BrokenPipeError


class Page:
    """Standard output without markup: names of models and shapes may look like it."""

    def __init__(self) -> None:
        self._console = _Console(highlight=False, markup=False, emoji=False)
        if not self._console.is_terminal:
            # A file has no width.
            self._console.width = max(self._console.width, 120)
        self.ascii_only: bool = self._console.options.ascii_only

    def line(self, *parts: str | tuple[str, str], style: str = "") -> None:
        """A line of text, also one that is longer than the page; a part may have a style of its own."""
        shown = (harmless(part) if isinstance(part, str) else (harmless(part[0]), part[1]) for part in parts)
        self._console.print(Text.assemble(*shown), style=style, soft_wrap=True)

    def facts(self, *rows: tuple[str, str]) -> None:
        """A table of labels and facts."""
        grid = Table.grid(padding=(0, 2))
        grid.add_column(style="dim", no_wrap=True)
        grid.add_column(overflow="fold")
        for row in rows:
            grid.add_row(*map(harmless, row))
        self._console.print(grid, soft_wrap=True)

    def table(
        self, heads: Sequence[str], rows: Iterable[Sequence[str]], left: int = 1, styles: Iterable[str] = ()
    ) -> None:
        """A table whose first `left` columns are text, shown whole, and whose other columns are numbers."""
        table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
        for head in heads[:left]:
            table.add_column(head, overflow="fold")
        for head in heads[left:]:
            table.add_column(head, justify="right", no_wrap=True)
        for row, style in zip_longest(rows, styles, fillvalue=""):
            table.add_row(*map(harmless, row), style=style)
        self._console.print(table)

    def columns(self, columns: Sequence[tuple[str, str]]) -> None:
        """Pictures beside each other, each with its caption."""
        grid = Table.grid(padding=(0, 3))
        for _ in columns:
            grid.add_column(no_wrap=True)
        pictures, captions = zip(*columns, strict=True)
        grid.add_row(*pictures)
        grid.add_row(*captions, style="bold")
        self._console.print(grid)


@contextmanager
def progress_bar() -> Iterator[harness.Progress]:
    """A bar for each stage, with its rate, on standard error if that is a terminal; removed at the end."""
    bar = Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.completed:,}/{task.total:,}"),
        TextColumn("{task.fields[rate]:,.0f}/s"),
        TimeElapsedColumn(),
        console=Console(stderr=True),
        transient=True,
        # A thread that redraws the bar would disturb a measurement.
        auto_refresh=False,
    )
    if not bar.console.is_terminal:
        yield harness.ignore_progress
        return
    stages: dict[str, tuple[TaskID, int, float]] = {}
    drawn = 0.0

    def show(stage: str, done: int, total: int) -> None:
        nonlocal drawn
        now = time.monotonic()
        if stage not in stages:
            # A resumed stage does not begin at 0.
            stages[stage] = bar.add_task(stage, total=total, rate=0.0), done, now
        task, first, start = stages[stage]
        bar.update(task, completed=done, rate=(done - first) / max(now - start, 1e-9))
        if done == total or now - drawn > REFRESH_S:
            bar.refresh()
            drawn = now

    with bar:
        yield show
