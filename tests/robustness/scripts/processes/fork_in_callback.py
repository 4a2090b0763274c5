"""A fork in the callback of a run in the background: the child waits for runs of its own."""

import os
import threading

import zrt
from tests.robustness.forking import fork
from tests.robustness.forks import images, many, one, wanted
from tests.robustness.prologue import same

done = threading.Event()


def in_child():
    own = zrt.Session(many, zrt.SessionOptions(intra_op_num_threads=1))
    same(own.submit(images).result()[0], wanted)


def callback(future):
    fork(in_child, end=os._exit)
    done.set()


one.submit(images).add_done_callback(callback)
assert done.wait(60)
