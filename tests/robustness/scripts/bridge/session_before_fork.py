"""A session from before the fork refuses asynchronous runs in the child; one of the child has them."""

from __future__ import annotations

import asyncio
import faulthandler
import os
import sys

import numpy as np

import tests.robustness.prologue  # noqa: F401
import zrt
from tests.robustness.loops import A_WHILE, looping

one = looping()
assert one.submit(A_WHILE).result(60)[0].tolist() == [np.inf] * 4
forked = os.fork()
if forked == 0:
    faulthandler.dump_traceback_later(60, exit=True)
    for run in (one.run, one.submit, lambda feeds: asyncio.run(one.run_async(feeds))):
        try:
            run(A_WHILE)
        except zrt.errors.ForkedError:
            continue
        raise AssertionError("the session of the parent ran")
    mine = looping()
    assert mine.submit(A_WHILE).result(30)[0].tolist() == [np.inf] * 4
    assert asyncio.run(mine.run_async(A_WHILE))[0].tolist() == [np.inf] * 4
    sys.exit(0)
assert os.waitstatus_to_exitcode(os.waitpid(forked, 0)[1]) == 0
