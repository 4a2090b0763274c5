"""Lets each binding of a move fail, in a lane with state: the lane goes on with the slots that it had."""

import numpy as np

import zrt
from tests.robustness.prologue import QUIET
from tests.support import models
from tests.support.faulty_library import MESSAGE, LibraryFaults

faults = LibraryFaults()
session = zrt.Session(
    models.parse("(float[2] x, float[2] s) => (float[2] y, float[2] t) { y = Add(x, s)  t = Identity(s) }"), QUIET
)
read = [np.full(2, number, np.float32) for number in (1, 2)]
written = [np.zeros(2, np.float32) for _ in range(2)]
lane = session.lane(inputs={"x": read}, outputs={"y": written}, state={"t": "s"})


def runs_on(slot):
    """Whether both bindings, which take turns, read and write this slot."""
    for _ in range(2):
        written[0][...] = written[1][...] = 0
        lane.run()
        if written[slot].tolist() != read[slot].tolist() or written[1 - slot].any():
            return False
    return True


assert runs_on(0)
for name in ("x", "y"):
    for number in (1, 2):
        with faults.between(number, number):
            try:
                lane.slots[name] = 1
            except zrt.Error as error:
                assert MESSAGE in str(error)
        assert faults.failed == ("BindInput" if name == "x" else "BindOutput")
        assert lane.slots[name] == 0
        assert runs_on(0), (name, number)
lane.slots["x"] = lane.slots["y"] = 1
assert runs_on(1)
