"""Runs under a budget of CPUs: `cpu_budget.py CPUS FUNCTION ...` calls the functions in a process with that budget."""

from __future__ import annotations

import ctypes
import os
import platform
import signal
import sys
import threading
import time
import warnings
from collections.abc import Callable, Iterator
from concurrent.futures import CancelledError, Future, ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from typing import Any

import numpy as np
import pytest

import zrt
from tests.custom_ops.support import ONE, Op, X
from tests.custom_ops.support import load as load_with
from tests.session.test_deadlines import EIGHTS, SHORT, WAYS
from tests.support import models, tasks
from tests.support.models import ENDLESS, LOOP
from tests.support.together import in_threads
from zrt.custom_ops import CFunction
from zrt.errors import InvalidArgumentError, TerminatedError, TimeoutError

QUIET = {"log_severity_level": "FATAL"}

# Fails where n is no index of x.
GATHER = "(int64 n, float[k] x) => (float y) { y = Gather(x, n) }"

warnings.filterwarnings("ignore", ".*multi-threaded, use of fork", DeprecationWarning)


def load(**options):
    return zrt.Session(models.parsed(LOOP), zrt.SessionOptions(**QUIET, **options))


def budget():
    now = zrt.Environment.cpu_budget()
    assert now is not None
    return now


def until(condition: Callable[[], object]) -> None:
    end = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < end, f"the condition did not become true: {budget()}"
        time.sleep(0.001)


@contextmanager
def endless_run(session, taken: int = 1) -> Iterator[None]:
    """A run of the session that takes so many places until the end of the block."""
    free, options = budget().free, zrt.RunOptions()

    def endless():
        with pytest.raises(TerminatedError):
            session.run({**SHORT, "n": ENDLESS}, options=options)

    with ThreadPoolExecutor(1) as pool:
        run = pool.submit(endless)
        try:
            until(lambda: budget().free == free - taken)
            yield
        finally:
            options.terminate()
        run.result(60)


@contextmanager
def held(session, taken: int = 1) -> Iterator[None]:
    """An endless run, whose places are free again after the block."""
    free = budget().free
    with endless_run(session, taken):
        yield
    until(lambda: budget().free == free)


def every_way():
    """Every way to run takes a place, gives it back, and ends at its deadline while it waits."""
    session = load()
    for runs, (name, way) in enumerate(WAYS.items()):
        assert budget().runs == runs, name
        assert way(session, SHORT)[0].tolist() == EIGHTS, name
    with held(session):
        before = budget()
        for name, way in WAYS.items():
            with pytest.raises(TimeoutError):
                way(session, SHORT, timeout=0.01)
            until(lambda: not budget().waiting)
            assert budget().runs == before.runs, name
        assert budget().waited > before.waited


def workers() -> list[int]:
    """The threads that compute runs that waited."""
    return tasks.named("zrt-budget")


@contextmanager
def after_a_wait(function: Callable[..., Any], *arguments: Any, **named: Any) -> Iterator[Future[Any]]:
    """The future of a call in another thread, whose run had to wait for its turn and then began."""
    holder = load()
    with ThreadPoolExecutor(1) as pool:
        with ExitStack() as stack:
            for _ in range(budget().free):
                stack.enter_context(endless_run(holder))
            future = pool.submit(function, *arguments, **named)
            until(lambda: budget().waiting == 1)
        until(lambda: budget().waiting == 0)
        yield future


def computed_after_a_wait():
    """In every way; as many threads as the budget has places compute runs that waited."""
    session = load()
    with ThreadPoolExecutor(8) as pool:
        for name, way in WAYS.items():
            with after_a_wait(way, session, SHORT) as future:
                assert future.result(60)[0].tolist() == EIGHTS, name
            for future in [pool.submit(way, session, SHORT) for _ in range(100)]:
                assert future.result(60)[0].tolist() == EIGHTS, name
    assert budget().free == budget().cpus
    assert 1 <= len(workers()) <= budget().cpus


def failure_after_a_wait():
    session = zrt.Session(models.parsed(GATHER), zrt.SessionOptions(**QUIET))
    with (
        after_a_wait(session.run, {**SHORT, "n": np.array(9)}) as future,
        pytest.raises(InvalidArgumentError, match="indices"),
    ):
        future.result(60)


