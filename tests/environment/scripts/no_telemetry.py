"""Prints how many threads the environment, a session and a run start; the session has none of its own."""

import os

import numpy as np

import zrt
from tests.support import models, tasks
from zrt.environment import environment

# The thread that opens ONNX Runtime, and may start others, has not begun.
before = len(os.listdir("/proc/self/task"))
environment.current()
session = zrt.Session(models.add([4]), zrt.SessionOptions(intra_op_num_threads=1))
session.run([np.ones(4, np.float32)] * 2)
print(tasks.count() - before)
