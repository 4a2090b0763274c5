"""Runs with a `timeout`: every way to run ends at its deadline, and the next run works."""

import asyncio
import builtins
import contextlib
import os
import threading
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest

import zrt
from tests.support import compiler
from tests.support.bindings import bind
from tests.support.lanes import run_on
from tests.support.together import in_threads
from zrt import errors
from zrt.errors import ArgumentError, ClosedError, TerminatedError, TimeoutError
from zrt.session import async_runs

SHORT = {"n": np.array(3), "x": np.ones(4, np.float32)}
EIGHTS = [8.0] * 4


def run_bound(session, feeds, **limits):
    binding = bind(session, feeds, "y")
    binding.run(**limits)
    return [binding.numpy()["y"]]


def run_lane(session, feeds, options=None, timeout=None):
    lane = session.lane({"x": 4}, trials=False)
    for name, feed in feeds.items():
        lane.inputs[name][...] = feed
    if options is None:
        lane.run(timeout=timeout)
    else:
        lane.run_with(options, timeout=timeout)
    return [lane.outputs["y"]]


def values(feeds):
    return {name: zrt.Value.from_array(feed) for name, feed in feeds.items()}


WAYS: dict[str, Callable[..., Any]] = {
    "run": lambda session, feeds, **limits: session.run(feeds, **limits),
    "some outputs": lambda session, feeds, **limits: session.run(feeds, ["y"], **limits),
    "run_values": lambda session, feeds, **limits: [
        value.numpy() for value in session.run_values(values(feeds), **limits)
    ],
    "prepared": lambda session, feeds, **limits: session.prepare(feeds).run(**limits),
    "binding": run_bound,
    "lane": run_lane,
    "submit": lambda session, feeds, **limits: session.submit(feeds, **limits).result(60),
    "submit_values": lambda session, feeds, **limits: [
        value.numpy() for value in session.submit_values(values(feeds), **limits).result(60)
    ],
    "run_async": lambda session, feeds, **limits: asyncio.run(session.run_async(feeds, **limits)),
}


@pytest.fixture(params=WAYS)
def way(request):
    return WAYS[request.param]


class TestEveryWay:
    def test_run_ends_at_its_deadline(self, loop, endless, way):
        start = time.monotonic()
        with pytest.raises(TimeoutError, match="within its timeout"):
            way(loop, endless, timeout=0.05)
        assert 0.05 <= time.monotonic() - start < 30

    def test_timeout_of_zero_raises(self, loop, way):
        for zero in (0, 0.0):
            with pytest.raises(TimeoutError):
                way(loop, SHORT, timeout=zero)

    @pytest.mark.parametrize("timeout", [None, 60, 10**6, threading.TIMEOUT_MAX])
    def test_run_in_time_returns_its_results(self, loop, way, timeout):
        assert way(loop, SHORT, timeout=timeout)[0].tolist() == EIGHTS

    def test_deadline_does_not_end_later_runs(self, loop, endless, way):
        options = zrt.RunOptions(tag="one", log_severity_level="FATAL")
        for _ in range(3):
            with pytest.raises(TimeoutError):
                way(loop, endless, options=options, timeout=0.01)
            assert not options.terminated
            assert way(loop, SHORT, options=options)[0].tolist() == EIGHTS
            assert way(loop, SHORT, options=options, timeout=60)[0].tolist() == EIGHTS

    def test_terminate_ends_a_run_with_a_timeout(self, loop, endless, way):
        options = zrt.RunOptions(log_severity_level="FATAL")
        timer = threading.Timer(0.05, options.terminate)
        timer.start()
        with pytest.raises(TerminatedError):
            way(loop, endless, options=options, timeout=60)
        timer.join()
        with pytest.raises(TerminatedError):
            way(loop, SHORT, options=options, timeout=60)

    def test_failure_in_time_raises_itself(self, load, way):
        model = load("(int64 n, float[k] x) => (float y) { y = Gather(x, n) }")
        with pytest.raises(errors.InvalidArgumentError, match="indices"):
            way(model, {"n": np.array(9), "x": np.ones(4, np.float32)}, timeout=60)


class TestError:
    def test_it_is_the_builtin_and_one_of_zrt(self):
        assert issubclass(TimeoutError, builtins.TimeoutError)
        assert issubclass(TimeoutError, errors.ZrtError)
        assert errors.TimeoutError is TimeoutError


class TestSession:
    def test_wrong_feeds_raise_before_the_deadline_counts(self, loop):
        with pytest.raises(ArgumentError, match="'x' is missing"):
            loop.run({"n": np.array(1)}, timeout=0)

    def test_retry_of_a_wrong_declaration_keeps_the_deadline(self, load):
        longer = "(float[n] x) => (float[n] y) <float[1] one = {1.0}> { y = Concat<axis = 0>(x, one) }"
        feeds = {"x": np.zeros(2, np.float32)}
        assert load(longer).run(feeds, timeout=60)[0].tolist() == [0, 0, 1]
        assert load(longer).submit(feeds, timeout=60).result(60)[0].tolist() == [0, 0, 1]

    def test_closing_the_session_leaves_the_deadline(self, loop, endless, background):
        job = background(lambda: loop.run(endless, timeout=0.2))
        job.under_way()
        loop.close()
        with pytest.raises(TimeoutError):
            job.result()
        with pytest.raises(ClosedError):
            loop.run(SHORT, timeout=1)

    def test_each_thread_has_its_own_deadline(self, loop, endless):
        taken = {}

        def run(seconds):
            start = time.monotonic()
            with pytest.raises(TimeoutError):
                loop.run(endless, timeout=seconds)
            taken[seconds] = time.monotonic() - start

        # The last one is the first to end.
        each = [0.05 * turn for turn in range(8, 0, -1)]
        in_threads(*(partial(run, seconds) for seconds in each))
        assert all(taken[seconds] >= seconds for seconds in each)

    def test_deadlines_near_the_ends_of_runs_harm_nothing(self, loop):
        feeds = {"n": np.array(50), "x": np.zeros(4, np.float32)}

        def run():
            generator = np.random.default_rng(threading.get_native_id())
            for _ in range(300):
                try:
                    assert loop.run(feeds, timeout=float(generator.exponential(1e-4)))[0].tolist() == [0] * 4
                except TimeoutError:
                    continue

        in_threads(*[run] * 4)
        assert loop.run(SHORT)[0].tolist() == EIGHTS


