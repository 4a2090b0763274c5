"""For each seed: makes everything and drops it in its own order, some closed first, some in cycles."""

import gc
import random
import sys

import tests.robustness.prologue  # noqa: F401
from tests.robustness.objects import Knot, objects, works

first = int(sys.argv[1])
gc.disable()
# The collections below leave out what exists now: there is much of it, and nothing of it is dropped.
gc.collect()
gc.freeze()
for seed in range(first, first + 40):
    chance = random.Random(seed)
    held = objects()
    order = list(held)
    chance.shuffle(order)
    while order:
        names = [order.pop() for _ in range(min(len(order), chance.choice((1, 1, 2, 3))))]
        gone = [held.pop(name)[0] for name in names]
        for item in gone:
            if hasattr(item, "close") and chance.random() < 0.3:
                item.close()
        if chance.random() < 0.5:
            Knot(*gone)
        del gone, item
        if chance.random() < 0.3:
            gc.collect(chance.choice((0, 1, 2)))
        for name in chance.sample(order, min(3, len(order))):
            works(*held[name])
    gc.collect()
    print(seed)
