"""zrt's own contenders: the C loop, the lane, the prepared run and `Session.run`, all over one session."""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np

from zrt._native import lib, status
from zrt._native.cdata import new_array
from zrt.bench import synthetic
from zrt.bench.harness import Contender, python_contender
from zrt.lanes.lane import Lane
from zrt.lanes.ports import LaneMemory
from zrt.session.session import Session
from zrt.values.symbolic_shapes import Shape

YARDSTICK = "c_loop"

Inputs: TypeAlias = "dict[str, np.ndarray[Any, Any]]"


class CLoop:
    """The yardstick: what a C program would write, over the binding of a lane. Its clock is C's as well."""

    __slots__ = ("_lane", "_nanoseconds", "_reference")

    def __init__(self, lane: Lane) -> None:
        self._lane = lane
        self._reference = lane._reference
        self._nanoseconds = new_array("uint64_t", 1)

    def batch(self, runs: int) -> int:
        """The nanoseconds that `runs` runs in a row take."""
        code = lib.zrt_plain_loop(self._reference, runs, self._nanoseconds)
        if code:
            raise status.to_error(code, "Lane")
        return int(self._nanoseconds[0])

    def times(self, runs: int) -> list[int]:
        """The nanoseconds of each run."""
        return [self.batch(1) for _ in range(runs)]

    def timer_times(self, runs: int) -> list[int]:
        """What the clock reads where nothing runs."""
        return [self.batch(0) for _ in range(runs)]


def bound_lane(session: Session, inputs: Inputs, memory: LaneMemory, wanted: dict[str, Shape]) -> Lane:
    """A lane that holds these inputs, and that ran once: whatever goes to a device is there."""
    lane = session.lane(wanted, inputs=memory, outputs=memory)
    for name, array in inputs.items():
        lane.inputs[name][...] = array
    lane.run()
    return lane


def stop_rebinding(lane: Lane) -> None:
    """From here on the lane runs over what it last bound, as the C loop does: nothing is copied to the device."""
    lane._open().pointer.input_count = 0


def own_contenders(
    session: Session, inputs: Inputs, memory: LaneMemory, wanted: dict[str, Shape], lane: Lane
) -> list[Contender]:
    """zrt's contenders, all of them over the inputs of `lane`.

    Where the lane copies inputs to a device in each run, "lane" is one that does not, which is the same work as
    the C loop's, and "lane_copying" is the lane itself, whose work is that of `Session.run`.
    """
    loop = CLoop(lane)
    feeds = {info.name: synthetic.as_feed(info, lane.inputs[info.name], wanted[info.name]) for info in session.inputs}
    prepared = session.prepare(feeds)
    lanes = [python_contender("lane", "lane", lane.run)]
    if lane.rebound:
        bare = bound_lane(session, inputs, memory, wanted)
        stop_rebinding(bare)
        lanes = [
            python_contender("lane", "lane", bare.run),
            python_contender("lane_copying", "lane, copying inputs", lane.run),
        ]
    return [
        Contender(YARDSTICK, "C loop", loop.batch, loop.times),
        *lanes,
        python_contender("prepared_run", "prepared run", prepared.run),
        python_contender("session_run", "Session.run", session.run, feeds),
    ]
