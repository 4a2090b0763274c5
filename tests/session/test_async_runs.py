"""Asynchronous runs: `Session.run_async` and `Session.submit`."""

import asyncio
import concurrent.futures
import gc
import inspect
import logging
import threading
import time
import weakref
from functools import partial

import numpy as np
import pytest

import zrt
from tests.support import models
from tests.support.interrupts import interrupt_at_start_of
from tests.support.models import LOOP
from tests.support.together import in_threads
from zrt import errors
from zrt.session import async_runs

FEEDS = {"x": np.arange(4, dtype=np.float32), "y": np.ones(4, np.float32)}
SUM = FEEDS["x"] + FEEDS["y"]

pytestmark = pytest.mark.usefixtures("no_run_left")


def quiet(threads):
    return zrt.SessionOptions(intra_op_num_threads=threads, log_severity_level="FATAL")


@pytest.fixture(params=[1, 2], ids=["no pool", "pool"])
def threads(request):
    """A session without a pool of threads, and one with a pool."""
    return request.param


@pytest.fixture
def add(threads):
    return zrt.Session(models.add(["n"]), quiet(threads))


@pytest.fixture
def loop(threads, build):
    return zrt.Session(build(LOOP), quiet(threads))


def test_run_async_and_submit_return_the_results_of_run(add):
    np.testing.assert_array_equal(asyncio.run(add.run_async(FEEDS))[0], SUM)
    future = add.submit(list(FEEDS.values()), ["z"])
    assert isinstance(future, concurrent.futures.Future)
    np.testing.assert_array_equal(future.result(60)[0], SUM)


CASES = {
    "left to ORT": (models.non_zero(), {"x": np.array([0, 1, 0, 3], np.float32)}),
    "passed through": (models.passing_through(), {"x": np.ones(3, np.float32)}),
    "mixed": (
        models.mixed(),
        {
            "f": np.ones((2, 3), np.float32),
            "i": np.ones((2, 3), np.int64),
            "b": np.ones((2, 3), bool),
            "h": np.ones((2, 3), np.float16),
            "u": np.ones((2, 3), np.uint8),
        },
    ),
    "strided": (models.add(["n"]), {"x": np.arange(8, dtype=np.float32)[::2], "y": np.ones(4, np.float32)}),
    "values": (models.add(["n"]), {"x": zrt.Value.from_array(FEEDS["x"]), "y": FEEDS["y"]}),
}


@pytest.mark.parametrize("case", CASES)
def test_results_are_those_of_run(case, threads):
    model, feeds = CASES[case]
    session = zrt.Session(model, quiet(threads))
    wanted = session.run(feeds)
    for results in (session.submit(feeds).result(60), asyncio.run(session.run_async(feeds))):
        assert len(results) == len(wanted)
        for result, right in zip(results, wanted, strict=True):
            assert result.dtype == right.dtype
            np.testing.assert_array_equal(result, right)


def test_model_with_a_wrong_output_shape_runs_again(build, threads):
    session = zrt.Session(build("(float[n] x) => (float[3] y) { y = Neg(x) }"), quiet(threads))
    for length in (5, 4):
        np.testing.assert_array_equal(session.submit([np.ones(length, np.float32)]).result(60)[0], -np.ones(length))


def test_sequences_come_as_lists(build, threads):
    session = zrt.Session(build("(float[n] x) => (seq(float[m]) s) { s = SequenceConstruct(x, x) }"), quiet(threads))
    [value] = session.submit([np.ones(2, np.float32)]).result(60)
    assert [tensor.tolist() for tensor in value] == [[1, 1]] * 2


def test_bad_arguments_raise_before_the_run(add):
    for feeds, error in (
        ({"x": FEEDS["x"]}, errors.ArgumentError),
        ({**FEEDS, "q": 1}, errors.UnknownNameError),
        ({**FEEDS, "x": np.ones(4)}, errors.DTypeError),
    ):
        with pytest.raises(error):
            add.submit(feeds)
        with pytest.raises(error):
            asyncio.run(add.run_async(feeds))
    with pytest.raises(errors.DTypeError, match="options"):
        add.submit(FEEDS, options={})
    assert not async_runs._under_way


def test_future_raises_the_errors_of_the_run(threads):
    session = zrt.Session(models.gather(), quiet(threads))
    feeds = [np.array([7], np.int64)]
    with pytest.raises(zrt.OrtError) as alone:
        session.run(feeds)
    future = session.submit(feeds)
    assert type(future.exception(60)) is type(alone.value)
    assert str(future.exception()) == str(alone.value)
    with pytest.raises(type(alone.value), match="indices"):
        asyncio.run(session.run_async(feeds))


