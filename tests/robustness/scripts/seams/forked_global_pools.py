"""After a fork, sessions of the global thread pools run in the child without the parent's threads."""

from __future__ import annotations

import asyncio
import faulthandler
import os
import sys

import numpy as np

import zrt
from tests.robustness.prologue import FEEDS, SUM, session
from tests.robustness.seams import LOGGED, factory, own_threads

zrt.Environment(logger=LOGGED, threading=zrt.ThreadingOptions(intra_op_num_threads=3, thread_factory=factory))
shared = zrt.SessionOptions(use_per_session_threads=False)
before = session(shared)
before.submit(FEEDS).result(60)
forked = os.fork()
if forked == 0:
    faulthandler.dump_traceback_later(60, exit=True)
    try:
        before.submit(FEEDS)
    except zrt.errors.ForkedError:
        pass
    else:
        raise AssertionError("the session of the parent ran")
    for one in (session(shared), session(own_threads())):
        assert np.array_equal(one.submit(FEEDS).result(30)[0], SUM)
        assert np.array_equal(asyncio.run(one.run_async(FEEDS))[0], SUM)
    zrt.ep_devices()
    sys.exit(0)
assert os.waitstatus_to_exitcode(os.waitpid(forked, 0)[1]) == 0
