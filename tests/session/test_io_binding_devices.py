"""`IoBinding` over memory of the tests' provider on a device: values of other sessions, released in any order."""

import gc
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import zrt
from tests.conftest import PluginDevices
from tests.support import models
from tests.support.arrays import on_host
from tests.support.bindings import bind
from zrt.errors import BusyError, UnsupportedError

Negate = Callable[..., zrt.Session]
Build = Callable[..., Any]


def on_device(session: zrt.Session, *numbers: float) -> zrt.Value:
    """A tensor in memory of the session's device; only the result keeps the session alive then."""
    array = np.array(numbers, np.float32)
    memory = session.placement().inputs[0].memory
    value = zrt.Value.allocate(array.shape, array.dtype, session.allocator(memory))
    zrt.copy(array, value)
    return value


@pytest.fixture
def bound(negate: Negate) -> zrt.IoBinding:
    """A binding after a run, whose input lies in the memory of a session that nothing else keeps alive."""
    session = negate()
    binding = bind(session, {"x": on_device(negate(), 1, 2)}, y=session.placement().outputs[0].memory)
    binding.run()
    return binding


class TestValueOfAnotherSession:
    """ORT frees such a value by the allocator of a session that must still be there."""

    def test_binding_goes_before_the_value(self, bound: zrt.IoBinding):
        del bound
        gc.collect()

    def test_bound_output_goes_after_the_binding(self, negate: Negate):
        binding = bind(negate(), {"x": on_device(negate(), 1, 2)}, y=on_device(negate(), 0, 0))
        binding.run()
        del binding
        gc.collect()

    def test_output_outlives_the_binding(self, bound: zrt.IoBinding):
        y = bound.outputs()["y"]
        del bound
        gc.collect()
        assert on_host(y) == [-1, -2]

    def test_other_input_releases_the_value(self, bound: zrt.IoBinding):
        bound.bind_input("x", np.array([3, 4], np.float32))
        gc.collect()
        bound.run()
        assert on_host(bound.outputs()["y"]) == [-3, -4]

    @pytest.mark.parametrize("keep_output", [False, True])
    def test_gc_releases_a_binding_in_a_cycle(self, bound: zrt.IoBinding, keep_output: bool):
        cycle: list[Any] = [bound, bound.outputs() if keep_output else None]
        cycle.append(cycle)
        del bound, cycle
        gc.collect()

    def test_close_releases_the_value(self, bound: zrt.IoBinding):
        y = bound.outputs()["y"]
        bound.close()
        gc.collect()
        assert on_host(y) == [-1, -2]


def test_output_that_is_fed_back_is_released_with_the_binding(negate: Negate):
    # The fixture unregisters the provider's library at the end, which raises while a session of it is alive.
    session = negate()
    binding = bind(session, {"x": on_device(session, 1, 2)}, y=session.placement().outputs[0].memory)
    binding.run()
    binding.bind_input("x", binding.outputs()["y"])
    binding.run()
    assert on_host(binding.outputs()["y"]) == [1, 2]


def test_array_of_the_host_is_copied_to_the_device_when_it_is_bound(negate: Negate):
    session = negate()
    x, y = np.array([1, 2], np.float32), np.zeros(2, np.float32)
    binding = bind(session, {"x": x}, y=y)
    x[:] = 9
    binding.run()
    assert y.tolist() == [-1, -2]
    assert binding.outputs()["y"].address == y.ctypes.data
    binding.bind_input("x", x)
    binding.run()
    assert y.tolist() == [-9, -9]


def test_output_of_a_node_on_the_cpu_lies_where_it_is_bound(build: Build, plugin: PluginDevices):
    """All inputs and outputs of the session are on the host, and the device computes in between."""
    model = build("(float[n] x) => (float[n] y) { a = Abs(x) b = Neg(a) y = Abs(b) }")
    session = zrt.Session(model, zrt.SessionOptions(log_severity_level="FATAL"), [plugin.own])
    x, y = np.array([1, -2], np.float32), np.zeros(2, np.float32)
    assert all(port.memory.is_host for port in (*session.placement().inputs, *session.placement().outputs))
    for place in (None, y, None):
        binding = bind(session, {"x": x}, y=place)
        binding.run()
        assert binding.outputs()["y"].memory.is_host
        assert binding.numpy()["y"].tolist() == [1, 2]
    binding = bind(session, {"x": x}, y=plugin.own.memory)
    binding.run()
    output = binding.outputs()["y"]
    assert output.memory.name == plugin.own.memory.name
    with pytest.raises(UnsupportedError, match="output 'y'"):
        binding.numpy()
    # Its memory is freed by an allocator of the session, which is there until then.
    del session, binding
    gc.collect()
    with pytest.raises(BusyError, match="'tests' is in use"):
        zrt.Environment().unregister_provider_library("tests")
    assert on_host(output) == [1, 2]


def test_sequence_on_a_device_cannot_be_read(plugin: PluginDevices):
    session = zrt.Session(models.to_sequence(), zrt.SessionOptions(log_severity_level="FATAL"), [plugin.own])
    binding = bind(session, {"x": np.zeros(2, np.float32)}, y=plugin.own.memory)
    binding.run()
    value = binding.outputs()["y"]
    for read in (value.to_list, value.elements):
        with pytest.raises(UnsupportedError, match="lies on ZrtTest:0"):
            read()
