"""In a forked child the futures of the parent fail and sessions of its own run; the parent is not affected."""

import asyncio
import os
import sys

import numpy as np

import zrt
from tests.robustness.forking import fork
from tests.robustness.loops import A_WHILE, FOREVER, looping
from tests.robustness.prologue import same

one = looping()
runs = [one.submit(A_WHILE) for _ in range(20)]
endless = one.submit(FOREVER)


def child():
    error = endless.exception(10)
    assert type(error) is zrt.errors.UnsupportedError, error
    assert "forked" in str(error)
    for run in (one.run, one.submit, lambda feeds: asyncio.run(one.run_async(feeds))):
        try:
            run(A_WHILE)
        except zrt.errors.ForkedError:
            continue
        raise AssertionError("the session of the parent ran")
    own = looping()
    same(own.submit(A_WHILE).result(30)[0], [np.inf] * 4)
    same(asyncio.run(own.run_async(A_WHILE))[0], [np.inf] * 4)
    own.submit(FOREVER).cancel()


for end in (sys.exit, os._exit) * 2:
    fork(child, end=end)
assert not endless.done()
endless.cancel()
for run in runs:
    same(run.result(60)[0], [np.inf] * 4)
