"""Forks while other threads run a lane and a binding: in the child, their runs are the parent's."""

import os
import threading

import numpy as np

import zrt
from tests.custom_ops.support import Op, build, options
from tests.robustness.forking import fork, refused
from tests.robustness.prologue import same
from tests.support.bindings import bind

begun, forked = threading.Semaphore(0), threading.Event()
# A lane runs once as it is made.
forked.set()


class Waiting(Op):
    """y = x, once the parent has forked."""

    def work(self, context):
        begun.release()
        forked.wait(60)
        context.output(0, (4,))[...] = context.inputs[0]


# An operator runs once at a time, so each has its own.
sessions = [
    zrt.Session(build("(float[4] x) => (float[4] y) { y = test.ops.Op(x) }"), options([Waiting()])) for _ in range(2)
]
lane, binding = sessions[0].lane(), bind(sessions[1], {"x": np.ones(4, np.float32)}, "y")
assert begun.acquire(timeout=60)
forked.clear()
uses = {
    "run": lane.run,
    "run, with options": lambda: lane.run_with(zrt.RunOptions()),
    "run, with a deadline": lambda: lane.run(timeout=60),
    "run of a binding": binding.run,
}
workers = [threading.Thread(target=run) for run in (lane.run, binding.run)]
for worker in workers:
    worker.start()
    assert begun.acquire(timeout=60)
try:
    fork(lambda: refused(uses), end=os._exit)
finally:
    forked.set()
    for worker in workers:
        worker.join()
same(binding.numpy()["y"], np.ones(4, np.float32))
