"""Read a dial 100 times a second and move a valve to it. Where the model is late, the last reading counts.

python control_loop.py --ticks 100
"""

from __future__ import annotations

import argparse
import gc
import itertools
import time
from collections.abc import Iterator
from importlib.resources import as_file, files

import numpy as np

import zrt

PERIOD = 0.01  # seconds
SPEED = 0.02  # of the valve: the most that it moves in a period


def camera() -> Iterator[np.ndarray]:
    """Pictures of a dial with one digit, each for 50 periods: handwritten digits that ship with zrt."""
    with as_file(files("zrt.models") / "digits.npz") as file, np.load(file) as digits:
        images = (digits["images"] / 16).astype(np.float32)
    for image in itertools.cycle(images):
        yield from itertools.repeat(image, 50)


class Valve:
    """Stands in for a motor; 0 is closed, 1 is open."""

    position = 0.0

    def move(self, goal: float) -> None:
        self.position += min(SPEED, max(-SPEED, goal - self.position))


def control(lane: zrt.Lane, valve: Valve, ticks: int, deadline: float) -> int:
    """Runs that many periods and returns in how many of them the model was late."""
    late, goal, due = 0, 0.0, time.monotonic()
    for tick, picture in enumerate(itertools.islice(camera(), ticks)):
        lane.inputs["image"][...] = picture
        try:
            lane.run(timeout=deadline)
        except TimeoutError:
            late += 1  # the outputs are undefined: keep the goal
        else:
            goal = float(lane.outputs["probabilities"].argmax()) / 9
        valve.move(goal)
        if tick % 50 == 49:
            print(f"{(tick + 1) * PERIOD:4.1f} s: dial at {goal * 9:.0f}, valve at {valve.position:.2f}")
        due = max(due + PERIOD, time.monotonic())  # after a long period go on, without a hurry to catch up
        time.sleep(max(0.0, due - time.monotonic()))
    return late


def main() -> None:
    parser = argparse.ArgumentParser(description="Move a valve to the digit on a dial.")
    parser.add_argument("--ticks", type=int, default=1000, help="periods of 10 ms; default 1000")
    parser.add_argument("--deadline", type=float, default=0.005, help="seconds for a run; default 0.005")
    arguments = parser.parse_args()
    with as_file(files("zrt.models") / "digits.onnx") as model:
        session = zrt.Session(model, zrt.SessionOptions(intra_op_num_threads=1))
    lane = session.lane({"image": (1, 1, 8, 8)})
    lane.audit().require_zero_copy()
    lane.prime(3)  # the first runs take longer
    gc.freeze()
    gc.disable()  # no pause in a period: the loop makes no cycles of objects
    valve = Valve()
    try:
        late = control(lane, valve, arguments.ticks, arguments.deadline)
        print(f"late in {late} of {arguments.ticks} periods")
    finally:
        valve.position = 0.0  # closed, whatever ends the loop


if __name__ == "__main__":
    main()
