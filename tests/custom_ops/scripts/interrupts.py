"""Ctrl-C at any moment of `compute` raises KeyboardInterrupt out of the run, and later runs are right."""

import sys
import time

import tests.robustness.prologue  # noqa: F401
from tests.custom_ops.support import ONE, Op, X, load
from tests.support.interrupts import Storm

sys.setswitchinterval(1e-5)


class Busy(Op):
    def work(self, context):
        context.inputs[0].sum()
        context.parallel_for(lambda index: index, 2)


session = load(ONE, Busy())
session.run([X])
hits = 0
end = time.monotonic() + 1.5
with Storm() as storm:
    while time.monotonic() < end or hits <= 10:
        try:
            storm.armed = True
            assert (session.run([X])[0] == X).all()
        except KeyboardInterrupt:
            hits += 1
        storm.armed = False
for _ in range(100):
    assert (session.run([X])[0] == X).all()
