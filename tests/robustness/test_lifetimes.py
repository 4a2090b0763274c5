"""Objects may be dropped in any order, up to the end of the interpreter, and are not copyable."""

from __future__ import annotations

import copy
import gc
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import zrt
from tests.robustness.conftest import Child
from tests.robustness.table import CLOSABLE, World
from zrt._native.handle import Handle
from zrt.errors import NotCopyableError


@pytest.mark.parametrize("first", [0, 40, 80])
def test_objects_dropped_in_any_order(child: Child, first: int) -> None:
    output = child("lifetimes/dropped.py", arguments=[first])
    assert output.split() == [str(seed) for seed in range(first, first + 40)]


def test_objects_closed_in_any_order(child: Child) -> None:
    child("lifetimes/closed.py")


# The holders of live objects in scripts/lifetimes/ends.py.
ENDS = (
    "globals",
    "a cycle in globals",
    "an unreachable cycle",
    "another module",
    "a class",
    "a default argument",
    "a suspended generator",
    "an exception with its frames",
    "an exit function",
    "a finalizer",
    "a thread's locals",
    "a daemon thread's frame",
    "a session with its own threads",
    "sessions that share weights",
    "closed objects",
    "nothing but the import",
    "sys.exit",
)


@pytest.mark.parametrize("holder", ENDS)
def test_objects_alive_at_the_interpreters_end(child: Child, holder: str) -> None:
    assert child("lifetimes/ends.py", arguments=[holder]) == "done\n"


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("work", ["lane", "session", "binding", "prepared", "new lane", "new session", "terminated"])
def test_daemon_threads_at_the_interpreters_end(child: Child, work: str, threads: int) -> None:
    """The interpreter ends while daemon threads are in runs."""
    for _ in range(3):
        assert child("lifetimes/daemons.py", arguments=[work, threads]) == "done\n"


@pytest.mark.slow
def test_long_chain_of_handles_is_released_without_recursion(child: Child) -> None:
    child("lifetimes/chain.py")


# A State has copies on purpose: tests/lanes/test_state.py has them.
@pytest.mark.parametrize("name", [name for name in CLOSABLE if not name.endswith("Runtime") and name != "State"])
def test_closable_objects_are_not_copyable(name: str, tmp_path: Path) -> None:
    world = World(tmp_path)
    item = CLOSABLE[name](world)
    for attempt in (copy.copy, copy.deepcopy, pickle.dumps):
        with pytest.raises(NotCopyableError, match=name):
            attempt(item)
    world.check()


def test_holders_of_lanes_are_not_copyable(tmp_path: Path) -> None:
    world = World(tmp_path)
    for item in (world.runtime, [world.lane], world.lane.inputs):
        for attempt in (copy.deepcopy, pickle.dumps):
            with pytest.raises((NotCopyableError, TypeError)):
                attempt(item)
    world.check()


def test_handle_is_not_copyable() -> None:
    handle = Handle.pin(object())
    for attempt in (copy.copy, copy.deepcopy, pickle.dumps):
        with pytest.raises(NotCopyableError):
            attempt(handle)


@pytest.mark.parametrize("name", zrt.errors.__all__)
def test_errors_can_be_pickled(name: str) -> None:
    """As a pool of processes does with an error of a worker."""
    error = getattr(zrt.errors, name)("what went wrong")
    error.code = 9
    again = pickle.loads(pickle.dumps(error))
    assert type(again) is type(error)
    assert str(again) == "what went wrong"
    assert again.code == 9


BAD_STARTS: dict[str, Callable[[type], object]] = {
    "Session": lambda kind: kind(b"no model"),
    "IoBinding": lambda kind: kind(5),
    "Lane": lambda kind: kind(zrt.Session(b"no model")),
    "RunOptions": lambda kind: kind(tag=5),
    "Buffer": lambda kind: kind((2**62,), np.float32),
    "Allocator": lambda kind: kind(5),
    "Runtime": lambda kind: kind(5),
    "DynamicRuntime": lambda kind: kind(5),
}


@pytest.mark.parametrize("name", BAD_STARTS)
def test_object_whose_init_failed_is_released_quietly(name: str) -> None:
    """An exception in `__del__` would be an error of this test."""

    def finalize(self: Any) -> None:
        gone.append(name)

    gone: list[str] = []
    kind = type(name, (getattr(zrt, name),), {"__del__": finalize, "__slots__": ()})
    with pytest.raises(zrt.Error):
        BAD_STARTS[name](kind)
    gc.collect()
    assert gone == ([name] if name != "Lane" else [])


def test_failed_load_in_a_reference_cycle(child: Child) -> None:
    child("lifetimes/failed_load.py")


def test_model_bytes_used_in_place_stay_alive(child: Child) -> None:
    child("lifetimes/model_bytes.py")
