"""The cost of a run's `timeout`."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

import zrt
from benches.support import Compare, Entry, Group, Workload, assert_fills, call_entry, lane_entry
from zrt.bench.harness import python_contender

WAYS = ("lane", "prepared", "run")
# Long enough that no run meets it.
SECONDS = 60.0


@pytest.fixture(scope="module")
def group(model_file: Callable[[str], Path]) -> Group:
    work = Workload.of(model_file("add"))
    session = work.session()
    lane, prepared, options = work.lane(session), session.prepare(work.inputs), zrt.RunOptions(tag="one")
    limited = partial(lane.run, timeout=SECONDS)
    limited_run = partial(session.run, options=options, timeout=SECONDS)
    entries = [
        lane_entry("lane", lane, work.expected),
        Entry(python_contender("lane, timeout", "", limited), lambda: assert_fills(lane, limited, work.expected)),
        call_entry("prepared", work.expected, prepared.run),
        call_entry("prepared, timeout", work.expected, prepared.run, None, SECONDS),
        call_entry("run", work.expected, session.run, work.inputs),
        call_entry("run, timeout", work.expected, partial(session.run, timeout=SECONDS), work.inputs),
        call_entry("run, options", work.expected, partial(session.run, options=options), work.inputs),
        call_entry("run, options and timeout", work.expected, limited_run, work.inputs),
    ]
    return Group("deadlines: add, one run", entries)


@pytest.mark.parametrize("limit", ["", ", timeout"])
@pytest.mark.parametrize("way", WAYS)
def test_timeout(compare: Compare, group: Group, way: str, limit: str) -> None:
    compare(group, way + limit)


@pytest.mark.parametrize("limit", [", options", ", options and timeout"])
def test_timeout_with_options(compare: Compare, group: Group, limit: str) -> None:
    compare(group, "run" + limit)
