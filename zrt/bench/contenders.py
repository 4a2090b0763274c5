"""zrt's own contenders: the C loop, the lane, the prepared run and `Session.run`, each over a session of its own."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from zrt._native import lib, status
from zrt._native.cdata import new_array
from zrt.bench.harness import Contender, python_contender
from zrt.bench.inputs import Inputs
from zrt.lanes.lane import Lane
from zrt.lanes.ports import LaneMemory
from zrt.session.session import Session

YARDSTICK = "c_loop"


class CLoop:
    """The yardstick: the loop that a C program would run over a lane's binding, timed in C as well."""

    __slots__ = ("_lane", "_nanoseconds", "_reference")

    def __init__(self, lane: Lane) -> None:
        self._lane = lane
        self._reference = lane._open().reference
        self._nanoseconds = new_array("uint64_t", 1)

    def batch(self, runs: int) -> int:
        """Run `runs` times in a row; return the nanoseconds of all of them."""
        code = lib.zrt_plain_loop(self._reference, runs, self._nanoseconds)
        if code:
            raise status.to_error(code, "Lane")
        return int(self._nanoseconds[0])


@dataclass(frozen=True, slots=True)
class Subject:
    """A model to measure, its inputs and the memory of its lanes."""

    load: Callable[[], Session]
    """Loads the model once more, with the same settings."""
    inputs: Inputs
    memory: LaneMemory

    def lane(self, session: Session) -> Lane:
        """A lane that holds the inputs and ran once, so that inputs on a device are copied there."""
        arrays = {name: self.inputs.arrays[name] for name in session.input_names}
        # A trial run needs the values too: a voice detector, for example, takes certain sampling rates only.
        samples = {name: array for name, array in arrays.items() if not self.inputs.infos[name].element_type.packed}
        lane = session.lane(self.inputs.shapes, inputs=self.memory, outputs=self.memory, samples=samples)
        for name, array in arrays.items():
            lane.inputs[name][...] = array
        lane.run()
        return lane


def own_contenders(subject: Subject, lane: Lane) -> list[Contender]:
    """zrt's contenders: the C loop over `lane`, the others over sessions and inputs of their own.

    A session that several shared would keep its weights in the processor's caches for them, and not for others.

    If lanes copy inputs to a device in each run, "lane" is a lane that does not, so that it does the same work as the
    C loop, and "lane_copying" is one that does, as `Session.run`.
    """
    bare = subject.lane(subject.load())
    contenders = [Contender(YARDSTICK, "C loop", CLoop(lane).batch), python_contender("lane", "lane", bare.run)]
    if lane.rebound:
        stop_rebinding(bare)
        copying = subject.lane(subject.load())
        contenders.append(python_contender("lane_copying", "lane, copying inputs", copying.run))
    prepared = subject.load().prepare(subject.inputs.copy().feeds())
    return [
        *contenders,
        python_contender("prepared_run", "prepared run", prepared.run),
        python_contender("session_run", "Session.run", subject.load().run, subject.inputs.copy().feeds()),
    ]


def stop_rebinding(lane: Lane) -> None:
    """Let the lane run over its last bound values from now on, as the C loop does, without copies to the device."""
    handle = lane._open()
    handle.pointer.input_count = 0
