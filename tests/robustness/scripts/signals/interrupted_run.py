"""Ctrl-C during a run of a lane and of a binding: KeyboardInterrupt is raised after it, and all objects still work."""

import os
import signal
import threading

import numpy as np

import zrt
from tests.robustness.prologue import same
from tests.robustness.race import counting
from tests.support.bindings import bind
from tests.support.lanes import run_on

signal.signal(signal.SIGINT, signal.default_int_handler)

one = counting()
feeds = {"turns": np.array(3), "start": np.zeros(2, np.float32)}
made = one.lane()
run_on(made, **feeds)
result = np.zeros(2, np.float32)
bound = bind(one, feeds, end=result)
# The first run of a binding checks in Python that all is bound: an interrupt there would come before the run.
bound.run()


def interrupt(look):
    # Send the signal during a run: then every other use of its objects raises BusyError.
    while True:
        try:
            look()
        except zrt.errors.BusyError:
            break
    os.kill(os.getpid(), signal.SIGINT)


for ran, look, turns, output in (
    (made, made.audit, made.inputs["turns"], made.outputs["end"]),
    (bound, bound.outputs, feeds["turns"], result),
):
    turns[...], output[...] = 300_000, 0
    thread = threading.Thread(target=interrupt, args=(look,))
    try:
        thread.start()
        # Until the signal hits a run.
        while True:
            try:
                ran.run()
            except zrt.errors.BusyError:
                # The other thread was using the object.
                continue
    except KeyboardInterrupt:
        print("interrupted")
    thread.join()
    same(output, [300_000] * 2)
    turns[...] = 3
    for each in (made, bound):
        each.run()
    same(made.outputs["end"], [3, 3])
    same(result, [3, 3])
    same(one.run(feeds)[0], [3, 3])
    print("usable")
