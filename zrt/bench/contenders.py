"""zrt's own contenders: the C loop, the lane, the prepared run and `Session.run`, all over one session."""

from __future__ import annotations

import numpy as np

from zrt._native import lib, status
from zrt._native.cdata import new_array
from zrt.bench import synthetic
from zrt.bench.given import Inputs
from zrt.bench.harness import Contender, python_contender
from zrt.lanes.lane import Lane
from zrt.lanes.ports import LaneMemory
from zrt.session.session import Session

YARDSTICK = "c_loop"


class CLoop:
    """The yardstick: the loop that a C program would run over a lane's binding, timed in C as well."""

    __slots__ = ("_lane", "_nanoseconds", "_reference")

    def __init__(self, lane: Lane) -> None:
        self._lane = lane
        self._reference = lane._reference
        self._nanoseconds = new_array("uint64_t", 1)

    def batch(self, runs: int) -> int:
        """Run `runs` times in a row; return the nanoseconds of all of them."""
        code = lib.zrt_plain_loop(self._reference, runs, self._nanoseconds)
        if code:
            raise status.to_error(code, "Lane")
        return int(self._nanoseconds[0])

    def times(self, runs: int) -> list[int]:
        """The nanoseconds of each run."""
        return [self.batch(1) for _ in range(runs)]

    def timer_times(self, runs: int) -> list[int]:
        """The nanoseconds that the clock reads around no call."""
        return [self.batch(0) for _ in range(runs)]


def bound_lane(session: Session, inputs: Inputs, memory: LaneMemory) -> Lane:
    """A lane that holds these inputs and ran once, so that inputs on a device are copied there."""
    # A trial run needs the values too: a voice detector, for example, takes certain sampling rates only.
    samples = {name: feed for name, feed in inputs.feeds.items() if isinstance(feed, np.ndarray)}
    lane = session.lane(inputs.shapes, inputs=memory, outputs=memory, samples=samples)
    for name, array in inputs.arrays.items():
        lane.inputs[name][...] = array
    lane.run()
    return lane


def stop_rebinding(lane: Lane) -> None:
    """Let the lane run over its last bound values from now on, as the C loop does, without copies to the device."""
    lane._open().pointer.input_count = 0


def own_contenders(session: Session, inputs: Inputs, memory: LaneMemory, lane: Lane) -> list[Contender]:
    """zrt's contenders, all of them over the inputs of `lane`.

    If the lane copies inputs to a device in each run, "lane" is a lane that does not, so that it does the same work
    as the C loop, and "lane_copying" is the lane itself, which does the same work as `Session.run`.
    """
    loop = CLoop(lane)
    feeds = {
        info.name: synthetic.as_feed(info, lane.inputs[info.name], inputs.shapes[info.name]) for info in session.inputs
    }
    prepared = session.prepare(feeds)
    lanes = [python_contender("lane", "lane", lane.run)]
    if lane.rebound:
        bare = bound_lane(session, inputs, memory)
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
