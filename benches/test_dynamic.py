"""The cost of a `DynamicRuntime`: finding a lane for known shapes, making one for new shapes, serving both."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import cycle
from pathlib import Path
from typing import Any

import pytest

import zrt
from benches.support import (
    Array,
    Compare,
    Entry,
    Feeds,
    Group,
    Workload,
    assert_fills,
    assert_same,
    ort_session,
)
from zrt.bench.harness import python_contender

BATCHES = (1, 2, 4, 8)
LOOK_UPS = ("own_dict", "hit_dict", "hit_tuples", "hit_lists", "hit_among_16")
SERVERS = ("hit", "session_run", "ort_run", "miss")


def _shape(size: int) -> tuple[int, ...]:
    return size, 1, 28, 28


@pytest.fixture(scope="module")
def look_ups(model_file: Callable[[str], Path]) -> Group:
    """Ways to look up an existing lane by its shapes; a dictionary of the caller is the yardstick."""
    work = Workload.of(model_file("cnn"), {"image": _shape(8)})
    dynamic, full = zrt.DynamicRuntime(work.session()), zrt.DynamicRuntime(work.session())
    key = _shape(8)
    lane = dynamic.lane({"image": key})
    own = {key: lane}
    full.prebuild({"image": _shape(size)} for size in range(1, 17))
    work.fill(lane)
    work.fill(full.lane({"image": key}))
    sizes = cycle(range(1, 17))
    spellings = {size: {"image": _shape(size)} for size in range(1, 17)}

    def among_16() -> zrt.Lane:
        return full.lane(spellings[next(sizes)])

    return Group(
        "dynamic: finding a lane",
        [
            _look_up("own_dict", work, own.__getitem__, key),
            _look_up("hit_dict", work, dynamic.lane, {"image": key}),
            _look_up("hit_tuples", work, dynamic.lane, (key,)),
            _look_up("hit_lists", work, dynamic.lane, {"image": list(key)}),
            Entry(
                python_contender("hit_among_16", "hit_among_16", among_16),
                lambda: _check(full.lane({"image": key}), work),
            ),
        ],
    )


def _look_up(key: str, work: Workload, find: Callable[[Any], zrt.Lane], shapes: Any) -> Entry:
    return Entry(python_contender(key, key, find, shapes), lambda: _check(find(shapes), work))


def _check(lane: zrt.Lane, work: Workload) -> None:
    assert_fills(lane, lane.run, work.expected)


@pytest.fixture(scope="module")
def servers(model_file: Callable[[str], Path]) -> Group:
    """One request after another, of 1, 2, 4 and 8 images in turn: arrays in, fresh arrays out."""
    works = [Workload.of(model_file("cnn"), {"image": _shape(size)}) for size in BATCHES]
    session, theirs = works[0].session(), ort_session(works[0].path)
    warm, small = zrt.DynamicRuntime(session), zrt.DynamicRuntime(session, max_buckets=1)
    warm.prebuild(work.shapes for work in works)
    return Group(
        "dynamic: serving a request",
        [
            _server("hit", works, lambda feeds: _through(warm, feeds)),
            _server("session_run", works, session.run),
            _server("ort_run", works, lambda feeds: theirs.run(None, feeds)),
            _server("miss", works, lambda feeds: _through(small, feeds)),
        ],
    )


def _through(dynamic: zrt.DynamicRuntime, feeds: Feeds) -> list[Array]:
    """Serves as a server would: find the lane of the request's shape, write the request, copy the result."""
    image = feeds["image"]
    lane = dynamic.lane({"image": image.shape})
    lane.inputs["image"][...] = image
    lane.run()
    return [lane.outputs["logits"].copy()]


def _server(key: str, works: Sequence[Workload], answer: Callable[[Feeds], list[Array]]) -> Entry:
    requests: Iterator[Feeds] = cycle([work.inputs for work in works])

    def serve() -> list[Array]:
        return answer(next(requests))

    def check() -> None:
        for work in works:
            assert_same(answer(work.inputs), work.expected)

    return Entry(python_contender(key, key, serve), check)


@pytest.mark.parametrize("way", LOOK_UPS)
def test_look_up(compare: Compare, look_ups: Group, way: str) -> None:
    compare(look_ups, way)


@pytest.mark.parametrize("way", SERVERS)
def test_serve(compare: Compare, servers: Group, way: str) -> None:
    compare(servers, way)
