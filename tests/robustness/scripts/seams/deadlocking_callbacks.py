"""Callbacks on the bridge's thread that wait for another run raise; other calls work there."""

from __future__ import annotations

import asyncio

import numpy as np

import zrt
from tests.robustness.prologue import FEEDS, SUM, session
from tests.robustness.seams import LOGGED, called_back, own_threads

one = session()
for act in (
    lambda: asyncio.run(one.run_async(FEEDS)),
    lambda: one.submit(FEEDS).result(),
    lambda: one.submit(FEEDS).exception(),
):
    error = called_back(one, act)
    assert type(error) is zrt.errors.UnsupportedError, error
# Calls that do not wait for another run work there.
assert np.array_equal(called_back(one, lambda: session(own_threads(logger=LOGGED)).run(FEEDS))[0], SUM)
assert called_back(one, zrt.Environment.flush_log) is False
