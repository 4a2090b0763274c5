"""Processes that end after a call was refused."""

from __future__ import annotations

from tests.robustness.conftest import Child


def test_process_whose_thread_start_fails_ends_quietly(child: Child) -> None:
    process = child.start("odd/no_thread.py")
    _, errors = process.communicate(timeout=60)
    assert (process.returncode, errors) == (0, "")
