"""Ctrl-C at any bytecode of a policy raises KeyboardInterrupt, and the loaded session is released."""

import gc
import threading
import time

import zrt
from tests.robustness.prologue import ADD, FEEDS, QUIET, session
from tests.robustness.seams import own_threads
from tests.support.interrupts import Storm
from zrt.environment import devices
from zrt.session import async_runs

# Imported before the interrupts begin: Python leaves a module half imported when one comes during its import.
assert async_runs
assert devices


def first(devices, metadata):
    return devices[:1]


interrupted = 0
with Storm() as storm:
    while interrupted < 400:
        try:
            while True:
                # In each turn: in a callback of a weak reference, as in Python's import, an interrupt raises nothing.
                storm.armed = True
                zrt.Session(ADD, QUIET, first).submit(FEEDS).result(60)
                session(own_threads())
        except KeyboardInterrupt:
            interrupted += 1
while any(not thread.name.startswith(("MainThread", "zrt-")) for thread in threading.enumerate()):
    gc.collect()
    time.sleep(0.001)
