"""Closes everything in random order: a closed object releases nothing that another one needs."""

import gc
import random

import tests.robustness.prologue  # noqa: F401
from tests.robustness.objects import objects, works

for seed in range(40):
    chance = random.Random(seed)
    held = objects()
    order = list(held)
    chance.shuffle(order)
    for number, name in enumerate(order):
        if hasattr(held[name][0], "close"):
            held[name][0].close()
        gc.collect(0)
        for other in order[number + 1 :]:
            if chance.random() < 0.2:
                works(*held[other])
