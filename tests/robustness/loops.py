"""Models whose runs take long or do not end, for the scripts of test_bridge.py; argument 1 is the thread count."""

import sys

import numpy as np

import zrt
from tests.support import models
from tests.support.models import ENDLESS, LOOP

LOOPING = models.parsed(LOOP)
FOREVER = {"n": ENDLESS, "x": np.ones(4, np.float32)}
A_WHILE = {"n": np.array(20_000), "x": np.ones(4, np.float32)}
THREADS = int(sys.argv[1])
SETTINGS = zrt.SessionOptions(intra_op_num_threads=THREADS, log_severity_level="FATAL")


def looping():
    """A session of the model, which doubles x n times: `FOREVER` until it is terminated, `A_WHILE` for milliseconds."""
    return zrt.Session(LOOPING, SETTINGS)
