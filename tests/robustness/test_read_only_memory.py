"""Read-only memory of the caller's is never written, not through an output that is an input as well either."""

import mmap
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import zrt
from tests.support import models
from tests.support.bindings import bind
from zrt.errors import ArgumentError, Error

Place = np.ndarray[Any, Any]


def over_bytes(path: Path) -> Place:
    return np.frombuffer(bytes(12), np.float32)


def mapped(path: Path) -> Place:
    """A write into this memory, or into that of `over_map`, crashes the process."""
    path.write_bytes(bytes(12))
    return np.memmap(path, np.float32, "r", shape=(3,))


def over_map(path: Path) -> Place:
    return np.frombuffer(mmap.mmap(-1, 4096, prot=mmap.PROT_READ), np.float32)[:3]


def over_memoryview(path: Path) -> Place:
    return np.asarray(memoryview(bytes(12)).cast("f"))


def of_dlpack(path: Path) -> Place:
    array = zrt.from_dlpack(over_bytes(path)).numpy()
    assert not array.flags.writeable
    return array


@pytest.fixture(params=[over_bytes, mapped, over_map, over_memoryview, of_dlpack])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Place]:
    array: Place = request.param(tmp_path / "weights.bin")
    yield array
    assert not array.any()


@pytest.fixture
def session() -> zrt.Session:
    """`y` is computed, and the output `x` is the input `x`."""
    return zrt.Session(models.passing_through())


def refuses_writes(thing: Any) -> None:
    """A value or an array takes no write."""
    if isinstance(thing, zrt.Value):
        assert not thing.writeable
        with pytest.raises(ArgumentError, match="read-only"):
            zrt.copy(np.ones(3, np.float32), thing)
        thing = thing.numpy()
    with pytest.raises(ValueError, match="read-only"):
        thing[...] = 1


TARGETS: dict[str, Callable[[zrt.Session, Any], object]] = {
    "copy": lambda session, place: zrt.copy(np.ones(3, np.float32), place),
    "a bound output": lambda session, place: session.binding().bind_output("y", place),
    "an output of a lane": lambda session, place: session.lane(outputs={"y": place}),
    "a slot of an output": lambda session, place: session.lane(outputs={"y": [np.zeros(3, np.float32), place]}),
}


def value_over_view(place: Place) -> zrt.Value:
    return zrt.Value.from_array(zrt.Value.from_array(place).numpy())


@pytest.mark.parametrize("over", [np.asarray, zrt.Value.from_array, value_over_view])
@pytest.mark.parametrize("write", TARGETS.values(), ids=TARGETS.keys())
def test_target_is_refused(session: zrt.Session, place: Place, write: Any, over: Any) -> None:
    with pytest.raises(ArgumentError, match="read-only"):
        write(session, over(place))


def test_views_of_a_value_and_a_lane_are_read_only(session: zrt.Session, place: Place) -> None:
    refuses_writes(zrt.Value.from_array(place))
    lane = session.lane(inputs={"x": place})
    lane.run()
    refuses_writes(lane.inputs["x"])
    refuses_writes(lane.outputs["x"])
    lane.outputs["y"][...] = 1


def test_binding_returns_an_input_read_only(session: zrt.Session, place: Place) -> None:
    binding = bind(session, {"x": place}, "x", "y")
    binding.run()
    refuses_writes(binding.outputs()["x"])
    refuses_writes(binding.numpy()["x"])
    binding.numpy()["y"][...] = 1


def test_run_values_returns_an_input_read_only(session: zrt.Session, place: Place) -> None:
    same, computed = session.run_values({"x": zrt.Value.from_array(place)})
    refuses_writes(same)
    computed.numpy()[...] = 1


def test_runs_return_arrays_of_their_own(session: zrt.Session, place: Place) -> None:
    for results in (session.run([place]), session.prepare([place]).run(), session.submit([place]).result()):
        for array in results:
            array[...] = 1


@pytest.mark.parametrize("junk", [b"x" * 100, bytearray(100), memoryview(bytes(100)), 5, None])
def test_value_is_made_of_no_memory_that_is_no_array(junk: Any) -> None:
    assert not hasattr(zrt.Value, "own")
    for make in (zrt.Value, zrt.Value.from_array, zrt.Value.from_buffer):
        with pytest.raises(Error):
            make(junk)