def test_runs_are_on_threads_of_zrt(threads):
    logger = logging.Logger("where")
    records = []
    logger.addHandler(handler := logging.Handler())
    handler.emit = records.append
    session = zrt.Session(models.gather(), zrt.SessionOptions(intra_op_num_threads=threads, logger=logger))
    failed = session.submit([np.array([7], np.int64)], options=zrt.RunOptions(tag="here"))
    assert failed.exception(60) is not None
    assert zrt.Environment.flush_log(60)
    [record] = [record for record in records if record.logid.endswith("here")]
    assert record.threadName == "zrt-run"
    assert record.thread != threading.get_ident()


@pytest.mark.gpu
def test_run_on_a_device():
    session = zrt.Session(models.add(["n"]), providers=["cuda"])
    wanted = session.run(FEEDS)[0]
    for result in (session.submit(FEEDS).result(60)[0], asyncio.run(session.run_async(FEEDS))[0]):
        np.testing.assert_array_equal(result, wanted)


def test_thousands_of_runs_at_once(add):
    runs = [add.submit({"x": np.full(4, n, np.float32), "y": FEEDS["y"]}) for n in range(1500)]
    for n, run in enumerate(runs):
        np.testing.assert_array_equal(run.result(60)[0], np.full(4, n + 1))

    async def gather():
        return await asyncio.gather(
            *(add.run_async({"x": np.full(4, n, np.float32), "y": FEEDS["y"]}) for n in range(1500))
        )

    for n, [result] in enumerate(asyncio.run(gather())):
        np.testing.assert_array_equal(result, np.full(4, n + 1))


def test_submit_never_runs_on_the_calling_thread(loop, endless):
    """With any number of runs under way, the submitting thread runs none itself."""
    stop = zrt.RunOptions()
    begun = time.monotonic()
    runs = [loop.submit(endless, options=stop) for _ in range(1200)]
    assert not any(run.done() for run in runs)
    stop.terminate()
    for run in runs:
        assert type(run.exception(60)) is errors.TerminatedError
    assert time.monotonic() - begun < 60


def test_cancel_ends_the_run(loop, endless, eventually):
    future = loop.submit(endless)
    assert not future.done()
    assert future.cancel()
    assert future.cancelled()
    with pytest.raises(concurrent.futures.CancelledError):
        future.result()
    # `concurrent.futures.wait` returns only after the run has ended.
    assert concurrent.futures.wait([future], 60).done == {future}
    eventually(lambda: not async_runs._under_way)


def test_run_that_is_cancelled_before_it_begins_is_never_made(add, loop, endless):
    recorder = add.record(8)
    blockers = [loop.submit(endless) for _ in range(async_runs._MOST_WORKERS)]
    cancelled = [add.submit(FEEDS) for _ in range(4)]
    assert all(future.cancel() for future in cancelled)
    last = add.submit(FEEDS)
    for blocker in blockers:
        blocker.cancel()
    np.testing.assert_array_equal(last.result(60)[0], SUM)
    assert concurrent.futures.wait(cancelled, 60).done == {*cancelled}
    assert len(recorder.runs) == 1


def test_cancel_of_a_completed_future_changes_nothing(add):
    future = add.submit(FEEDS)
    future.result(60)
    assert not future.cancel()
    np.testing.assert_array_equal(future.result()[0], SUM)


def test_cancelled_task_ends_its_run(loop, endless, eventually):
    async def main():
        task = asyncio.create_task(loop.run_async(endless))
        await asyncio.sleep(0.01)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.01):
                await loop.run_async(endless)
        with pytest.raises(ZeroDivisionError):
            await fail_beside()

    async def fail_beside():
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(loop.run_async(endless))
                await asyncio.sleep(0.01)
                _ = 1 / 0
        except ExceptionGroup as errors:
            # Not `except*`: before 3.11.4 Python puts what is raised there into a group again.
            raise errors.exceptions[0] from None

    asyncio.run(main())
    eventually(lambda: not async_runs._under_way)


@pytest.mark.parametrize("known", [False, True])
def test_closed_coroutine_ends_its_run_and_logs_no_error(loop, endless, eventually, known):
    """asyncio logs the exception of a future that nobody took, which the loop knows before the end or not."""
    running, logged = asyncio.new_event_loop(), []
    running.set_exception_handler(lambda _, context: logged.append(context))
    coroutine = loop.run_async(endless, timeout=0.01 if known else None)

    async def drop():
        future = coroutine.send(None)
        [run] = async_runs._under_way
        while known and not future.done():
            await asyncio.sleep(0.001)
        coroutine.close()
        eventually(lambda: not async_runs._under_way)
        # The loop takes the end of the run, which is alive.
        await asyncio.sleep(0.01)
        del run, future
        gc.collect()

    running.run_until_complete(drop())
    running.close()
    assert not logged


