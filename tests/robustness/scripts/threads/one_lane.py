"""During a run every other use of a lane raises BusyError; in a race each run is whole or refused."""

from __future__ import annotations

import threading

import zrt
from tests.robustness.prologue import same
from tests.robustness.race import counting, race

made = counting.lane(outputs=zrt.LaneMemory.left())
made.inputs["turns"][...] = 2**62
chosen = zrt.RunOptions()
outcome = []


def for_ever():
    while not outcome:
        try:
            made.run_with(chosen)
        except zrt.errors.BusyError:
            # The other thread was using the lane.
            continue
        except zrt.errors.TerminatedError as error:
            outcome.append(error)


thread = threading.Thread(target=for_ever)
thread.start()


def refused(use):
    try:
        use()
    except zrt.errors.BusyError:
        return True


while not refused(made.audit):
    pass
for use in (
    made.run,
    lambda: made.run_with(zrt.RunOptions()),
    lambda: made.prime(3),
    made.audit,
    lambda: made.outputs["end"],
    made.run_with_allocator_stats,
):
    assert refused(use)
chosen.terminate()
thread.join()
assert len(outcome) == 1
made.inputs["turns"][...] = 500
made.run()
same(made.outputs["end"], [500, 500])

# Each view belongs to one run: later runs must not change it.
kept = []


def run(turn):
    while True:
        try:
            return made.run()
        except zrt.errors.BusyError:
            continue


def read(turn):
    view = made.outputs["end"]
    same(view, [500, 500])
    kept.append(view)


counts = race(*[run] * 6, read, read, turns=100)
assert counts[:6] == [100] * 6
made.inputs["turns"][...] = 7
made.run()
same(made.outputs["end"], [7, 7])
for view in kept:
    same(view, [500, 500])
