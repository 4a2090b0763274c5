"""A fork while a loop waits for runs: the parent's runs complete, and the child has loops and runs of its own."""

from __future__ import annotations

import asyncio
import faulthandler
import os

import numpy as np

import tests.robustness.prologue  # noqa: F401
from tests.robustness.loops import A_WHILE, looping

one = looping()


def child():
    faulthandler.dump_traceback_later(60, exit=True)
    mine = looping()

    async def main():
        return await asyncio.gather(*(mine.run_async(A_WHILE) for _ in range(10)))

    for [result] in asyncio.run(main()):
        assert result.tolist() == [np.inf] * 4


async def main():
    for _ in range(5):
        tasks = [asyncio.create_task(one.run_async(A_WHILE)) for _ in range(10)]
        await asyncio.sleep(0)
        forked = os.fork()
        if forked == 0:
            try:
                child()
            except BaseException:
                os._exit(1)
            os._exit(0)
        assert os.waitstatus_to_exitcode(os.waitpid(forked, 0)[1]) == 0
        for [result] in await asyncio.gather(*tasks):
            assert result.tolist() == [np.inf] * 4


asyncio.run(main())
