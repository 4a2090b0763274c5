"""The cost of one image in batches of 1, 2, 4 and 8."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from benches.support import Compare, Entry, Group, Workload, call_entry, lane_entry, ort_session, per_item

BATCHES = (1, 2, 4, 8)
WAYS = ("lane", "session_run", "ort_run")


@pytest.fixture(scope="module", params=["digits", "cnn"])
def group(request: pytest.FixtureRequest, model_file: Callable[[str], Path]) -> Group:
    path = model_file(request.param)
    entries: list[Entry] = []
    for size in BATCHES:
        work = Workload.of(path, {"image": _shape(path, size)})
        batches = [
            lane_entry(f"lane-{size}", work.lane(work.session()), work.expected),
            call_entry(f"session_run-{size}", work.expected, work.session().run, work.inputs),
            call_entry(f"ort_run-{size}", work.expected, ort_session(path).run, None, work.inputs),
        ]
        entries += [replace(entry, contender=per_item(entry.contender, size)) for entry in batches]
    return Group(f"batch: {request.param}, one image", entries)


def _shape(path: Path, size: int) -> tuple[int, ...]:
    """The shape of a batch of this many images."""
    return (size, *Workload.of(path).shapes["image"][1:])


@pytest.mark.parametrize("size", BATCHES)
@pytest.mark.parametrize("way", WAYS)
def test_batch(compare: Compare, group: Group, way: str, size: int) -> None:
    compare(group, f"{way}-{size}")
