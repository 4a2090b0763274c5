"""The function tables through which sessions run: with a budget, with a recorder, and refusing after a fork."""

from __future__ import annotations

import os
from functools import cache
from typing import Any, Self

from zrt._native import lib, status
from zrt._native.handle import Handle
from zrt._native.library import api
from zrt.errors import AllocationError


class RunTable:
    """A copy of ORT's function table, through which the sessions of one process run.

    Its runs keep to the budget of CPUs, if there is one. In a forked child its run functions refuse to run. So no run
    has to check whether its session is the parent's.
    """

    __slots__ = ("lost", "pointer")

    pointer: Any
    """The ``OrtApi``."""
    lost: bool
    """Whether this process is a child of the one that made the table."""

    def __init__(self) -> None:
        self.pointer = lib.zrt_forks_table(api())
        if not self.pointer:
            raise AllocationError("no memory for the table of a session's functions")
        lib.zrt_budget_install(self.pointer)
        self.lost = False


# C code has their addresses: they live to the end of the process.
_tables: list[RunTable] = []
_recording: list[RunTable] = []
_lost: list[RunTable] = []


def _table() -> RunTable:
    """The table of the sessions that this process makes."""
    if not _tables:
        # Two threads may both get here: their tables are equally good.
        _tables.append(RunTable())
    return _tables[0]


def _recording_table() -> RunTable:
    """The table of those whose runs are recorded (record.h)."""
    if not _recording:
        table = RunTable()
        lib.zrt_record_install(table.pointer)
        _recording.append(table)
    return _recording[0]


@cache
def _table_of_children() -> RunTable:
    """The table of sessions that forked children may run too: no fork changes it."""
    return RunTable()


class SessionHandle(Handle):
    """A handle on an ``OrtSession``, and the table through which it runs."""

    __slots__ = ("arena", "table")

    table: RunTable
    arena: Handle | None
    """The ``zrt_arena`` whose unused memory goes back to the system."""

    def __init__(self, reference: Any, pointer: Any, kept: tuple[object, ...] = ()) -> None:
        super().__init__(reference, pointer, kept)
        self.table = _table()
        self.arena = None

    def holding(self, *others: Handle) -> Self:
        """The same session, which keeps these other handles alive too."""
        held = super().holding(*others)
        held.arena = self.arena
        return held

    def run_in_children(self) -> None:
        """Lets forked children run the session too. Call it only for one without threads."""
        self.table = _table_of_children()

    def let_record(self) -> None:
        """Lets the runs of all that is made from the session from now on be recorded. Raises `ForkedError`."""
        self.check()
        self.table = _recording_table()

    def check(self) -> None:
        """Raises `ForkedError` if the session was made before a fork."""
        if self.table.lost:
            raise status.to_error(status.FORKED)


def _in_child() -> None:
    for tables in (_tables, _recording):
        for table in tables:
            table.lost = True
            lib.zrt_forks_refuse(table.pointer)
        _lost.extend(tables)
        tables.clear()


os.register_at_fork(after_in_child=_in_child)
