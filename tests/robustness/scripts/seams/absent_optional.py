"""An absent optional output is None however the run is made."""

from __future__ import annotations

import asyncio

import numpy as np

import tests.robustness.prologue  # noqa: F401
import zrt
from tests.values.test_optional import SEQUENCE, TENSOR, makes

for kind in (TENSOR, SEQUENCE):
    made = makes(kind)
    for fill in (False, True) * 3:
        feeds = {"fill": np.array(fill), "x": np.ones(2, np.float32)}
        found = [made.run(feeds), made.prepare(feeds).run(), made.submit(feeds).result(60)]
        found.append(asyncio.run(made.run_async(feeds)))
        found.append(made.submit(feeds, ["o"], zrt.RunOptions()).result(60))
        assert all((each[0] is None) != fill for each in found), found
