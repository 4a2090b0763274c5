"""Loads and runs a model with a verbose log: argv[1] says whether zrt or ONNX Runtime prints it."""

import contextlib
import sys

import numpy as np

import zrt
from tests.support import models
from zrt._native import bridge

logger = None
if sys.argv[1] == "zrt":
    # After the Python half has ended, C prints every line.
    bridge._at_exit()
    logger = "anyone"
zrt.Environment("same", "verbose", logger)
zrt.Session(models.add(["n"]), zrt.SessionOptions(intra_op_num_threads=1))
zrt.infer(models.gather(), [np.array([0])])
with contextlib.suppress(zrt.Error):
    zrt.Session(models.gather()).run([np.array([9])])
