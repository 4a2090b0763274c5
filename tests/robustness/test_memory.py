"""Objects that are made and dropped leak no memory, and every failed allocation raises."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tests.robustness.conftest import Child

# The calls in scripts/memory/loops.py that make, use and drop objects.
LOOPS = (
    "run",
    "run of a list",
    "run of values",
    "run with options",
    "run of a new shape",
    "run whose output ORT makes",
    "prepared run",
    "lane",
    "run of a lane",
    "output that is left to ORT",
    "binding",
    "value",
    "allocated value",
    "buffer",
    "large buffer",
    "copy",
    "dynamic lane",
    "error",
    "error of a lane",
    "error of a load",
)


# Fewer turns for slow calls.
TURNS = dict.fromkeys(LOOPS, 100_000) | {"dynamic lane": 20_000, "error of a load": 10_000, "binding": 50_000}

# Growth in bytes per turn. glibc allocates at least 32 bytes, so the smallest possible leak is far above this limit.
# Growth below it is noise: half-empty pages of a heap, tables of Python that grow once.
ALLOWED = 10

needs_proc = pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="no map of the process's memory here")


@needs_proc
@pytest.mark.slow
@pytest.mark.parametrize("loop", LOOPS)
def test_repeated_calls_leak_no_memory(child: Child, loop: str) -> None:
    grown = child("memory/loops.py", arguments=[loop, TURNS[loop]], timeout=300)
    assert int(grown) < ALLOWED * TURNS[loop]


@needs_proc
@pytest.mark.slow
@pytest.mark.parametrize("threads", [1, 2])
def test_sessions_leak_no_memory(child: Child, threads: int) -> None:
    """A session takes over 100 KiB, so 2 MiB would be one leaked session of a hundred."""
    grown = child("memory/sessions.py", arguments=[threads])
    assert int(grown) < 2 << 20


@pytest.mark.skipif(sys.implementation.name != "cpython", reason="the tool is CPython's")
def test_any_failed_allocation_raises(child: Child) -> None:
    pytest.importorskip("_testcapi")
    child("memory/failing_allocations.py")
