"""Objects that are made and dropped leak no memory, and every failed allocation raises."""

import json
import sys
from pathlib import Path

import pytest

from tests.robustness.conftest import Child

# Growth in bytes per turn. glibc allocates at least 32 bytes, so the smallest possible leak is far above this limit.
# Growth below it is noise: half-empty pages of a heap, tables of Python that grow once.
ALLOWED = 10

needs_proc = pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="no map of the process's memory here")


@needs_proc
@pytest.mark.slow
def test_repeated_calls_leak_no_memory(child: Child) -> None:
    growth = json.loads(child("memory/loops.py", timeout=1200))
    assert len(growth) == 21
    assert {loop: bytes_each for loop, bytes_each in growth.items() if bytes_each >= ALLOWED} == {}


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
