"""The throughput of 1 and 2 lanes at the same time, each in a thread."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

import zrt
from benches.support import (
    ONE_THREAD,
    THREADS_BATCH_NS,
    Compare,
    Entry,
    Group,
    Workload,
    calls_entry,
    lanes_entry,
    ort_session,
)
from zrt.bench import timing
from zrt.bench.contenders import CLoop

WAYS = ("c_loop", "lane_shared", "lane_replicated", "session_run", "ort_run")
COUNTS = (1, 2)


@pytest.fixture(scope="module", params=["add", "cnn", "squeezenet"])
def group(request: pytest.FixtureRequest, model_file: Callable[[str], Path]) -> Group:
    work = Workload.of(model_file(request.param))
    session, theirs = work.session(), ort_session(work.path)
    entries: list[Entry] = []
    for count in COUNTS:
        shared = zrt.Runtime(session, count, shapes=work.shapes)
        replicated = zrt.Runtime.replicate(
            work.path, count, zrt.SessionOptions(**ONE_THREAD), share_weights=True, shapes=work.shapes
        )
        entries += [
            lanes_entry(f"c_loop-{count}", work, shared, lambda lane: CLoop(lane).batch),
            lanes_entry(f"lane_shared-{count}", work, shared, lambda lane: partial(timing.batch, lane.run, ())),
            lanes_entry(f"lane_replicated-{count}", work, replicated, lambda lane: partial(timing.batch, lane.run, ())),
            calls_entry(f"session_run-{count}", work, count, session.run, work.inputs),
            calls_entry(f"ort_run-{count}", work, count, theirs.run, None, work.inputs),
        ]
    return Group(f"lanes: {request.param}, one run, all threads counted", entries, batch_ns=THREADS_BATCH_NS)


@pytest.mark.parametrize("count", COUNTS)
@pytest.mark.parametrize("way", WAYS)
def test_lanes(compare: Compare, group: Group, way: str, count: int) -> None:
    compare(group, f"{way}-{count}")
