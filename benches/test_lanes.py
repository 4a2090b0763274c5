"""The throughput of 1 and 2 lanes at the same time, each in a thread."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import pytest

import zrt
from benches.support import (
    ONE_THREAD,
    Batch,
    Compare,
    Entry,
    Group,
    Workload,
    assert_fills,
    assert_same,
    in_threads,
    ort_session,
)
from zrt.bench import timing
from zrt.bench.contenders import CLoop

WAYS = ("c_loop", "lane_shared", "lane_replicated", "session_run", "ort_run")
COUNTS = (1, 2)
# Long compared with a switch between threads.
BATCH_NS = 20_000_000


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
            _lanes(f"c_loop-{count}", work, shared, lambda lane: CLoop(lane).batch),
            _lanes(f"lane_shared-{count}", work, shared, lambda lane: partial(timing.batch, lane.run, ())),
            _lanes(f"lane_replicated-{count}", work, replicated, lambda lane: partial(timing.batch, lane.run, ())),
            _calls(f"session_run-{count}", work, count, session.run, (work.inputs,)),
            _calls(f"ort_run-{count}", work, count, theirs.run, (None, work.inputs)),
        ]
    return Group(f"lanes: {request.param}, one run, all threads counted", entries, batch_ns=BATCH_NS)


def _lanes(key: str, work: Workload, runtime: zrt.Runtime, batch_of: Callable[[zrt.Lane], Batch]) -> Entry:
    """Each lane in a thread of its own."""
    for lane in runtime:
        work.fill(lane)
    together = in_threads(key, [batch_of(lane) for lane in runtime])

    def check() -> None:
        for lane in runtime:
            assert_fills(lane, lambda: together.batch(len(runtime)), work.expected)

    return Entry(together, check)


def _calls(
    key: str, work: Workload, count: int, call: Callable[..., Sequence[Any]], arguments: tuple[Any, ...]
) -> Entry:
    """The same call in this many threads."""
    together = in_threads(key, [partial(timing.batch, call, arguments)] * count)
    return Entry(together, lambda: assert_same(call(*arguments), work.expected))


@pytest.mark.parametrize("count", COUNTS)
@pytest.mark.parametrize("way", WAYS)
def test_lanes(compare: Compare, group: Group, way: str, count: int) -> None:
    compare(group, f"{way}-{count}")
