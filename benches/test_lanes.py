"""The throughput of 1 and 2 lanes at the same time, each in a thread."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

import zrt
from benches.support import (
    ONE_THREAD,
    Compare,
    Entry,
    Group,
    Workload,
    c_loop_entry,
    calls_entry,
    lanes_entry,
    ort_session,
)

WAYS = ("c_loop", "lane_shared", "lane_replicated", "session_run", "ort_run")
COUNTS = (1, 2)


@pytest.fixture(scope="module", params=["add", "cnn", "squeezenet"])
def group(request: pytest.FixtureRequest, model_file: Callable[[str], Path]) -> Group:
    work = Workload.of(model_file(request.param))
    entries: list[Entry] = []
    for count in COUNTS:
        runtime = partial(zrt.Runtime, work.session(), count, shapes=work.shapes)
        replicated = zrt.Runtime.replicate(
            work.path, count, zrt.SessionOptions(**ONE_THREAD), share_weights=True, shapes=work.shapes
        )
        entries += [
            lanes_entry(f"c_loop-{count}", work, runtime(), c_loop_entry),
            lanes_entry(f"lane_shared-{count}", work, runtime()),
            lanes_entry(f"lane_replicated-{count}", work, replicated),
            calls_entry(f"session_run-{count}", work, count, work.session().run, work.inputs),
            calls_entry(f"ort_run-{count}", work, count, ort_session(work.path).run, None, work.inputs),
        ]
    return Group(f"lanes: {request.param}, one run, all threads counted", entries)


@pytest.mark.parametrize("count", COUNTS)
@pytest.mark.parametrize("way", WAYS)
def test_lanes(compare: Compare, group: Group, way: str, count: int) -> None:
    compare(group, f"{way}-{count}")
