"""The process ends while a stopped loop has runs: ended ones, which it never took, and endless ones."""

import asyncio
import time

import tests.robustness.prologue  # noqa: F401
from tests.robustness.loops import A_WHILE, FOREVER, looping
from zrt.session import async_runs

one = looping()
loop = asyncio.new_event_loop()
tasks = [loop.create_task(one.run_async(A_WHILE)) for _ in range(3)]
loop.run_until_complete(asyncio.sleep(0))
while async_runs._under_way:
    time.sleep(0.001)
tasks.append(loop.create_task(one.run_async(FOREVER)))
loop.run_until_complete(asyncio.sleep(0))
for task in tasks:
    task._log_destroy_pending = False
print(time.monotonic())
