"""Daemon threads wait for runs, in event loops and without, when the process ends."""

import asyncio
import threading
import time

import zrt
from tests.robustness.loops import A_WHILE, FOREVER, looping
from tests.robustness.prologue import FEEDS

one = looping()


async def wait():
    await asyncio.gather(*(one.run_async(FOREVER) for _ in range(5)))


def forever():
    while True:
        try:
            one.submit(FEEDS and A_WHILE).result()
        except zrt.Error:
            pass


# Terminated runs raise in the daemon threads: ignore that.
threading.excepthook = lambda _: None
for target in (lambda: asyncio.run(wait()), forever, forever):
    threading.Thread(target=target, daemon=True).start()
time.sleep(0.1)
