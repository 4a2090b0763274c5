"""Prints by how many KiB the process grows over 3000 runs."""

import gc
import resource

import zrt
from tests.robustness.loops import THREADS
from tests.robustness.prologue import FEEDS, session

one = session(zrt.SessionOptions(intra_op_num_threads=THREADS, logger="x", log_severity_level="ERROR"))


def turns(number):
    for _ in range(number):
        runs = [one.submit(FEEDS) for _ in range(10)]
        runs[0].cancel()
        for run in runs[1:]:
            run.result()
    gc.collect()


turns(100)
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
turns(300)
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
