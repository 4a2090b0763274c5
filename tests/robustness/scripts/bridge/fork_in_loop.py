"""A fork while a loop waits for runs: the parent's runs complete, and the child has loops and runs of its own."""

import asyncio
import os

import numpy as np

from tests.robustness.forking import fork
from tests.robustness.loops import A_WHILE, looping
from tests.robustness.prologue import same

one = looping()


async def ten(session):
    return await asyncio.gather(*(session.run_async(A_WHILE) for _ in range(10)))


def check(runs):
    for [result] in runs:
        same(result, [np.inf] * 4)


async def main():
    for _ in range(5):
        runs = asyncio.create_task(ten(one))
        # The task starts, and then its runs.
        for _ in range(2):
            await asyncio.sleep(0)
        fork(lambda: check(asyncio.run(ten(looping()))), end=os._exit)
        check(await runs)


asyncio.run(main())
