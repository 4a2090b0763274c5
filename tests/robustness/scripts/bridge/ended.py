"""The process ends while runs are in progress; the arguments after the first say who holds their futures."""

import sys

from tests.robustness.loops import FOREVER, looping

held = []
one = looping()


def hold_in_cycle(one):
    cycle = [one.submit(FOREVER), one]
    cycle.append(cycle)


HOLDERS = {
    "nobody": lambda one: one.submit(FOREVER),
    "a global": lambda one: held.append(one.submit(FOREVER)),
    "a cycle": hold_in_cycle,
}
for holder in sys.argv[2:] * 20:
    HOLDERS[holder](one)
watched = one.submit(FOREVER)
watched.add_done_callback(lambda done: print(type(done.exception()).__name__, flush=True))
del one