def ends_after_a_wait():
    """A run that another thread computes ends as one in its own thread does."""
    session, endless, options = load(), {**SHORT, "n": ENDLESS}, zrt.RunOptions(**QUIET)
    with after_a_wait(session.run, endless, timeout=1) as future, pytest.raises(TimeoutError):
        future.result(60)
    with after_a_wait(session.run, endless, options=options) as future:
        options.terminate()
        with pytest.raises(TerminatedError):
            future.result(60)
    with after_a_wait(session.submit, endless) as future:
        future.result(60).cancel()
    until(lambda: budget().free == budget().cpus)
    with after_a_wait(session.submit, endless, timeout=1) as future, pytest.raises(TimeoutError):
        future.result(60).result(60)
    assert budget().free == budget().cpus
    assert session.run(SHORT)[0].tolist() == EIGHTS


def interrupt_after_a_wait():
    """Ctrl-C ends the wait, and a run with a timeout; another run of the main thread goes on to its end."""
    session, endless = load(), {**SHORT, "n": ENDLESS}
    for limits in ({}, {"timeout": 60}):
        options, holder = zrt.RunOptions(**QUIET), zrt.RunOptions(**QUIET)

        def interrupt(options=options, holder=holder, limits=limits):
            until(lambda: budget().waiting == 1)
            holder.terminate()
            until(lambda: budget().waiting == 0)
            os.kill(os.getpid(), signal.SIGINT)
            if not limits:
                time.sleep(0.1)
                options.terminate()

        with ThreadPoolExecutor(2) as pool:
            held_run = pool.submit(session.run, endless, options=holder)
            until(lambda: budget().free == 0)
            interruption = pool.submit(interrupt)
            with pytest.raises(KeyboardInterrupt):
                session.run(endless, options=options, **limits)
            interruption.result(60)
            with pytest.raises(TerminatedError):
                held_run.result(60)
        assert budget().free == budget().cpus
        assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
        assert session.run(SHORT)[0].tolist() == EIGHTS


def operators_run_in_the_thread_of_their_caller():
    threads = []

    class Record(Op):
        def work(self, context):
            threads.append(threading.current_thread())

    session = load_with(ONE, Record())

    def run():
        session.run([X])
        return threading.current_thread()

    for _ in range(3):
        with after_a_wait(run) as future:
            assert future.result(60) is threads[-1]


def operator_in_c_runs_another_session():
    """In a thread of the session's, with the only place taken by its own run."""
    inner, results = load(), []

    @ctypes.CFUNCTYPE(ctypes.c_int, *[ctypes.c_void_p, ctypes.c_size_t] * 2, ctypes.c_void_p)
    def run_inner(*_):
        results.append(inner.run(SHORT, timeout=60)[0].tolist())
        return 0

    class InC(zrt.CustomOp):
        name = "Op"
        inputs = (np.float32,)
        outputs = (np.float32,)
        function = CFunction(run_inner)

    twice = "(float[n] x) => (float[n] y, float[n] z) { y = test.ops.Op(x) z = test.ops.Op(x) }"
    load_with(twice, InC(), execution_mode="PARALLEL", inter_op_num_threads=2).run([X])
    assert results == [EIGHTS, EIGHTS]


def returned_memory_takes_no_place():
    """A bounded session gives memory back before a small run, which must not make its deadline wait."""
    model = models.parsed("(float[n] x) => (float[n] y) { y = Neg(x) }")
    session = zrt.Session(model, zrt.SessionOptions(**QUIET, memory="bounded"))
    assert budget().runs == 0
    session.run([np.ones(1 << 22, np.float32)])
    with held(load()):
        for _ in range(8):
            with pytest.raises(TimeoutError):
                session.run([np.ones(16, np.float32)], timeout=0.01)
    assert session.run([np.ones(1, np.float32)])[0].tolist() == [-1]


def ended_run_stays_ended():
    """Also where its options are reset before its thread goes on."""
    session, options = load(), zrt.RunOptions(**QUIET)
    with ThreadPoolExecutor(1) as pool, held(session):
        for _ in range(50):
            run = pool.submit(session.run, SHORT, options=options)
            until(lambda: budget().waiting == 1)
            options.terminate()
            options.reset()
            with pytest.raises(TerminatedError):
                run.result(60)


