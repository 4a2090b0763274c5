"""A session's handle, and the function tables: with the budget of CPUs, with a recorder, and refusing after a fork."""

from __future__ import annotations

import os
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
    """The ``OrtApi``, which C never frees: bindings and lanes have its address, also after a fork."""
    lost: bool
    """Whether this process is a child of the one that made the table."""

    def __init__(self) -> None:
        self.pointer = lib.zrt_forks_table(api())
        if not self.pointer:
            raise AllocationError("no memory for the table of a session's functions")
        lib.zrt_budget_install(self.pointer)
        self.lost = False


# The tables of the sessions that this process makes, by whether their runs are recorded (record.h).
_tables: dict[bool, RunTable] = {}

# Those of sessions that forked children may run too: no fork changes them.
_tables_of_children: dict[bool, RunTable] = {}


def _table(tables: dict[bool, RunTable], recording: bool = False) -> RunTable:
    table = tables.get(recording)
    if table is None:
        made = RunTable()
        if recording:
            lib.zrt_record_install(made.pointer)
        # Two threads may both get here: the table of one is for both.
        table = tables.setdefault(recording, made)
    return table


class SessionHandle(Handle):
    """A handle on an ``OrtSession``, and the table through which it runs."""

    __slots__ = ("arena", "table")

    table: RunTable
    arena: Handle | None
    """The ``zrt_arena`` whose unused memory goes back to the system."""

    def __init__(self, reference: Any, pointer: Any, kept: tuple[object, ...] = ()) -> None:
        super().__init__(reference, pointer, kept)
        self.table = _table(_tables)
        self.arena = None

    def holding(self, *others: Handle) -> Self:
        """The same session, which keeps these other handles alive too."""
        held = super().holding(*others)
        held.arena = self.arena
        return held

    def run_in_children(self) -> None:
        """Lets forked children run the session too. Call it only for one without threads."""
        self.table = _table(_tables_of_children)

    def let_record(self) -> None:
        """Lets the runs of all that is made from the session from now on be recorded. Raises `ForkedError`."""
        self.check()
        in_children = self.table in (_tables_of_children.get(False), _tables_of_children.get(True))
        self.table = _table(_tables_of_children if in_children else _tables, recording=True)

    def check(self) -> None:
        """Raises `ForkedError` if the session was made before a fork."""
        if self.table.lost:
            raise status.to_error(status.FORKED)


def _in_child() -> None:
    for table in _tables.values():
        table.lost = True
        lib.zrt_forks_refuse(table.pointer)
    _tables.clear()


os.register_at_fork(after_in_child=_in_child)
