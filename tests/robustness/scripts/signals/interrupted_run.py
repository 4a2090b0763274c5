"""Ctrl-C during a run: the run finishes, KeyboardInterrupt is raised, and all objects still work."""

import os
import signal
import sys
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
for turns in (made.inputs["turns"], feeds["turns"]):
    turns[...] = 300_000
for output in (made.outputs["end"], result):
    output[...] = 0
under_way = {"lane": made.audit, "binding": bound.outputs}[sys.argv[1]]


def interrupt():
    # Send the signal during a run: then every other use of its objects raises BusyError.
    while True:
        try:
            under_way()
        except zrt.errors.BusyError:
            break
    os.kill(os.getpid(), signal.SIGINT)


thread = threading.Thread(target=interrupt)
try:
    thread.start()
    # Until the signal hits a run.
    while True:
        try:
            made.run() if sys.argv[1] == "lane" else bound.run()
        except zrt.errors.BusyError:
            # The other thread was using the object.
            continue
except KeyboardInterrupt:
    print("interrupted")
thread.join()

same(made.outputs["end"] if sys.argv[1] == "lane" else result, [300_000] * 2)
for each in (made.inputs["turns"], feeds["turns"]):
    each[...] = 3
made.run()
bound.run()
same(made.outputs["end"], [3, 3])
same(result, [3, 3])
same(one.run(feeds)[0], [3, 3])
print("usable")
