"""Submitted runs and log lines while threads race, objects are dropped, the process forks or ends."""

import time
from collections.abc import Sequence

import pytest

from tests.robustness.conftest import Child, at_once_or_slowly
from zrt.session import async_runs

both = pytest.mark.parametrize("threads", [1, 2], ids=["no pool", "pool"])


@both
@pytest.mark.parametrize("holders", at_once_or_slowly(["nobody", "a global", "a cycle"]))
def test_process_ends_during_runs(child: Child, threads: int, holders: Sequence[str]) -> None:
    """The runs are terminated, their futures complete with that error, and nothing else is printed."""
    printed = child("bridge/ended.py", arguments=[threads, *holders], timeout=60)
    assert printed == "TerminatedError\n"


# The first line of each script says what it does.
@both
@pytest.mark.parametrize("script", ["daemons", "fork", "fork_in_loop", "dropped"])
def test_runs_survive(child: Child, threads: int, script: str) -> None:
    child(f"bridge/{script}.py", arguments=[threads])


@both
def test_process_ends_while_a_stopped_loop_has_runs(child: Child, threads: int) -> None:
    """It waits for the endless run to be terminated, and not for a loop that takes nothing."""
    script_ended = float(child("bridge/stopped_loop.py", arguments=[threads]))
    assert time.monotonic() - script_ended < async_runs.EXIT_PATIENCE


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


def test_fork_while_threads_submit_and_log(child: Child) -> None:
    child("bridge/fork_at_any_moment.py", arguments=[1])


@both
def test_submitted_runs_leak_no_memory(child: Child, threads: int) -> None:
    """A leaked run would be a block, its arrays and its options: more than 1 KiB."""
    grown = child("bridge/memory.py", arguments=[threads])
    assert int(grown) < 1500


@pytest.mark.slow
def test_interrupts_during_submit_leak_no_run(child: Child) -> None:
    child("bridge/interrupts.py", arguments=[1])


@pytest.mark.slow
@both
def test_interrupts_while_waiting_for_a_run_lose_no_future(child: Child, threads: int) -> None:
    child("bridge/interrupts.py", arguments=[threads, "results"])


def test_process_whose_thread_start_fails_ends_quietly(child: Child) -> None:
    process = child.start("bridge/no_thread.py")
    _, errors = process.communicate(timeout=60)
    assert (process.returncode, errors) == (0, "")
