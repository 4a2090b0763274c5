"""Forks and several interpreters: the parent goes on, and the child neither hangs nor crashes."""

import os
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from tests.robustness.conftest import Child, at_once_or_slowly
from tests.support import processes

needs_fork = pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")


@pytest.fixture
def fork(child: Child, tmp_path: Path) -> Callable[..., str]:
    """Runs a script where only zrt may have switched ONNX Runtime's telemetry off: its thread makes children hang."""

    def run(script: str, *arguments: object) -> str:
        return child(f"processes/{script}", arguments, env=processes.plain_environment(tmp_path))

    return run


USES = ("exit", "drop", "close", "look", "own", "own, kept", "own, in a thread", "own, then fork", "fork", "run")


@needs_fork
@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("uses", at_once_or_slowly(USES))
def test_fork_after_use(fork: Callable[..., str], uses: Sequence[str], threads: int) -> None:
    """A child that exits, or that uses objects of its own, neither hangs nor crashes; the parent goes on.

    The parent's sessions refuse to run in the child.
    """
    fork("fork.py", threads, *uses)


# The first line of each script says when it forks.
SCRIPTS = [
    *(("fork_before_session.py", made) for made in ("nothing", "library", "environment", "global pools")),
    ("fork_during_runs.py", 2),
    ("fork_in_a_run.py",),
    *(("fork_beside_a_local.py", threads) for threads in ("pool", "factory")),
    ("fork_in_callback.py", 1),
    *(("fork_in_first_use.py", use) for use in ("submit", "run_async", "timeout", "error")),
    ("pool.py", 3),
]


@needs_fork
@pytest.mark.parametrize("command", SCRIPTS, ids=lambda command: " ".join(map(str, command)))
def test_parent_and_child_go_on(fork: Callable[..., str], command: Sequence[object]) -> None:
    fork(*command)


def test_zrt_in_several_interpreters(child: Child) -> None:
    """In a second interpreter of the process zrt works or cannot be imported."""
    child("processes/subinterpreters.py")
