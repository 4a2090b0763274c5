"""Forks and several interpreters: the parent goes on, and the child neither hangs nor crashes."""

from __future__ import annotations

import os

import pytest

from tests.robustness.conftest import Child

needs_fork = pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")


# A session with a pool of threads does not run in the child: its threads stay in the parent.
@needs_fork
@pytest.mark.parametrize(
    ("use", "threads"),
    [(use, threads) for use in ("exit", "drop", "close", "look", "own", "own, kept", "fork") for threads in (1, 3)]
    + [("run", 1)],
)
def test_fork_after_use(child: Child, use: str, threads: int) -> None:
    """A child that exits, or that uses objects of its own, neither hangs nor crashes; the parent goes on."""
    child("processes/fork.py", arguments=[use, threads])


@needs_fork
def test_fork_during_runs(child: Child) -> None:
    child("processes/fork_during_runs.py", arguments=["exit", 2])


@needs_fork
def test_pool_of_forked_processes(child: Child) -> None:
    child("processes/pool.py", arguments=["exit", 3])


def test_zrt_in_several_interpreters(child: Child) -> None:
    """In a second interpreter of the process zrt works or cannot be imported."""
    child("processes/subinterpreters.py")
