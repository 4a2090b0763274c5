"""Submitted runs and log lines while threads race, objects are dropped, the process forks or ends."""

from __future__ import annotations

import time

import pytest

from tests.robustness.conftest import Child
from zrt.session import async_runs

both = pytest.mark.parametrize("threads", [1, 2], ids=["no pool", "pool"])


@both
@pytest.mark.parametrize("holder", ["nobody", "a global", "a cycle"])
def test_process_ends_during_runs(child: Child, threads: int, holder: str) -> None:
    """The runs are terminated, their futures complete with that error, and nothing else is printed."""
    printed = child("bridge/ended.py", arguments=[threads, holder], timeout=60)
    assert printed == "TerminatedError\n"


@both
def test_process_ends_while_daemon_threads_wait_for_runs(child: Child, threads: int) -> None:
    child("bridge/daemons.py", arguments=[threads], timeout=60)


@both
def test_process_ends_while_a_stopped_loop_has_runs(child: Child, threads: int) -> None:
    """It waits for the endless run to be terminated, and not for a loop that takes nothing."""
    begun = time.monotonic()
    child("bridge/stopped_loop.py", arguments=[threads])
    assert time.monotonic() - begun < async_runs.EXIT_PATIENCE


@both
def test_submit_during_the_interpreters_end_raises(child: Child, threads: int) -> None:
    printed = child("bridge/late.py", arguments=[threads])
    assert printed == "the interpreter is ending: no run can begin\n[inf, inf, inf, inf]\n"


@both
def test_exception_ends_the_process_during_runs(child: Child, threads: int) -> None:
    """The exit status and the output are Python's own."""
    process = child.start("bridge/exception.py", arguments=[threads])
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 7
    assert errors == ""


@both
def test_fork_during_runs(child: Child, threads: int) -> None:
    child("bridge/fork.py", arguments=[threads])


@both
def test_fork_while_a_loop_waits_for_runs(child: Child, threads: int) -> None:
    child("bridge/fork_in_loop.py", arguments=[threads])


@both
def test_session_from_before_a_fork_refuses_asynchronous_runs(child: Child, threads: int) -> None:
    child("bridge/session_before_fork.py", arguments=[threads])


def test_fork_while_threads_submit_and_log(child: Child) -> None:
    child("bridge/fork_at_any_moment.py", arguments=[1])


@both
def test_sessions_and_futures_dropped_in_random_order(child: Child, threads: int) -> None:
    child("bridge/dropped.py", arguments=[threads])


@both
def test_submitted_runs_leak_no_memory(child: Child, threads: int) -> None:
    """A leaked run would be a block, its arrays and its options: more than 1 KiB."""
    grown = child("bridge/memory.py", arguments=[threads])
    assert int(grown) < 1500


@both
def test_sessions_closed_during_all_kinds_of_runs(child: Child, threads: int) -> None:
    child("bridge/closed.py", arguments=[threads])


@pytest.mark.slow
def test_interrupts_during_submit_leak_no_run(child: Child) -> None:
    child("bridge/interrupts.py", arguments=[1])


@pytest.mark.slow
@both
def test_interrupts_while_waiting_for_a_run_lose_no_future(child: Child, threads: int) -> None:
    child("bridge/interrupts.py", arguments=[threads, "results"])
