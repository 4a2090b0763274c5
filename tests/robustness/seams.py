"""Options, models and callbacks that test_seams.py and its scripts share."""

import logging
import threading

import numpy as np

import zrt
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
