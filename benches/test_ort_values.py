"""What `OrtValue`s cost: the drop-in for onnxruntime beside the official package.

A value of 4 floats is made, exported, read, written and bound; and two values take turns as the input and the output of
a binding, as in a loop whose result is its next input.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any, TypeAlias

import numpy as np
import onnx
import pytest

from benches.models import build
from benches.support import DROP_IN, Compare, Entry, Group, ort_session
from zrt.bench.harness import python_contender

PACKAGES = {"official": "onnxruntime", "drop_in": DROP_IN}
ONES = np.ones(4, np.float32)

# A call, and what it has done: an array of ones.
Timed: TypeAlias = tuple[Callable[[], Any], Callable[[], Any]]


def allocated(ort: Any) -> Any:
    """A value in memory that ONNX Runtime allocates."""
    value = ort.OrtValue.ortvalue_from_shape_and_type([4], np.float32)
    value.update_inplace(ONES)
    return value


def making(call: Callable[[], Any]) -> Timed:
    """A call that returns a value, or an array."""
    return call, lambda: np.asarray(call())


def writing(ort: Any) -> Timed:
    """A write of all elements of a value."""
    value = allocated(ort)
    value.update_inplace(ONES * 0)
    return lambda: value.update_inplace(ONES), value.numpy


def binding_input(ort: Any, session: Any) -> Timed:
    """The binding of an input; the other one is 0."""
    binding, value = session.io_binding(), allocated(ort)
    binding.bind_cpu_input("y", ONES * 0)
    binding.bind_output("z")

    def result() -> Any:
        session.run_with_iobinding(binding)
        return binding.get_outputs()[0].numpy()

    return lambda: binding.bind_ortvalue_input("x", value), result


def binding_output(ort: Any, session: Any) -> Timed:
    """The binding of the output."""
    binding, value = session.io_binding(), allocated(ort)
    value.update_inplace(ONES * 0)
    for name, array in {"x": ONES, "y": ONES * 0}.items():
        binding.bind_cpu_input(name, array)

    def result() -> Any:
        session.run_with_iobinding(binding)
        return value.numpy()

    return lambda: binding.bind_ortvalue_output("z", value), result


def loop(ort: Any, session: Any) -> Timed:
    """A run whose input is the output of the run before; each adds 1."""
    values, binding = [allocated(ort), allocated(ort)], session.io_binding()
    binding.bind_cpu_input("y", ONES)

    def step() -> None:
        values.reverse()
        binding.bind_ortvalue_input("x", values[0])
        binding.bind_ortvalue_output("z", values[1])
        session.run_with_iobinding(binding)

    return step, lambda: values[1].numpy() - values[0].numpy()


CALLS: dict[str, Callable[[Any, Any], Timed]] = {
    "ortvalue_from_numpy": lambda ort, _: making(lambda: ort.OrtValue.ortvalue_from_numpy(ONES)),
    "ortvalue_from_shape_and_type": lambda ort, _: (
        lambda: ort.OrtValue.ortvalue_from_shape_and_type([4], np.float32),
        lambda: allocated(ort).numpy(),
    ),
    "from_dlpack": lambda ort, _: making(lambda: ort.OrtValue.from_dlpack(ONES)),
    "to_dlpack": lambda ort, _: (lambda value: making(lambda: np.from_dlpack(value)))(allocated(ort)),
    "numpy": lambda ort, _: making(allocated(ort).numpy),
    "update_inplace": lambda ort, _: writing(ort),
    "bind_ortvalue_input": binding_input,
    "bind_ortvalue_output": binding_output,
    "a step of a loop": loop,
}


@pytest.fixture(scope="module", params=list(CALLS))
def calls(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Group:
    path = tmp_path_factory.mktemp("values") / "add.onnx"
    onnx.save_model(build.add(), path)

    def entry(key: str, package: str) -> Entry:
        call, result = CALLS[request.param](import_module(package), ort_session(path, package))

        def check() -> None:
            call()
            assert np.array_equal(result(), ONES)

        return Entry(python_contender(key, key, call), check)

    return Group(f"OrtValue: {request.param}", [entry(*item) for item in PACKAGES.items()])


@pytest.mark.parametrize("way", PACKAGES)
def test_calls(compare: Compare, calls: Group, way: str) -> None:
    compare(calls, way)
