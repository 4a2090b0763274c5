"""Drops values of every kind in random order; the others keep their content."""

from __future__ import annotations

import gc
import random

import numpy as np

import tests.robustness.prologue  # noqa: F401
from tests.robustness.values import things

for seed in range(30):
    alive = things()
    names = sorted(alive)
    random.Random(seed).shuffle(names)
    for name in names:
        thing, holds = alive.pop(name)
        assert holds(thing), name
        if hasattr(thing, "close") and seed % 2:
            thing.close()
        del thing
        gc.collect()
        junk = [np.full(500, 7, np.float32) for _ in range(8)]
    assert all(holds(thing) for thing, holds in alive.values())
