"""Prints by how many bytes the process grows over 2000 sessions; argument 1 is the thread count."""

import gc
import sys

import zrt
from tests.robustness.prologue import FEEDS, lane, session
from zrt.bench.machine import resident_bytes as resident


def turns(number):
    options = zrt.SessionOptions(intra_op_num_threads=int(sys.argv[1]))
    for _ in range(number):
        with session(options) as one:
            one.run(FEEDS)
            lane(one).run()
    gc.collect()


turns(500)
before = resident()
turns(2000)
print(resident() - before)
