"""The cost of a run's `timeout`."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

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
    options = zrt.RunOptions(tag="one")

    def run(**limits: Any) -> Callable[..., Any]:
        return partial(work.session().run, **limits)

    lane = work.lane(work.session())
    limited = partial(lane.run, timeout=SECONDS)
    entries = [
        lane_entry("lane", work.lane(work.session()), work.expected),
        Entry(python_contender("lane, timeout", "", limited), lambda: assert_fills(lane, limited, work.expected)),
        call_entry("prepared", work.expected, work.session().prepare(work.inputs).run),
        call_entry("prepared, timeout", work.expected, work.session().prepare(work.inputs).run, None, SECONDS),
        call_entry("run", work.expected, work.session().run, work.inputs),
        call_entry("run, timeout", work.expected, run(timeout=SECONDS), work.inputs),
        call_entry("run, options", work.expected, run(options=options), work.inputs),
        call_entry("run, options and timeout", work.expected, run(options=options, timeout=SECONDS), work.inputs),
    ]
    return Group("deadlines: add, one run", entries)


@pytest.mark.parametrize("limit", ["", ", timeout"])
@pytest.mark.parametrize("way", WAYS)
def test_timeout(compare: Compare, group: Group, way: str, limit: str) -> None:
    compare(group, way + limit)


@pytest.mark.parametrize("limit", [", options", ", options and timeout"])
def test_timeout_with_options(compare: Compare, group: Group, limit: str) -> None:
    compare(group, "run" + limit)
