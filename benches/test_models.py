"""The cost of one inference, from the C loop up to onnxruntime's `run`, on models from tiny to real."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import zrt
from benches.support import (
    Compare,
    Entry,
    Group,
    Workload,
    assert_fills,
    c_loop_entry,
    call_entry,
    lane_entry,
    ort_session,
)
from zrt.bench.harness import python_contender

WORKLOADS = ("add", "digits", "cnn", "relay-256KiB", "relay-4MiB", "relay-16MiB", "squeezenet")
WAYS = ("c_loop", "lane", "prepared_run", "session_run", "ort_run_with_iobinding", "ort_run")


@pytest.fixture(scope="module", params=WORKLOADS)
def group(request: pytest.FixtureRequest, model_file: Callable[[str], Path]) -> Group:
    work = Workload.of(model_file(request.param))
    session = work.session()
    lane = work.lane(session)
    theirs = ort_session(work.path)
    prepared = session.prepare(work.inputs)
    return Group(
        f"models: {request.param}, one run",
        [
            c_loop_entry("c_loop", lane, work.expected),
            lane_entry("lane", lane, work.expected),
            call_entry("prepared_run", work.expected, prepared.run),
            call_entry("session_run", work.expected, session.run, work.inputs),
            _iobinding(theirs, lane, work),
            call_entry("ort_run", work.expected, theirs.run, None, work.inputs),
        ],
    )


def _iobinding(theirs: Any, lane: zrt.Lane, work: Workload) -> Entry:
    """onnxruntime's own binding over the memory of the lane."""
    binding = theirs.io_binding()
    for name, array in lane.inputs.items():
        binding.bind_input(name, "cpu", 0, array.dtype, array.shape, array.ctypes.data)
    for name, array in lane.outputs.items():
        binding.bind_output(name, "cpu", 0, array.dtype, array.shape, array.ctypes.data)
    key, call = "ort_run_with_iobinding", theirs.run_with_iobinding
    return Entry(
        python_contender(key, key, call, binding), lambda: assert_fills(lane, lambda: call(binding), work.expected)
    )


@pytest.mark.parametrize("way", WAYS)
def test_run(compare: Compare, group: Group, way: str) -> None:
    compare(group, way)
