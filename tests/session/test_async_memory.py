"""Runs in the background whose thread lacks memory for a step of its own."""

import asyncio
import threading

import numpy as np
import pytest

import zrt
from tests.support import models
from zrt.session import async_runs

FEEDS = {"x": np.arange(4, dtype=np.float32), "y": np.ones(4, np.float32)}
SUM = FEEDS["x"] + FEEDS["y"]

pytestmark = pytest.mark.usefixtures("no_run_left")


@pytest.fixture
def add():
    return zrt.Session(models.add(["n"]), zrt.SessionOptions(intra_op_num_threads=1))


@pytest.mark.parametrize("step", ["begin", "settle"])
def test_run_ends_with_the_error_and_its_thread_goes_on(add, monkeypatch, step):
    lock, settle, failures = async_runs._lock, async_runs.RunFuture._settle, async_runs._MOST_WORKERS
    failed = []

    def fail():
        if threading.current_thread().name == "zrt-run" and len(failed) < failures:
            failed.append(step)
            raise MemoryError

    class Lock:
        def __enter__(self):
            fail()
            return lock.__enter__()

        def __exit__(self, *error):
            return lock.__exit__(*error)

    def settle_or_fail(self, results, error):
        if error is None:
            fail()
        settle(self, results, error)

    if step == "begin":
        monkeypatch.setattr(async_runs, "_lock", Lock())
    else:
        monkeypatch.setattr(async_runs.RunFuture, "_settle", settle_or_fail)
    for _ in range(failures):
        with pytest.raises(MemoryError):
            add.submit(FEEDS).result(60)
    np.testing.assert_array_equal(add.submit(FEEDS).result(60)[0], SUM)
    assert len(failed) == failures


def test_deadlines_hold_after_their_thread_lacked_memory(add, loop, endless, monkeypatch):
    complete_late, failed = async_runs._complete_late, []

    def fail_once():
        if not failed:
            failed.append(True)
            raise MemoryError
        return complete_late()

    stop = zrt.RunOptions()
    blockers = [loop.submit(endless, options=stop) for _ in range(async_runs._MOST_WORKERS)]
    monkeypatch.setattr(async_runs, "_complete_late", fail_once)
    # The first one starts the thread, or wakes it.
    for _ in range(2):
        with pytest.raises(TimeoutError, match="timeout"):
            add.submit(FEEDS, timeout=0.01).result(60)
    assert failed
    stop.terminate()
    for blocker in blockers:
        assert isinstance(blocker.exception(60), zrt.errors.TerminatedError)


def test_loop_that_lacks_memory_once_takes_all_runs(add, monkeypatch):
    async def main():
        loop, failed = asyncio.get_running_loop(), []
        call_soon = loop.call_soon_threadsafe

        def call_soon_or_fail(*arguments):
            if not failed:
                failed.append(True)
                raise MemoryError
            return call_soon(*arguments)

        monkeypatch.setattr(loop, "call_soon_threadsafe", call_soon_or_fail)
        async with asyncio.timeout(60):
            first = await add.run_async(FEEDS)
            return failed, first, await add.run_async(FEEDS)

    failed, *results = asyncio.run(main())
    assert failed
    for (result,) in results:
        np.testing.assert_array_equal(result, SUM)
