"""`CpuBudget`: how many CPUs the runs of this process use at a time. ``budget.c`` lets runs wait for their turn."""

from __future__ import annotations

import os
import re
from typing import NamedTuple

from zrt._common.arguments import integer, shown
from zrt._common.public import public
from zrt._native import ffi, lib
from zrt._native.cdata import NULL
from zrt._native.library import api
from zrt.environment import cpu_limits
from zrt.environment.pool_options import MOST_THREADS
from zrt.errors import ArgumentError

VARIABLE = "ZRT_CPUS"
AUTO = "auto"


@public
class CpuBudget(NamedTuple):
    """The budget of CPUs of this process at one instant, from `Environment.cpu_budget`."""

    cpus: int
    """How many CPUs the runs of this process use at a time."""
    free: int
    """How many of them no run uses."""
    waiting: int
    """How many runs wait for their turn."""
    runs: int
    """How many runs had their turn so far."""
    waited: float
    """How many seconds runs waited so far, all of them together."""


def size_of(cpus: object, subject: str = "cpus") -> int:
    """The size of a budget: a number of CPUs, or ``"auto"`` for those that the process may use."""
    if not isinstance(cpus, str):
        return integer(cpus, subject, 1, MOST_THREADS)
    if cpus != AUTO:
        raise ArgumentError(f"{subject}: {shown(cpus)} is neither a number of CPUs nor {AUTO!r}")
    return min(cpu_limits.cpus(), MOST_THREADS)


def by_variable() -> int:
    """The size that the variable ``ZRT_CPUS`` sets; 0 where it sets none."""
    text = os.environ.get(VARIABLE, "")
    return size_of(int(text) if re.fullmatch("[0-9]{1,9}", text) else text, VARIABLE) if text else 0


def variables(cpus: float) -> dict[str, str]:
    """The variables of a process whose share is so many CPUs: with a budget, if this process's variable sets one."""
    return {VARIABLE: str(max(1, int(cpus)))} if by_variable() else {}


def begin(cpus: int) -> None:
    """Sets the size; 0: no budget. There are no sessions yet."""
    lib.zrt_budget_set(api() if cpus else NULL, cpus)


def current() -> CpuBudget | None:
    """The budget of this process, None where it has none."""
    now = ffi.new("zrt_budget *")
    lib.zrt_budget_read(now)
    if not now.places:
        return None
    return CpuBudget(now.places, now.free, now.waiting, now.runs, now.waited / 1e9)


def pool_threads() -> int:
    """The number of threads for a pool that leaves it open; 0 where ONNX Runtime's own choice is right."""
    # Runs side by side need no pools, whose threads would use more CPUs than the budget has.
    return 1 if current() else cpu_limits.pool_threads()
