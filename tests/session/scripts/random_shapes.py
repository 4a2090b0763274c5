"""Runs a model over 10,000 random shapes in bounded memory, and prints what the last 8,000 left.

Alone in a process: other tests in it would give memory back, or take some. The argument is the text of the model, whose
input x has two sizes. Prints the growth of the resident memory in bytes, and the bytes that the arena then holds.
"""

import gc
import sys

import numpy as np

import zrt
from tests.support import models
from zrt.bench.machine import resident_bytes

options = zrt.SessionOptions(intra_op_num_threads=1, log_severity_level="FATAL", memory="bounded")
bounded = zrt.Session(models.parsed(sys.argv[1]), options)
generator = np.random.default_rng(0)
seen = []
for index in range(10_000):
    count, width = generator.integers(1, 400, 2)
    bounded.run({"x": np.ones((count, width), np.float32)})
    if index in (1_999, 9_999):
        gc.collect()
        seen.append(resident_bytes())
print(seen[1] - seen[0], bounded.allocator().stats().total_allocated_bytes)
