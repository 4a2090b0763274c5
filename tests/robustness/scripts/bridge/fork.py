"""In a forked child the futures of the parent fail and sessions of its own run; the parent is not affected."""

from __future__ import annotations

import asyncio
import faulthandler
import os
import sys

import numpy as np

import tests.robustness.prologue  # noqa: F401
import zrt
from tests.robustness.loops import A_WHILE, FOREVER, looping

one = looping()
runs = [one.submit(A_WHILE) for _ in range(20)]
endless = one.submit(FOREVER)
for number in range(4):
    forked = os.fork()
    if forked == 0:
        faulthandler.dump_traceback_later(60, exit=True)
        error = endless.exception(10)
        assert type(error) is zrt.errors.UnsupportedError, error
        assert "forked" in str(error)
        mine = looping()
        assert mine.submit(A_WHILE).result(30)[0].tolist() == [np.inf] * 4
        assert asyncio.run(mine.run_async(A_WHILE))[0].tolist() == [np.inf] * 4
        ended = mine.submit(FOREVER)
        ended.cancel()
        if number % 2:
            os._exit(0)
        sys.exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(forked, 0)[1]) == 0
assert not endless.done()
endless.cancel()
for run in runs:
    assert run.result(60)[0].tolist() == [np.inf] * 4
