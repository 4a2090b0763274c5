"""Fixtures of the tests of the drop-in: the package under test, the official one or zrt's."""

from __future__ import annotations

import importlib
from typing import Any

import pytest

PACKAGES = {"official": "onnxruntime", "zrt": "zrt.onnxruntime"}


@pytest.fixture(params=[pytest.param("official", marks=pytest.mark.official), "zrt"], scope="session")
def ort(request: pytest.FixtureRequest) -> Any:
    """The official package, which is the reference, and zrt's in its place: a test that takes it runs on both."""
    return importlib.import_module(PACKAGES[request.param])


@pytest.fixture(scope="session")
def state(ort: Any) -> Any:
    """`capi.onnxruntime_pybind11_state` of that package."""
    return importlib.import_module(f"{ort.__name__}.capi.onnxruntime_pybind11_state")
