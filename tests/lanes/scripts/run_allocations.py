"""Prints the Python blocks that runs of lanes leave allocated, then their peak of traced memory."""

import sys
import tracemalloc
from itertools import repeat

import zrt
from tests.support import models


def blocks(call, count):
    before = sys.getallocatedblocks()
    for _ in repeat(None, count):
        call()
    return sys.getallocatedblocks() - before


def peak(call, count):
    tracemalloc.start()
    before, _ = tracemalloc.get_traced_memory()
    tracemalloc.reset_peak()
    for _ in repeat(None, count):
        call()
    _, highest = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return highest - before


def nothing():
    pass


plain = zrt.Session(models.add()).lane()
busiest = zrt.Session(models.mixed()).lane(synchronize=True, rebind_inputs=True)
left = zrt.Session(models.non_zero()).lane()
for measure in (blocks, peak):
    for call in (nothing, plain.run, busiest.run, left.run):
        measure(call, 10)
        print(measure(call, 1000), end=" ")
    print()
