"""The effect of ONNX Runtime's CPU arena and memory pattern on a run; both are on by default."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

import zrt
from benches.support import Compare, Group, Workload, lane_entry

SETTINGS = {
    "arena_and_pattern": (True, True),
    "arena_only": (True, False),
    "pattern_only": (False, True),
    "neither": (False, False),
}
# If ORT allocates the outputs, each run takes their memory from the allocator too.
CASES = {
    "add": ("add", None),
    "cnn": ("cnn", None),
    "squeezenet": ("squeezenet", None),
    "relay-4MiB, output left to ORT": ("relay-4MiB", zrt.LaneMemory.left()),
}


@pytest.fixture(scope="module", params=CASES)
def group(request: pytest.FixtureRequest, model_file: Callable[[str], Path]) -> Group:
    model, outputs = CASES[request.param]
    work = Workload.of(model_file(model))
    entries = []
    for key, (arena, pattern) in SETTINGS.items():
        session = work.session(enable_cpu_mem_arena=arena, enable_mem_pattern=pattern)
        entries.append(lane_entry(key, work.lane(session, outputs=outputs), work.expected))
    return Group(f"options: {request.param}, one run", entries)


@pytest.mark.parametrize("setting", SETTINGS)
def test_run(compare: Compare, group: Group, setting: str) -> None:
    compare(group, setting)
