"""The next input of a lane: a port that moves to the slot that has it, or a copy into the lane's own memory."""

from __future__ import annotations

import numpy as np
import pytest

import zrt
from benches.models import build
from benches.support import ONE_THREAD, Compare, Entry, Group
from zrt.bench.harness import python_contender

SIZES = {"1 KiB": 1 << 10, "16 KiB": 1 << 14, "256 KiB": 1 << 18}


@pytest.fixture(scope="module", params=SIZES)
def group(request: pytest.FixtureRequest) -> Group:
    session = zrt.Session(build.relay(SIZES[request.param]), zrt.SessionOptions(**ONE_THREAD))
    [name], [output] = session.input_names, session.output_names
    ring = np.arange(4 * SIZES[request.param] // 4, dtype=np.float32).reshape(4, -1)
    moving, own = session.lane(inputs={name: list(ring)}), session.lane()
    slots, view = moving.slots, own.inputs[name]
    numbers = {"move": 0, "copy": 0}

    def move() -> None:
        numbers["move"] = number = (numbers["move"] + 1) & 3
        slots[name] = number

    def copy() -> None:
        numbers["copy"] = number = (numbers["copy"] + 1) & 3
        view[...] = ring[number]

    def moved_run() -> None:
        move()
        moving.run()

    def copied_run() -> None:
        copy()
        own.run()

    def check() -> None:
        for way, run, lane in (("move", moved_run, moving), ("copy", copied_run, own)):
            for _ in range(4):
                run()
                assert np.array_equal(lane.inputs[name], ring[numbers[way]])
                expected = session.run({name: ring[numbers[way]]})[0]
                assert np.array_equal(lane.outputs[output], expected)

    each = {"copy": copy, "move": move, "copy and run": copied_run, "move and run": moved_run}
    entries = [Entry(python_contender(key, key, function), check) for key, function in each.items()]
    return Group(f"slots: {request.param}", entries)


@pytest.mark.parametrize("way", ["copy", "move", "copy and run", "move and run"])
def test_next_input(compare: Compare, group: Group, way: str) -> None:
    compare(group, way)
