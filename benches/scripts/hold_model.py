"""Loads the model in argument 1 through the cache in argument 2, runs it, and prints the process's share of memory.

It waits for a line before it measures, and for another before it ends: so several processes hold the model at a time.
"""

import sys

import numpy as np

import zrt

session = zrt.Session(sys.argv[1], zrt.SessionOptions(intra_op_num_threads=1, cache=sys.argv[2] or False))
session.run([np.ones((1, int(sys.argv[3])), np.float32)])
print(session.cache, flush=True)
sys.stdin.readline()
with open("/proc/self/smaps_rollup", encoding="ascii") as file:
    print(next(line for line in file if line.startswith("Pss:")).split()[1], flush=True)
sys.stdin.readline()
