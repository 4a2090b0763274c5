"""A third thread ends the profiling of a session that two threads run."""

from __future__ import annotations

import os
import sys

import zrt
from tests.robustness.prologue import ADD, FEEDS
from tests.robustness.race import race

os.chdir(sys.argv[1])
for _ in range(10):
    one = zrt.Session(ADD, zrt.SessionOptions(profile_file_prefix="trace", intra_op_num_threads=1))
    race(
        lambda turn: one.run(FEEDS),
        lambda turn: one.run(FEEDS),
        lambda turn: one.end_profiling() if turn % 100 == 50 else None,
        turns=200,
        errors=(),
    )
    one.close()
