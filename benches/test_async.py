"""The cost of a run from asyncio: `Session.run_async` against `Session.run` in a thread pool."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from time import perf_counter_ns as clock
from typing import Any

import pytest

import zrt
from benches.support import Compare, Entry, Group, Workload, assert_same, contender

CONTENDERS = ("executor", "run_async", "in_pool", "in_pool_not_spinning")


@pytest.fixture(
    scope="module",
    params=[("add", 1), ("add", 16), ("cnn", 1), ("cnn", 16)],
    ids=lambda param: "-".join(map(str, param)),
)
def group(request: pytest.FixtureRequest, model_file: Callable[[str], Path]) -> Iterator[Group]:
    """`run_async` on zrt's threads, and on ONNX Runtime's if the session has a pool of two."""
    model, together = request.param
    work = Workload.of(model_file(model))
    alone = work.session()
    pooled, sleeping = (
        zrt.Session(work.path, zrt.SessionOptions(intra_op_num_threads=2, intra_op_allow_spinning=spins))
        for spins in (True, False)
    )

    def entry(key: str, start: Callable[[], Awaitable[Any]]) -> Entry:
        async def many(runs: int) -> int:
            begun = clock()
            for first in range(0, runs, together):
                if together == 1:
                    await start()
                else:
                    await asyncio.gather(*(start() for _ in range(min(together, runs - first))))
            return clock() - begun

        async def one() -> Any:
            return await start()

        def check() -> None:
            assert_same(runner.run(one()), work.expected)

        return Entry(contender(key, lambda runs: runner.run(many(runs))), check)

    with asyncio.Runner() as runner, ThreadPoolExecutor(os.cpu_count()) as threads:
        starts: tuple[Callable[[], Awaitable[Any]], ...] = (
            lambda: runner.get_loop().run_in_executor(threads, alone.run, work.inputs),
            lambda: alone.run_async(work.inputs),
            lambda: pooled.run_async(work.inputs),
            lambda: sleeping.run_async(work.inputs),
        )
        yield Group(f"async: {model}, {together} at once, one run", list(map(entry, CONTENDERS, starts)))


@pytest.mark.parametrize("way", CONTENDERS)
def test_run(compare: Compare, group: Group, way: str) -> None:
    compare(group, way)
