"""Prints what hits of a `DynamicRuntime` keep allocated, the C functions they call, and the number of hits."""

import sys
from itertools import repeat

import zrt
from tests.support import models
from zrt._native import library

calls = []


class Watched:
    """Stands for a C library and records the names that are looked up in it."""

    def __getattr__(self, name):
        calls.append(name)
        return getattr(table, name)


runtime = zrt.DynamicRuntime(zrt.Session(models.double()), 2)
runtime.lane({"x": (2, 4)}), runtime.lane({"x": (3, 4)})
table = library.api()
for module in [module for name, module in sys.modules.items() if name.startswith("zrt")]:
    if hasattr(module, "api"):
        module.api = Watched
    if hasattr(module, "lib"):
        module.lib = Watched()


def blocks(count):
    before = sys.getallocatedblocks()
    for _ in repeat(None, count):
        runtime.lane({"x": (2, 4)}, 1)
        runtime.lane({"x": (3, 4)})
    return sys.getallocatedblocks() - before


# Up to 256 CPython shares the int objects; the counter of hits is a block of its own above that.
blocks(300)
print(blocks(1000), blocks(0), calls, runtime.counters.hits)