def worker_rounds_as_the_caller():
    session = zrt.Session(models.parsed("(float[n] x, float[n] y) => (float[n] z) { z = Add(x, y) }"))
    feeds = [np.ones(1, np.float32), np.full(1, 2**-30, np.float32)]
    upward = 0x800 if platform.machine() == "x86_64" else 0x400000

    def run(mode):
        assert ctypes.CDLL(None).fesetround(mode) == 0
        return session.run(feeds)[0][0]

    for mode, result in ((0, 1), (upward, np.nextafter(np.float32(1), np.float32(2))), (0, 1)):
        with after_a_wait(run, mode) as future:
            assert future.result(60) == result


def log_callback_gets_the_lines_of_runs_that_waited():
    from zrt import onnxruntime

    lines = []
    onnxruntime.set_default_logger_callback(lambda *line: lines.append(line), 0)
    session = onnxruntime.InferenceSession(models.parsed(GATHER).SerializeToString())
    with (
        after_a_wait(session.run, None, {**SHORT, "n": np.array(9)}) as future,
        pytest.raises(onnxruntime.capi.onnxruntime_pybind11_state.InvalidArgument),
    ):
        future.result(60)
    assert any("Gather" in line[-1] for line in lines)


def drop_in_with_one_thread():
    """Such a session runs in forked children too, and keeps to the budget in both."""
    from zrt import onnxruntime

    settings = onnxruntime.SessionOptions()
    settings.intra_op_num_threads = 1
    settings.log_severity_level = 4
    session = onnxruntime.InferenceSession(models.parsed(LOOP).SerializeToString(), settings)
    session.run(None, SHORT)
    assert budget().runs == 1
    process = os.fork()
    if process == 0:
        try:
            with after_a_wait(session.run, None, SHORT) as future:
                assert future.result(60)[0].tolist() == EIGHTS
            assert budget().waited
            os._exit(0)
        except BaseException as error:
            print(repr(error), file=sys.stderr)
            os._exit(1)
    assert os.waitpid(process, 0)[1] == 0


def worker_uses_all_cpus():
    """The one that waited may have given itself fewer."""
    session, allowed = load(), os.sched_getaffinity(0)

    def run():
        os.sched_setaffinity(0, {min(allowed)})
        return session.run(SHORT)

    with after_a_wait(run) as future:
        future.result(60)
    assert [os.sched_getaffinity(worker) for worker in workers()] == [allowed]


def no_thread_for_a_worker():
    session, left = load(), ctypes.c_int.in_dll(ctypes.CDLL(None), "threads_left")
    with ThreadPoolExecutor(1) as pool, held(session):
        pool.submit(int).result()
        left.value = 0
        with pytest.raises(zrt.errors.FailError, match="no thread can be started for runs that wait for a CPU"):
            pool.submit(session.run, SHORT).result(60)
        left.value = -1
        assert (budget().waiting, budget().free) == (0, 0)
    with after_a_wait(session.run, SHORT) as future:
        assert future.result(60)[0].tolist() == EIGHTS


def ends_while_it_waits():
    session, options = load(), zrt.RunOptions(**QUIET)
    with ThreadPoolExecutor(3) as pool:
        with held(session):
            future = session.submit(SHORT)
            until(lambda: budget().waiting == 1)
            future.cancel()
            until(lambda: budget().waiting == 0)
            with pytest.raises(CancelledError):
                future.result(60)
            runs = []
            for own in (None, options, None):
                runs.append(pool.submit(session.run, SHORT, options=own))
                until(lambda: budget().waiting == len(runs))
            options.terminate()
            with pytest.raises(TerminatedError):
                runs[1].result(60)
            assert budget().waiting == 2
        assert [runs[place].result(60)[0].tolist() for place in (0, 2)] == [EIGHTS, EIGHTS]


def close_while_it_waits():
    holder, session = load(), load()
    with ThreadPoolExecutor(1) as pool:
        with held(holder):
            run = pool.submit(session.run, SHORT)
            until(lambda: budget().waiting == 1)
            session.close()
        assert run.result(60)[0].tolist() == EIGHTS


def interrupt_while_it_waits():
    session = load()

    def interrupt():
        until(lambda: budget().waiting == 1)
        os.kill(os.getpid(), signal.SIGINT)

    for limits in ({}, {"timeout": 60}):
        thread = threading.Thread(target=interrupt)
        with held(session):
            thread.start()
            with pytest.raises(KeyboardInterrupt):
                session.run(SHORT, **limits)
            thread.join()
        assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
        assert session.run(SHORT)[0].tolist() == EIGHTS


