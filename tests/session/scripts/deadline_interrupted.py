"""Ctrl-C during a run of the main thread with a timeout: the run ends, and KeyboardInterrupt is raised."""

from __future__ import annotations

import os
import signal
import threading
import time

import numpy as np

import zrt
from tests.support import models

signal.signal(signal.SIGINT, signal.default_int_handler)
counting = zrt.Session(models.counting_loop(), zrt.SessionOptions(intra_op_num_threads=1, log_severity_level="FATAL"))
short = {"turns": np.array(3), "start": np.zeros(2, np.float32)}
feeds = {"turns": np.array(2**40), "start": np.zeros(2, np.float32)}
lane = counting.lane()
binding = counting.binding()
for name, feed in feeds.items():
    lane.inputs[name][...] = feed
    binding.bind_input(name, feed)
binding.bind_output("end")
prepared = counting.prepare(feeds)
options = zrt.RunOptions(tag="one")

for run in (
    lambda: counting.run(feeds, timeout=100),
    lambda: lane.run(timeout=100),
    lambda: prepared.run(timeout=100),
    lambda: binding.run(timeout=100),
    lambda: counting.run(feeds, options=options, timeout=100),
):
    start = time.monotonic()
    sender = threading.Timer(0.1, os.kill, (os.getpid(), signal.SIGINT))
    sender.start()
    try:
        run()
    except KeyboardInterrupt:
        assert time.monotonic() - start < 60
        print("interrupted")
    sender.join()

assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
assert counting.run(short)[0].tolist() == [3, 3]
assert counting.run(short, options=options)[0].tolist() == [3, 3]
lane.inputs["turns"][...] = 3
lane.run()
assert lane.outputs["end"].tolist() == [3, 3]
# The handler outside such runs is the one that was there before.
try:
    os.kill(os.getpid(), signal.SIGINT)
    time.sleep(10)
except KeyboardInterrupt:
    print("usable")
