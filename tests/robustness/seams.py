"""Options, models and callbacks that test_seams.py and its scripts share."""

import logging
import threading

import numpy as np

import zrt
from tests.robustness.sums import FEEDS
from tests.support import models

W = np.arange(1024, dtype=np.float32)
WEIGHTED = models.parse("(float[1024] x) => (float[1024] y) { y = Add(x, w) }", w=W)
LOGGED = logging.getLogger("zrt.test")
LOGGED.propagate = False
LOGGED.setLevel("DEBUG")
LOGGED.addHandler(logging.NullHandler())


def factory(work):
    """A thread factory."""
    return threading.Thread(target=work)


def own_threads(**fields):
    """Session options with threads made by `factory`."""
    return zrt.SessionOptions(intra_op_num_threads=3, thread_factory=factory, **fields)


def called_back(session, act):
    """The result or exception of `act`, called in a future's callback on a thread of zrt's."""
    outcomes, done = [], threading.Event()

    def call(_):
        try:
            # The callback of a future that is already done runs in the thread that adds it.
            if threading.current_thread().name == "zrt-run":
                outcomes.append(act())
        except BaseException as error:
            outcomes.append(error)
        done.set()

    while not outcomes:
        done.clear()
        future = session.submit(FEEDS)
        future.add_done_callback(call)
        assert done.wait(60)
    return outcomes[0]
