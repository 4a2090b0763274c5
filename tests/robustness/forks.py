"""Objects from before a fork, and their use in the child; for the scripts of test_processes.py.

Argument 1 is the name of the use, argument 2 the number of threads of the sessions.
"""

from __future__ import annotations

import gc
import os
import signal
import sys
import time

import numpy as np

import zrt
from benches.models import build as bench
from tests.robustness.prologue import same

threads = int(sys.argv[2])
many = bench.cnn()
images = {"image": np.ones((4, 1, 28, 28), np.float32)}
one = zrt.Session(many, zrt.SessionOptions(intra_op_num_threads=threads))
made = one.lane({"image": (4, 1, 28, 28)})
made.inputs["image"][...] = 1
bound = one.binding()
bound.bind_input("image", images["image"])
bound.bind_output("logits")
view = made.outputs["logits"]
value = zrt.Value.allocate((4,), np.float32, one.allocator())
wanted = one.run(images)[0]
made.run()
bound.run()


def in_child():
    """Uses the objects in the child as argument 1 says."""
    use = sys.argv[1]
    if use == "drop":
        globals().update(one=None, made=None, bound=None, view=None, value=None)
        gc.collect()
    elif use == "close":
        for owner in (value, bound, made, one):
            owner.close()
    elif use == "look":
        view.sum(), value.numpy(), made.audit(), repr(one)
        bound.outputs()
    elif use == "own":
        with zrt.Session(many, zrt.SessionOptions(intra_op_num_threads=threads)) as own:
            same(own.run(images)[0], wanted)
            mine = own.lane({"image": (4, 1, 28, 28)})
        mine.run()
        del mine
        gc.collect()
    elif use == "own, kept":
        global kept
        kept = zrt.Session(many, zrt.SessionOptions(intra_op_num_threads=threads))
        same(kept.run(images)[0], wanted)
    elif use == "run":
        same(one.run(images)[0], wanted)
        made.run()
        bound.run()
        one.lane({"image": (1, 1, 28, 28)}).run()
    elif use == "fork":
        ended = os.fork()
        if ended:
            assert os.waitpid(ended, 0)[1] == 0


def wait(process):
    """Waits for a child, which must exit with status 0 within a minute."""
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        ended, code = os.waitpid(process, os.WNOHANG)
        if ended:
            assert code == 0, f"the forked process ended with {code}"
            return
        time.sleep(0.005)
    os.kill(process, signal.SIGKILL)
    raise AssertionError("the forked process hangs")
