"""Combinations of areas: values, weights, threads, logs and policies in every kind of run."""

from __future__ import annotations

import os

import pytest

from tests.robustness.conftest import Child


def test_absent_optional_is_none_in_every_kind_of_run(child: Child) -> None:
    """Reading an absent output crashes: it must be None however the run is made."""
    child("seams/absent_optional.py")


def test_environment_being_created_refuses_reentrant_use(child: Child) -> None:
    printed = child("seams/reentrant_environment.py")
    assert "is being created" in printed
    assert printed.endswith("no copy, no pickle\n")


def test_callback_that_would_deadlock_raises(child: Child) -> None:
    child("seams/deadlocking_callbacks.py")


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system does not fork")
def test_global_thread_pools_after_a_fork(child: Child) -> None:
    """The pools' threads stay in the parent: sessions in the child run without them."""
    child("seams/forked_global_pools.py")


def test_run_options_keep_closed_adapters(child: Child, tmp_path) -> None:
    child("seams/closed_adapters.py", arguments=[tmp_path])


def test_sessions_share_weights_in_memory(child: Child, tmp_path) -> None:
    child("seams/shared_weights.py", arguments=[tmp_path])


def test_callback_objects_that_hold_their_session_are_collected(child: Child) -> None:
    child("seams/collected_callbacks.py", timeout=60)


def test_interrupt_in_a_policy_raises_and_leaks_nothing(child: Child) -> None:
    """Ctrl-C at any bytecode of a policy raises KeyboardInterrupt, and the loaded session is released."""
    child("seams/interrupted_policy.py", timeout=60)


def test_all_kinds_of_runs_race_with_close_and_cancel(child: Child) -> None:
    child("seams/everything.py")