def test_loop_closed_during_a_run(loop, eventually):
    """The run continues to its end, and its results are dropped."""
    running = asyncio.new_event_loop()
    task = running.create_task(loop.run_async({"n": np.array(200_000), "x": np.ones(4, np.float32)}))
    running.run_until_complete(asyncio.sleep(0))
    assert async_runs._under_way
    running.close()
    eventually(lambda: not async_runs._under_way)
    # asyncio logs that a dropped task was pending.
    task._log_destroy_pending = False
    del task


def test_run_ends_before_its_loop_is_closed(add, eventually):
    """The results are dropped: the loop did not take them."""
    running = asyncio.new_event_loop()
    task = running.create_task(add.run_async(FEEDS))
    # One turn: the run starts, and the loop does not look for its end.
    running.call_soon(running.stop)
    running.run_forever()
    eventually(lambda: not async_runs._under_way)
    running.close()
    task._log_destroy_pending = False


def test_loop_continues_after_a_stop(add, eventually):
    """Runs that end while their loop is stopped are complete when it runs again."""
    running = asyncio.new_event_loop()
    tasks = [running.create_task(add.run_async(FEEDS)) for _ in range(100)]
    running.run_until_complete(asyncio.sleep(0))
    eventually(lambda: not async_runs._under_way)
    for [result] in running.run_until_complete(asyncio.gather(*tasks)):
        np.testing.assert_array_equal(result, SUM)
    running.close()


def test_one_thread_alternates_between_loops(add):
    loops = [asyncio.new_event_loop() for _ in range(2)]
    for n in range(20):
        for running in loops:
            [result] = running.run_until_complete(add.run_async({"x": np.full(4, n, np.float32), "y": FEEDS["y"]}))
            np.testing.assert_array_equal(result, np.full(4, n + 1))
    for running in loops:
        running.close()


def test_closed_loops_leave_nothing_behind(loop, endless, eventually):
    """A run whose task is cancelled may end when its loop is closed already."""
    closed = []

    async def main():
        closed.append(weakref.ref(asyncio.get_running_loop()))
        asyncio.get_running_loop().create_task(loop.run_async(endless))
        await asyncio.sleep(0)

    for _ in range(5):
        asyncio.run(main())
        eventually(lambda: not async_runs._under_way)
    gc.collect()
    assert [ref() for ref in closed] == [None] * 5


def test_several_threads_wait_for_one_run(loop, endless, background):
    options = zrt.RunOptions()
    future = loop.submit(endless, options=options)
    jobs = [background(lambda: future.exception(60)) for _ in range(4)]
    time.sleep(0.02)
    with pytest.raises(TimeoutError):
        future.result(0.01)
    options.terminate()
    assert {type(job.result()) for job in jobs} == {errors.TerminatedError}


def test_wait_without_a_limit_lasts_to_the_end(loop, endless, background):
    options = zrt.RunOptions()
    job = background(loop.submit(endless, options=options).exception)
    time.sleep(1.2)
    lasting = job.running
    options.terminate()
    assert (lasting, type(job.result())) == (True, errors.TerminatedError)


def test_cancel_wakes_the_thread_that_waits(loop, endless, background):
    future = loop.submit(endless)

    def wait():
        with pytest.raises(concurrent.futures.CancelledError):
            future.result(60)

    job = background(wait)
    time.sleep(0.02)
    future.cancel()
    job.result()


def test_interrupt_at_the_end_of_a_wait_holds_up_no_later_wait(add, background):
    future = add.submit(FEEDS)
    concurrent.futures.wait([future])

    interrupt_at_start_of(async_runs._open_gate, future.result)
    [total] = background(future.result).result()
    assert (total == SUM).all()


def test_waiting_thread_calls_no_callback(loop, endless, background, eventually):
    """The thread of the run does."""
    options = zrt.RunOptions()
    future = loop.submit(endless, options=options)
    job = background(lambda: future.exception(60))
    time.sleep(0.02)
    names = []
    future.add_done_callback(lambda _: names.append(threading.current_thread().name))
    options.terminate()
    assert type(job.result()) is errors.TerminatedError
    eventually(lambda: names)
    assert names == ["zrt-run"]


