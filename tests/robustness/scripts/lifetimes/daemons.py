"""The interpreter ends while three daemon threads run what argument 1 says; argument 2 is the thread count."""

from __future__ import annotations

import sys
import threading

import numpy as np

import tests.robustness.prologue  # noqa: F401
import zrt
from benches.models import build as bench

work, threads = sys.argv[1], int(sys.argv[2])
options = zrt.SessionOptions(intra_op_num_threads=threads)
model = bench.relay(1 << 16)
owner = zrt.Session(model, options)
feed = {"x": np.zeros(1 << 14, np.float32)}
under_way = threading.Semaphore(0)


def run():
    mine = owner.lane()
    bound = owner.binding()
    bound.bind_input("x", feed["x"])
    bound.bind_output("y")
    prepared = owner.prepare(feed)
    chosen = zrt.RunOptions()
    for count in range(1 << 60):
        if work == "lane":
            mine.run()
        elif work == "session":
            owner.run(feed)
        elif work == "binding":
            bound.run()
            bound.outputs()
        elif work == "prepared":
            prepared.run()
        elif work == "new lane":
            owner.lane().run()
        elif work == "new session":
            zrt.Session(model, options).run(feed)
        else:
            mine.run_with(chosen)
            chosen.terminate()
            chosen.reset()
        if count == 3:
            under_way.release()


for _ in range(3):
    threading.Thread(target=run, daemon=True).start()
for _ in range(3):
    under_way.acquire()
print("done", flush=True)
