"""Objects may be dropped in any order, up to the end of the interpreter, and are not copyable."""

import copy
import gc
import pickle
import random
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import zrt
from benches.models import build as bench
from tests.robustness.conftest import Child, at_once_or_slowly
from tests.robustness.sums import ADD, QUIET, same
from tests.robustness.table import CLOSABLE, World
from tests.robustness.values import every_kind
from zrt._native.handle import Handle
from zrt.errors import NotCopyableError


@pytest.mark.parametrize("first", [0, *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(40, 400, 40))])
def test_objects_dropped_in_any_order(child: Child, first: int) -> None:
    output = child("lifetimes/dropped.py", arguments=[first])
    assert output.split() == [str(seed) for seed in range(first, first + 40)]


def test_objects_closed_in_any_order(child: Child) -> None:
    child("lifetimes/closed.py")


# The holders of live objects in scripts/lifetimes/ends.py; the last ones end the process, or change it for the others.
HOLDERS = (
    "globals",
    "a cycle in globals",
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
    "values of every kind",
)
ALONE = ("an unreachable cycle", "nothing but the import", "sys.exit")


@pytest.mark.parametrize("holders", [*at_once_or_slowly(HOLDERS), *(pytest.param([each], id=each) for each in ALONE)])
def test_objects_alive_at_the_interpreters_end(child: Child, holders: Sequence[str]) -> None:
    assert child("lifetimes/ends.py", arguments=holders) == "done\n"


WORK = ("lane", "session", "binding", "prepared", "new lane", "new session", "terminated")


@pytest.mark.parametrize("rounds", [1, pytest.param(8, marks=pytest.mark.slow)])
@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("work", at_once_or_slowly(WORK))
def test_daemon_threads_at_the_interpreters_end(child: Child, work: Sequence[str], threads: int, rounds: int) -> None:
    """The interpreter ends while daemon threads are in runs."""
    for _ in range(rounds):
        assert child("lifetimes/daemons.py", arguments=[threads, *work]) == "done\n"


# The log comes first: its callback is set before the environment is made.
CALLBACKS = ("log", "policy", "thread factory", "compiled model", "compiled weights")


@pytest.mark.parametrize("asked", at_once_or_slowly(CALLBACKS))
def test_daemon_threads_in_callbacks_at_the_interpreters_end(child: Child, asked: Sequence[str]) -> None:
    assert child("lifetimes/daemons_in_callbacks.py", arguments=asked) == "done\n"


@pytest.mark.slow
def test_long_chain_of_handles_is_released_without_recursion(child: Child) -> None:
    child("lifetimes/chain.py")


# A State has copies on purpose: tests/lanes/test_state.py has them.
@pytest.mark.parametrize("name", sorted(CLOSABLE.keys() - {"State"}))
def test_closable_objects_are_not_copyable(name: str, world: World) -> None:
    item = CLOSABLE[name](world)
    for attempt in (copy.copy, copy.deepcopy, pickle.dumps):
        with pytest.raises(NotCopyableError, match=name):
            attempt(item)


@pytest.mark.parametrize("name", sorted(CLOSABLE))
def test_with_closes_an_object_and_a_second_close_does_nothing(name: str, world: World) -> None:
    """A `Runtime` does not tell whether it is closed."""
    with CLOSABLE[name](world) as item:
        assert not getattr(item, "closed", False)
    assert getattr(item, "closed", True)
    item.close()


def test_holders_of_lanes_are_not_copyable(world: World) -> None:
    for item in ([world.lane], world.lane.inputs):
        for attempt in (copy.deepcopy, pickle.dumps):
            with pytest.raises((NotCopyableError, TypeError)):
                attempt(item)


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


@pytest.mark.parametrize("content", [b"", b"no model", ADD])
def test_failed_load_in_a_reference_cycle(content: bytes) -> None:
    """The error of a failed load holds itself, and its frames hold the caller's memoryview."""
    released = memoryview(content)
    released.release()
    for model in (
        memoryview(content[:-1]),
        memoryview(bytearray(content[:-1])),
        memoryview(content)[::2],
        memoryview(content[:-1]).cast("b"),
        released,
    ):
        with pytest.raises(zrt.Error) as caught:
            zrt.Session(model)
        caught.value.me = caught.value  # type: ignore[attr-defined]
        del caught, model
        gc.collect()


def test_model_bytes_used_in_place_stay_alive(tmp_path: Path) -> None:
    """A model in ORT format that is used in place: its bytes stay as long as the session and its lanes."""
    path = tmp_path / "model.ort"
    saved = {"session.save_model_format": "ORT"}
    options = zrt.SessionOptions(optimized_model_filepath=path, config_entries=saved, log_severity_level="FATAL")
    zrt.Session(bench.mlp(width=256, depth=4), options)
    content, feeds = path.read_bytes(), {"x": np.ones((1, 256), np.float32)}
    wanted = zrt.Session(content, QUIET).run(feeds)[0]
    used = {"session.use_ort_model_bytes_directly": "1", "session.use_ort_model_bytes_for_initializers": "1"}
    one = zrt.Session(bytearray(content), zrt.SessionOptions(config_entries=used))
    gc.collect()
    overwritten = [bytes([255]) * len(content) for _ in range(20)]
    same(one.run(feeds)[0], wanted)
    lane = one.lane({"x": (1, 256)})
    lane.inputs["x"][...] = 1
    del one
    gc.collect()
    overwritten += [bytes([255]) * len(content) for _ in range(20)]
    lane.run()
    same(lane.outputs["y"], wanted)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(30))
def test_values_dropped_in_any_order(seed: int) -> None:
    """The values that are left keep their content."""
    alive = every_kind()
    names = sorted(alive)
    random.Random(seed).shuffle(names)
    for name in names:
        item, holds = alive.pop(name)
        assert holds(item), name
        if hasattr(item, "close") and seed % 2:
            item.close()
        del item
        gc.collect()
        junk = [np.full(500, 7, np.float32) for _ in range(8)]
        assert all(holds(item) for item, holds in alive.values()), (name, len(junk))