def first_in_first_out():
    order = []

    class Record(Op):
        def work(self, context):
            order.append(int(context.inputs[0][0]))

    session, holder = load_with(ONE, Record()), load()
    with ThreadPoolExecutor(5) as pool, held(holder):
        for number in range(5):
            pool.submit(session.run, [np.full(1, number, np.float32)])
            until(lambda wanted=number + 1: budget().waiting == wanted)
    assert order == [0, 1, 2, 3, 4]


def no_more_than_fit():
    inside, go = [], threading.Event()

    class Wait(Op):
        def work(self, context):
            inside.append(None)
            go.wait(60)

    session = load_with(ONE, Wait())
    before = budget().runs
    with ThreadPoolExecutor(5) as pool:
        runs = [pool.submit(session.run, [X]) for _ in range(5)]
        until(lambda: budget().waiting == 5 - budget().cpus)
        assert budget().free == 0
        until(lambda: len(inside) == budget().cpus)
        go.set()
        for run in runs:
            run.result(60)
    assert (budget().free, budget().waiting, budget().runs) == (budget().cpus, 0, before + 5)


def run_inside_a_run():
    """An operator's runs in its own thread and in the turns of `parallel_for` take no place."""
    inner = load()

    class Run(Op):
        def work(self, context):
            assert inner.run(SHORT)[0].tolist() == EIGHTS
            context.parallel_for(lambda index: inner.run(SHORT), 4)

    session = load_with(ONE, Run(), intra_op_num_threads=2)
    runs = budget().runs
    for _ in range(3):
        session.run([X])
    assert budget().runs == runs + 3
    assert budget().free == budget().cpus


def child_of_a_fork():
    """The place that a run of the parent holds is free in the child."""
    session = load()
    with after_a_wait(session.run, SHORT) as future:
        future.result(60)
    with held(session):
        process = os.fork()
        if process == 0:
            status = 1
            try:
                assert (budget().free, budget().waiting) == (budget().cpus, 0)
                own = load()
                assert own.run(SHORT)[0].tolist() == EIGHTS
                with after_a_wait(own.run, SHORT) as future:
                    assert future.result(60)[0].tolist() == EIGHTS
                with pytest.raises(zrt.errors.ForkedError):
                    session.run(SHORT)
                assert budget().free == budget().cpus
                status = 0
            finally:
                os._exit(status)
        assert os.waitpid(process, 0)[1] == 0


def several_threads():
    """A run takes a place for each thread of its session, or those that are free."""
    threads = tasks.count()
    one = load()
    assert tasks.count() == threads
    with ExitStack() as stack:
        two, also_two = load(intra_op_num_threads=2), load(intra_op_num_threads=2)
        assert tasks.count() == threads + 2
        stack.enter_context(held(two, 2))
        stack.enter_context(held(also_two, 1))
        with pytest.raises(TimeoutError):
            one.run(SHORT, timeout=0.01)
    # Sessions that may come to the addresses of these take one place.
    two.close()
    also_two.close()
    del two, also_two
    for _ in range(4):
        with held(load(), 1):
            pass
    with held(load(intra_op_num_threads=8), budget().cpus):
        pass


def loads_in_several_threads():
    def load_and_close():
        for _ in range(20):
            load(intra_op_num_threads=2).close()

    in_threads(*[load_and_close] * 3)


def options():
    spins = dict.fromkeys(("session.intra_op.allow_spinning", "session.inter_op.allow_spinning"), "0")
    assert zrt.SessionOptions().effective_config_entries() == spins
    own = zrt.SessionOptions(intra_op_allow_spinning=True).effective_config_entries()
    assert own == {**spins, "session.intra_op.allow_spinning": "1"}
    environment = zrt.Environment(cpus=budget().cpus)
    assert (environment.cpus, repr(environment)) == (3, "Environment(log_id='zrt', log_severity=WARNING, cpus=3)")
    for other in (None, 2):
        with pytest.raises(zrt.errors.ArgumentError, match="has its environment already"):
            zrt.Environment(cpus=other)


if __name__ == "__main__":
    # A program in the background of a shell inherits that SIGINT is ignored.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    if "ZRT_CPUS" not in os.environ:
        zrt.Environment(cpus=int(sys.argv[1]))
    for step in sys.argv[2:]:
        globals()[step]()
