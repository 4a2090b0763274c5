"""Fixtures of the tests of the drop-in: the package under test, the official one or zrt's."""

from __future__ import annotations

import importlib
from typing import Any

import pytest

# The release of the official package that is the reference; others have other names and messages.
REFERENCE = "1.27."
PACKAGES = {"official": "onnxruntime", "zrt": "zrt.onnxruntime"}


def pytest_runtest_setup(item: pytest.Item) -> None:
    if item.get_closest_marker("official"):
        official = pytest.importorskip("onnxruntime", reason="the official package, to compare with, is not installed")
        if not official.__version__.startswith(REFERENCE):
            pytest.skip(f"the official package is {official.__version__}, and the reference is {REFERENCE}x")


@pytest.fixture(params=[pytest.param("official", marks=pytest.mark.official), "zrt"], scope="session")
def ort(request: pytest.FixtureRequest) -> Any:
    """The official package, which is the reference, and zrt's in its place: a test that takes it runs on both."""
    return importlib.import_module(PACKAGES[request.param])


@pytest.fixture(scope="session")
def state(ort: Any) -> Any:
    """`capi.onnxruntime_pybind11_state` of that package."""
    return importlib.import_module(f"{ort.__name__}.capi.onnxruntime_pybind11_state")
