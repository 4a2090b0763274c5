"""The interpreter ends while daemon threads run. Arguments: the thread count of the sessions, and the kinds of work."""

import sys
import threading

import numpy as np

import tests.robustness.prologue  # noqa: F401
import zrt
from benches.models import build as bench
from tests.support.bindings import bind

options = zrt.SessionOptions(intra_op_num_threads=int(sys.argv[1]))
model = bench.relay(1 << 16)
owner = zrt.Session(model, options)
feed = {"x": np.zeros(1 << 14, np.float32)}
under_way = threading.Semaphore(0)


def terminated(lane):
    run_options = zrt.RunOptions()

    def run():
        lane.run_with(run_options)
        run_options.terminate()
        run_options.reset()

    return run


def bound():
    binding = bind(owner, feed, "y")
    return lambda: (binding.run(), binding.outputs())


# Makes what a thread needs, and returns its turn.
WORK = {
    "lane": lambda: owner.lane().run,
    "session": lambda: lambda: owner.run(feed),
    "binding": bound,
    "prepared": lambda: owner.prepare(feed).run,
    "new lane": lambda: lambda: owner.lane().run(),
    "new session": lambda: lambda: zrt.Session(model, options).run(feed),
    "terminated": lambda: terminated(owner.lane()),
}


def run(work):
    turn = WORK[work]()
    for count in range(1 << 60):
        turn()
        if count == 3:
            under_way.release()


threads = [threading.Thread(target=run, args=(work,), daemon=True) for work in sys.argv[2:] for _ in range(3)]
for thread in threads:
    thread.start()
for _ in threads:
    under_way.acquire()
print("done", flush=True)