def test_concurrent_futures_take_runs_as_they_end(add):
    futures = {add.submit({"x": np.full(4, n, np.float32), "y": FEEDS["y"]}): n for n in range(50)}
    for future in concurrent.futures.as_completed(futures, 60):
        np.testing.assert_array_equal(future.result()[0], np.full(4, futures[future] + 1))


def test_run_options(loop, endless, add):
    options = zrt.RunOptions(tag="mine")
    future, other = loop.submit(endless, options=options), loop.submit(endless, options=options)
    # Terminating one run does not terminate the other ...
    future.cancel()
    concurrent.futures.wait([future], 60)
    assert not options.terminated
    assert not other.done()
    # ... but `RunOptions.terminate` ends both, and new runs raise until `reset`.
    options.terminate()
    assert type(other.exception(60)) is errors.TerminatedError
    assert type(add.submit(FEEDS, options=options).exception(60)) is errors.TerminatedError
    options.reset()
    np.testing.assert_array_equal(add.submit(FEEDS, options=options).result(60)[0], SUM)
    closing = loop.submit(endless, options=options)
    options.close()
    assert not closing.done()
    closing.cancel()
    with pytest.raises(errors.ClosedError):
        add.submit(FEEDS, options=options)


def test_copied_run_options_have_every_setting():
    fields = {"tag": "t", "log_severity_level": 3, "log_verbosity_level": 2, "config_entries": {"a": "b"}}
    assert {name: value for name, value in zrt.RunOptions(**fields).twin().settings().items() if value} == fields
    assert zrt.RunOptions().settings().keys() == set(inspect.signature(zrt.RunOptions).parameters)


def test_options_release_completed_runs(add, eventually):
    options = zrt.RunOptions(tag="many")
    for future in [add.submit(FEEDS, options=options) for _ in range(50)]:
        np.testing.assert_array_equal(future.result(60)[0], SUM)
    del future
    eventually(lambda: not options._twins)


def test_exception_in_a_callback_is_logged(add, caplog, eventually):
    heard = []

    def fail(future):
        heard.append(future)
        raise ZeroDivisionError("in a callback")

    future = add.submit(FEEDS)
    future.add_done_callback(fail)
    future.add_done_callback(heard.append)
    np.testing.assert_array_equal(future.result(60)[0], SUM)
    np.testing.assert_array_equal(add.submit(FEEDS).result(60)[0], SUM)
    eventually(lambda: len(heard) == 2)
    assert heard == [future, future]
    assert "in a callback" in caplog.text


def test_system_exit_in_a_callback_keeps_the_thread_alive(add, loop, endless, monkeypatch, eventually):
    """An exception that nothing handles goes to the hook of the thread, which continues."""
    heard = []
    monkeypatch.setattr(threading, "excepthook", heard.append)

    def leave(future):
        raise SystemExit("in a callback")

    options = zrt.RunOptions()
    future = loop.submit(endless, options=options)
    future.add_done_callback(leave)
    options.terminate()
    concurrent.futures.wait([future], 60)
    eventually(lambda: heard)
    concurrent.futures.wait([later := add.submit(FEEDS)], 60)
    np.testing.assert_array_equal(later.result(60)[0], SUM)
    assert [hooked.exc_type for hooked in heard] == [SystemExit]


def test_callback_may_run_and_close_a_session(add, loop, endless):
    """The thread that calls all callbacks continues after any callback."""
    ended = threading.Event()
    results = []

    def more(future):
        results.append(add.run(FEEDS)[0])
        again = add.submit(FEEDS)
        again.add_done_callback(lambda done: (results.append(done.result()[0]), ended.set()))
        add.close()

    options = zrt.RunOptions()
    loop.submit(endless, options=options).add_done_callback(more)
    options.terminate()
    assert ended.wait(60)
    assert len(results) == 2
    for result in results:
        np.testing.assert_array_equal(result, SUM)


def test_waiting_for_a_run_in_a_callback_raises(add, loop, endless, eventually):
    """The thread would keep all other runs from being completed. With a timeout waiting is allowed, and so is all that
    waits for no run of this kind.
    """
    heard = []
    own = zrt.SessionOptions(
        intra_op_num_threads=3, thread_factory=lambda work: threading.Thread(target=work), logger="zrt.test"
    )

    def wait(future):
        heard.append(threading.current_thread().name)
        other = loop.submit(endless)
        asks = (other.result, other.exception, lambda: asyncio.run(add.run_async(FEEDS)), lambda: other.result(0.001))
        for ask in asks:
            try:
                ask()
            except Exception as error:
                heard.append(type(error))
        other.cancel()
        heard.append(future.exception() is not None)
        heard.append(zrt.Session(models.add(["n"]), own).run(FEEDS)[0].tolist())
        heard.append(zrt.Environment.flush_log())

    options = zrt.RunOptions()
    future = loop.submit(endless, options=options)
    future.add_done_callback(wait)
    options.terminate()
    concurrent.futures.wait([future], 60)
    np.testing.assert_array_equal(add.submit(FEEDS).result(60)[0], SUM)
    eventually(lambda: len(heard) == 8)
    assert heard == ["zrt-run", *[errors.UnsupportedError] * 3, TimeoutError, True, SUM.tolist(), True]


