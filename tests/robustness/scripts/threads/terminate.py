"""One RunOptions terminates the endless runs of four threads, which then work again."""

from __future__ import annotations

import threading

import numpy as np

import zrt
from tests.robustness.prologue import same
from tests.robustness.race import counting

feeds = {"turns": np.array(2**62), "start": np.zeros(2, np.float32)}
short = {"turns": np.array(3), "start": np.zeros(2, np.float32)}
made = counting.lane()
bound = counting.binding()
prepared = counting.prepare(feeds)
for name, feed in feeds.items():
    made.inputs[name][...] = feed
    bound.bind_input(name, feed)
bound.bind_output("end")
chosen = zrt.RunOptions()
ways = {
    "run": lambda: counting.run(feeds, options=chosen),
    "prepared": lambda: prepared.run(chosen),
    "lane": lambda: made.run_with(chosen),
    "binding": lambda: bound.run(chosen),
}
for _ in range(5):
    ended = []

    def run(way):
        try:
            way()
        except zrt.errors.TerminatedError:
            ended.append(way)

    threads = [threading.Thread(target=run, args=(way,)) for way in ways.values()]
    for thread in threads:
        thread.start()
    chosen.terminate()
    for thread in threads:
        thread.join()
    assert len(ended) == 4
    chosen.reset()
    same(counting.run(short, options=chosen)[0], [3, 3])
for name, feed in short.items():
    made.inputs[name][...] = feed
made.run()
same(made.outputs["end"], [3, 3])
