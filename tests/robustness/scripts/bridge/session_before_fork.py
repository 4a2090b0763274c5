"""A session from before the fork runs in the child, on a thread of the child."""

from __future__ import annotations

import asyncio
import faulthandler
import os
import sys

import numpy as np

import tests.robustness.prologue  # noqa: F401
from tests.robustness.loops import A_WHILE, looping

one = looping()
assert one.submit(A_WHILE).result(60)[0].tolist() == [np.inf] * 4
forked = os.fork()
if forked == 0:
    faulthandler.dump_traceback_later(60, exit=True)
    assert one.run(A_WHILE)[0].tolist() == [np.inf] * 4
    assert one.submit(A_WHILE).result(30)[0].tolist() == [np.inf] * 4
    assert asyncio.run(one.run_async(A_WHILE))[0].tolist() == [np.inf] * 4
    sys.exit(0)
assert os.waitstatus_to_exitcode(os.waitpid(forked, 0)[1]) == 0