@pytest.fixture
def workers():
    """How many threads zrt has for runs in the background."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()


class TestBackground:
    def test_waiting_for_a_thread_counts(self, loop, endless, workers):
        stop = zrt.RunOptions(log_severity_level="FATAL")
        before = [loop.submit(endless, options=stop) for _ in range(workers)]
        start = time.monotonic()
        # No thread is free: the run never begins, and its future does not wait for one.
        with pytest.raises(TimeoutError):
            loop.submit(SHORT, timeout=0.05).result(60)
        with pytest.raises(TimeoutError):
            asyncio.run(loop.run_async(SHORT, timeout=0.05))
        assert time.monotonic() - start < 30
        assert not any(future.done() for future in before)
        kept = loop.submit(SHORT, timeout=60)
        stop.terminate()
        assert kept.result(60)[0].tolist() == EIGHTS
        for future in before:
            assert isinstance(future.exception(60), TerminatedError)

    def test_runs_of_one_loop_have_their_own_deadlines(self, loop, endless):
        async def gather():
            runs = [loop.run_async(SHORT if turn % 2 else endless, timeout=0.05) for turn in range(10)]
            return await asyncio.gather(*runs, return_exceptions=True)

        results = asyncio.run(gather())
        assert all(isinstance(error, TimeoutError) for error in results[::2])

    def test_cancelled_run_with_a_deadline_is_cancelled(self, loop, endless):
        future = loop.submit(endless, timeout=60)
        assert future.cancel()
        assert future.cancelled()

    def test_dropped_future_ends_at_its_deadline(self, loop, endless, eventually):
        loop.submit(endless, timeout=0.05)
        eventually(lambda: not async_runs._under_way)


class TestLane:
    def test_lane_runs_again_after_its_deadline(self, loop):
        lane = loop.lane({"x": 4}, trials=False)
        lane.inputs["x"][...] = 1
        for _ in range(5):
            lane.inputs["n"][...] = 2**62
            with pytest.raises(TimeoutError):
                lane.run(timeout=0.01)
            assert run_on(lane, n=3)["y"].tolist() == EIGHTS

    def test_output_left_to_ort_after_a_deadline_is_not_there(self, loop):
        lane = loop.lane({"x": 4}, trials=False, outputs=zrt.LaneMemory.left())
        lane.inputs["n"][...] = 2**62
        with pytest.raises(TimeoutError):
            lane.run(timeout=0.01)
        with pytest.raises(ArgumentError, match="'y' is not there"):
            lane.outputs["y"]

    def test_busy_lane_raises_at_once(self, loop, background, eventually):
        lane = loop.lane({"x": 4}, trials=False)
        lane.inputs["n"][...] = 2**62
        stop = zrt.RunOptions(log_severity_level="FATAL")

        def run():
            while True:
                # The look at the lane below may keep it at this moment.
                with contextlib.suppress(errors.BusyError):
                    return lane.run_with(stop)

        job = background(run)
        eventually(lambda: _is_busy(lane))
        with pytest.raises(errors.BusyError):
            lane.run(timeout=60)
        stop.terminate()
        with pytest.raises(TerminatedError):
            job.result()


def _is_busy(lane):
    try:
        lane.audit()
    except errors.BusyError:
        return True
    return False


# The functions of scripts/deadlines.py, which say what happens, and the lines that they print.
PROCESSES = {
    "interrupted": ["KeyboardInterrupt"] * 5 + ["outside"],
    "handlers": [
        "called",
        "TerminatedError: an interrupt (SIGINT) ended the run",
        "the handler's own error",
        "TimeoutError",
    ],
    "chained": [
        *("TimeoutError", "outside"),
        *("KeyboardInterrupt", "outside"),
        *("TimeoutError", "KeyboardInterrupt", "outside"),
    ],
    "forked": ["TimeoutError", "TimeoutError", "KeyboardInterrupt"] * 2 + ["TimeoutError"],
    "ending": ["ending"],
    "nested": ["TimeoutError", "KeyboardInterrupt", "[1.0, 1.0, 1.0, 1.0]", "outside"],
}


@pytest.mark.parametrize("case", PROCESSES)
def test_deadlines_in_a_process_of_their_own(script, case):
    assert script("deadlines.py", case).stdout.splitlines() == PROCESSES[case]


HANDLER = """
#include <signal.h>
#include <stddef.h>
static void handle(int number, siginfo_t *information, void *context) {}
void listen(void) {
    struct sigaction own = {.sa_sigaction = handle, .sa_flags = SA_SIGINFO};
    sigaction(SIGINT, &own, NULL);
}
int listens(void) {
    struct sigaction now;
    sigaction(SIGINT, NULL, &now);
    return (now.sa_flags & SA_SIGINFO) != 0 && now.sa_sigaction == handle;
}
"""


def test_handler_with_information_is_there_again_after_the_run(script, tmp_path):
    library = compiler.shared_library(tmp_path / "handler.so", HANDLER)
    assert script("deadlines.py", "informed", library).stdout.splitlines() == ["KeyboardInterrupt", "1"]