def test_several_loops_in_several_threads(add, background):
    async def many(start):
        runs = (add.run_async({"x": np.full(4, start + n, np.float32), "y": FEEDS["y"]}) for n in range(100))
        return [float(result[0]) for [result] in await asyncio.gather(*runs)]

    jobs = [background(lambda start=start: asyncio.run(many(start))) for start in range(0, 800, 100)]
    for start, job in zip(range(0, 800, 100), jobs, strict=True):
        assert job.result() == [start + n + 1.0 for n in range(100)]


def test_dropped_future_keeps_its_feeds_alive(threads, build, eventually):
    """Only the run holds feeds, results, options and session, and keeps each until it ends."""
    session = zrt.Session(build(LOOP), quiet(threads))
    feeds = {"n": np.array(300_000), "x": np.ones(4, np.float32)}
    gone = weakref.ref(feeds["x"])
    seen = []
    future = session.submit(feeds, options=zrt.RunOptions(tag="dropped"))
    future.add_done_callback(lambda done: seen.append(done.result()[0]))
    del session, feeds, future
    for _ in range(20):
        gc.collect()
        _ = [np.full(4, 7, np.float32) for _ in range(100)]
    assert gone() is not None or seen
    eventually(lambda: seen)
    np.testing.assert_array_equal(seen[0], np.full(4, np.inf))
    seen.clear()
    eventually(lambda: gone() is None)


def test_results_come_before_feeds_and_session_are_released(threads, build, eventually):
    session = zrt.Session(build(LOOP), quiet(threads))
    feeds = {"n": np.array(2000), "x": np.ones(4, np.float32)}
    order = []
    weakref.finalize(feeds["x"], order.append, "feeds")
    future = session.submit(feeds)
    future.add_done_callback(lambda _: order.append("results"))
    del session, feeds, future
    eventually(lambda: len(order) == 2)
    assert order == ["results", "feeds"]


def test_session_closed_during_a_run(loop, endless, background):
    """Runs in progress end normally; later runs raise."""
    options = zrt.RunOptions()
    steps = {"n": np.array(200_000), "x": np.ones(4, np.float32)}
    lane = loop.lane({"n": (), "x": 4})
    lane.inputs["n"][...], lane.inputs["x"][...] = steps["n"], 0
    prepared = loop.prepare(steps)
    under_way = [background(lambda: loop.run(steps)[0]), background(prepared.run), background(lane.run)]
    for job in under_way:
        job.under_way()
    coming = [loop.submit(steps), loop.submit(endless, options=options)]
    loop.close()
    assert loop.closed
    for refused in (loop.run, loop.submit, lambda feeds: asyncio.run(loop.run_async(feeds))):
        with pytest.raises(errors.ClosedError):
            refused(steps)
    np.testing.assert_array_equal(coming[0].result(60)[0], np.full(4, np.inf))
    options.terminate()
    assert type(coming[1].exception(60)) is errors.TerminatedError
    for job in under_way:
        job.result()
    np.testing.assert_array_equal(lane.outputs["y"], np.zeros(4))


def test_threads_that_submit_cancel_and_close(build, threads):
    """Four threads share a session, and one of them closes it: each run completes correctly."""
    session = zrt.Session(build(LOOP), quiet(threads))

    def work(cancels):
        ends = []
        for n in range(200):
            try:
                future = session.submit({"n": np.array(n % 7), "x": np.ones(4, np.float32)})
            except errors.ClosedError:
                ends.append("closed")
                continue
            if cancels and n % 3 == 0:
                future.cancel()
            try:
                np.testing.assert_array_equal(future.result(60)[0], np.full(4, 2.0 ** (n % 7)))
                ends.append("right")
            except concurrent.futures.CancelledError:
                ends.append("cancelled")
        assert len(ends) == 200

    def close():
        time.sleep(0.03)
        session.close()

    in_threads(*(partial(work, cancels) for cancels in (False, True, False, True)), close)
