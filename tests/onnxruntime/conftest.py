"""Fixtures of the tests of the drop-in: the package under test, the official one or zrt's."""

import importlib
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from functools import cache
from typing import Any

import pytest

from tests.onnxruntime.models import model
from tests.onnxruntime.packages import PACKAGES
from tests.support import models

# The release of the official package that is the reference, built for the CPU; others have other names and messages.
REFERENCE = "1.27."


def pytest_runtest_setup(item: pytest.Item) -> None:
    if item.get_closest_marker("official"):
        import onnxruntime

        version, device = onnxruntime.__version__, onnxruntime.get_device()
        if not version.startswith(REFERENCE) or device != "CPU":
            pytest.skip(
                f"the official package is {version} for the {device}; the reference is {REFERENCE}x for the CPU"
            )


@pytest.fixture(params=[pytest.param("official", marks=pytest.mark.official), "zrt"], scope="session")
def ort(request: pytest.FixtureRequest) -> Any:
    """The official package, which is the reference, and zrt's in its place: a test that takes it runs on both."""
    return importlib.import_module(PACKAGES[request.param])


@pytest.fixture(scope="session")
def state(ort: Any) -> Any:
    """`capi.onnxruntime_pybind11_state` of that package."""
    return importlib.import_module(f"{ort.__name__}.capi.onnxruntime_pybind11_state")


@pytest.fixture(scope="session")
def refused(ort: Any) -> Callable[..., AbstractContextManager[Any]]:
    """As `pytest.raises`, with words of zrt's message: the name of the culprit. The official package has messages of
    its own."""

    @contextmanager
    def refused(error: type[BaseException], *words: str) -> Iterator[Any]:
        with pytest.raises(error) as caught:
            yield caught
        if ort.__name__ != "onnxruntime":
            assert [word for word in words if word not in str(caught.value)] == [], str(caught.value)

    return refused


def quiet(ort: Any) -> Any:
    """Options of sessions that log nothing, with one thread."""
    options = ort.SessionOptions()
    options.log_severity_level = 4
    options.intra_op_num_threads = 1
    return options


@pytest.fixture
def options(ort: Any) -> Any:
    """New options of sessions that log nothing, with one thread."""
    return quiet(ort)


@pytest.fixture(scope="module")
def load(ort: Any) -> Callable[[bytes], Any]:
    """Loads a model with one thread, once for a module."""

    def load(data: bytes) -> Any:
        return ort.InferenceSession(data, quiet(ort), providers=["CPUExecutionProvider"])

    return cache(load)


@pytest.fixture
def session(load: Any) -> Any:
    """z = x + y for vectors."""
    return load(models.add(["n"]))


@pytest.fixture
def add(load: Any) -> Any:
    """z = x + y for arrays of shape [n, 4]."""
    return load(model())
