"""Eight threads run a lane of one session each."""

from __future__ import annotations

from tests.robustness.prologue import lane, same, session
from tests.robustness.race import race

one = session()


def own(number):
    mine = lane(one)

    def run(turn):
        mine.inputs["x"][...] = number * 1000 + turn
        mine.run()
        same(mine.outputs["z"], [number * 1000 + turn + 1] * 4)

    return run


assert race(*map(own, range(8)), turns=500, errors=()) == [500] * 8
