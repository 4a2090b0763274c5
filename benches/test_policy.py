"""The effect of the memory of inputs and outputs on making a lane, on its first run and on later ones."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import TypeAlias

import pytest

import zrt
from benches.support import MIB, Compare, Entry, Group, Workload, assert_fills, fresh, lane_entry
from zrt.errors import LockError

POLICIES = {
    "plain": zrt.BufferPolicy.PLAIN,
    "balanced": zrt.BufferPolicy.BALANCED,
    "latency": zrt.BufferPolicy.LATENCY,
    "throughput_large": zrt.BufferPolicy.THROUGHPUT_LARGE,
    "pinned_host_candidate": zrt.BufferPolicy.PINNED_HOST_CANDIDATE,
}
MEMORIES = {name: zrt.LaneMemory.buffers(policy) for name, policy in POLICIES.items()} | {
    "ort_allocated": zrt.LaneMemory.allocated()
}
# Prefaulted and without huge pages, so that only the alignment differs. From 1 MiB on a buffer has pages of its own,
# which aligns it to 4096 bytes even if 64 are requested.
ALIGNMENTS = {
    name: zrt.LaneMemory.buffers(zrt.BufferPolicy(alignment, prefault=True))
    for name, alignment in {"aligned_64": 64, "aligned_4096": 4096, "aligned_2MiB": 2 * MIB}.items()
}
SIZES = ("relay-256KiB", "relay-4MiB", "relay-16MiB")

LaneOf: TypeAlias = "Callable[[], zrt.Lane]"


def make_group(
    question: str,
    path: Path,
    memories: Mapping[str, zrt.LaneMemory],
    entry_of: Callable[[str, LaneOf, Workload], Entry],
) -> Group:
    """An entry for each kind of memory that the system provides."""
    work = Workload.of(path)
    session = work.session()
    entries: list[Entry] = []
    missing: dict[str, str] = {}
    for name, memory in memories.items():
        lane_of = partial(work.lane, session, memory)
        try:
            lane_of().close()
        except LockError as error:
            missing[name] = str(error)
        else:
            entries.append(entry_of(name, lane_of, work))
    return Group(f"policy: {path.stem}, {question}", entries, missing)


@pytest.fixture(scope="module", params=SIZES)
def runs(request: pytest.FixtureRequest, model_file: Callable[[str], Path]) -> Group:
    return make_group("one run", model_file(request.param), MEMORIES, run_entry)


@pytest.fixture(scope="module", params=SIZES)
def alignments(request: pytest.FixtureRequest, model_file: Callable[[str], Path]) -> Group:
    return make_group("one run by alignment", model_file(request.param), ALIGNMENTS, run_entry)


@pytest.fixture(scope="module", params=SIZES[1:])
def first_runs(request: pytest.FixtureRequest, model_file: Callable[[str], Path]) -> Group:
    return make_group("first run of a new lane", model_file(request.param), MEMORIES, first_run_entry)


@pytest.fixture(scope="module", params=SIZES[1:])
def makings(request: pytest.FixtureRequest, model_file: Callable[[str], Path]) -> Group:
    return make_group("making a lane and filling its input", model_file(request.param), MEMORIES, making_entry)


def run_entry(key: str, lane_of: LaneOf, work: Workload) -> Entry:
    return lane_entry(key, lane_of(), work.expected)


def first_run_entry(key: str, lane_of: LaneOf, work: Workload) -> Entry:
    return Entry(fresh(key, lane_of, zrt.Lane.run), partial(check, lane_of, work))


def making_entry(key: str, lane_of: LaneOf, work: Workload) -> Entry:
    return Entry(fresh(key, lambda: None, lambda _: lane_of()), partial(check, lane_of, work))


def check(lane_of: LaneOf, work: Workload) -> None:
    lane = lane_of()
    assert_fills(lane, lane.run, work.expected)


@pytest.mark.parametrize("memory", MEMORIES)
def test_run(compare: Compare, runs: Group, memory: str) -> None:
    compare(runs, memory)


@pytest.mark.parametrize("alignment", ALIGNMENTS)
def test_alignment(compare: Compare, alignments: Group, alignment: str) -> None:
    compare(alignments, alignment)


@pytest.mark.parametrize("memory", MEMORIES)
def test_first_run(compare: Compare, first_runs: Group, memory: str) -> None:
    compare(first_runs, memory)


@pytest.mark.parametrize("memory", MEMORIES)
def test_make(compare: Compare, makings: Group, memory: str) -> None:
    compare(makings, memory)
