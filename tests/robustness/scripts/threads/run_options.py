"""Threads run with options that other threads close, replace and terminate."""

from __future__ import annotations

import zrt
from tests.robustness.prologue import FEEDS, SUM, binding, lane, same, session
from tests.robustness.race import race

one = session()
made, bound, prepared = lane(one), binding(one), one.prepare(FEEDS)
current = [zrt.RunOptions()]


def replace(turn):
    former = current[0]
    current[0] = zrt.RunOptions(tag=str(turn))
    former.close()


def terminate(turn):
    current[0].terminate()
    current[0].reset()


counts = race(
    lambda turn: same(one.run(FEEDS, options=current[0])[0], SUM),
    lambda turn: made.run_with(current[0]),
    lambda turn: bound.run(current[0]),
    lambda turn: prepared.run(current[0]),
    replace,
    terminate,
    turns=2000,
    errors=(zrt.errors.ClosedError, zrt.errors.TerminatedError),
)
assert counts[4] == 2000
same(made.outputs["z"], SUM)
