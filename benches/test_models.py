"""The cost of one inference, from the C loop up to onnxruntime's `run`, on models from tiny to real."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from benches.support import WAYS, Compare, Group, Workload, every_way

WORKLOADS = ("add", "digits", "cnn", "relay-256KiB", "relay-4MiB", "relay-16MiB", "squeezenet")


@pytest.fixture(scope="module", params=WORKLOADS)
def group(request: pytest.FixtureRequest, model_file: Callable[[str], Path]) -> Group:
    return every_way(f"models: {request.param}, one run", Workload.of(model_file(request.param)))


@pytest.mark.parametrize("way", WAYS)
def test_run(compare: Compare, group: Group, way: str) -> None:
    compare(group, way)
