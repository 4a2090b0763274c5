"""Drops values of every kind in random order; the others keep their content."""

from __future__ import annotations

import gc
import random

import numpy as np

import tests.robustness.prologue  # noqa: F401
from tests.robustness.values import every_kind

for seed in range(30):
    alive = every_kind()
    names = sorted(alive)
    random.Random(seed).shuffle(names)
    for name in names:
        item, holds = alive.pop(name)
        assert holds(item), name
        if hasattr(item, "close") and seed % 2:
            item.close()
        del item
        gc.collect()
        junk = [np.full(500, 7, np.float32) for _ in range(8)]
    assert all(holds(item) for item, holds in alive.values())
