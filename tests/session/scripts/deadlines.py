"""Runs with timeouts in a process of their own: the function that argument 1 names prints what happens."""

import ctypes
import faulthandler
import os
import signal
import sys
import threading
import time
from contextlib import contextmanager

import numpy as np

import zrt
from tests.support import models, threads
from tests.support.bindings import bind

QUIET = zrt.SessionOptions(intra_op_num_threads=1, log_severity_level="FATAL")
MODEL = models.counting_loop()
counting = zrt.Session(MODEL, QUIET)
feeds = {"turns": np.array(2**40), "start": np.zeros(2, np.float32)}
short = {"turns": np.array(3), "start": np.zeros(2, np.float32)}


def interrupt():
    os.kill(os.getpid(), signal.SIGINT)


@contextmanager
def meanwhile(work=interrupt):
    """Calls `work` in another thread once this one has computed for 20 ms: the run is then under way, also on a busy
    machine. Calls it at the end of the block at the latest.
    """
    over, computed = threading.Event(), threads.cpu_time(threading.get_ident())
    enough = computed() + 0.02

    def call():
        while computed() < enough and not over.wait(0.001):
            pass
        work()

    thread = threading.Thread(target=call)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


def attempt(run, *arguments, **limits):
    """Runs it and prints the error that ends it."""
    try:
        run(*arguments, **limits)
    except (KeyboardInterrupt, zrt.Error) as error:
        print(type(error).__name__)


def interrupt_outside():
    try:
        interrupt()
        time.sleep(10)
    except KeyboardInterrupt:
        print("outside")


def interrupted():
    """Ctrl-C during a run of the main thread with a timeout: the run ends, and KeyboardInterrupt is raised."""
    lane = counting.lane()
    for name, feed in feeds.items():
        lane.inputs[name][...] = feed
    binding = bind(counting, feeds, "end")
    prepared = counting.prepare(feeds)
    options = zrt.RunOptions(tag="one")
    for run in (
        lambda: counting.run(feeds, timeout=100),
        lambda: lane.run(timeout=100),
        lambda: prepared.run(timeout=100),
        lambda: binding.run(timeout=100),
        lambda: counting.run(feeds, options=options, timeout=100),
    ):
        start = time.monotonic()
        with meanwhile():
            attempt(run)
        assert time.monotonic() - start < 60
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    assert counting.run(short)[0].tolist() == [3, 3]
    assert counting.run(short, options=options)[0].tolist() == [3, 3]
    lane.inputs["turns"][...] = 3
    lane.run()
    assert lane.outputs["end"].tolist() == [3, 3]
    # The handler outside such runs is the one that was there before.
    interrupt_outside()


def handlers():
    """SIGINT has another handler than Python's own during a run with a timeout."""

    def raising(number, frame):
        raise OSError("the handler's own error")

    signal.signal(signal.SIGINT, lambda number, frame: print("called"))
    try:
        with meanwhile():
            counting.run(feeds, timeout=100)
    except zrt.errors.TerminatedError as error:
        print(f"TerminatedError: {error}")
    signal.signal(signal.SIGINT, raising)
    try:
        with meanwhile():
            counting.run(feeds, timeout=100)
    except OSError as error:
        print(error)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    with meanwhile():
        attempt(counting.run, feeds, timeout=0.3)


def chained():
    """During a run another library sets a handler of SIGINT, which calls the one before; later it goes."""
    log = open(os.devnull, "w")  # noqa: SIM115 (faulthandler writes into it to the end)
    with meanwhile(lambda: faulthandler.register(signal.SIGINT, log, chain=True)):
        attempt(counting.run, feeds, timeout=0.3)
    interrupt_outside()
    with meanwhile():
        attempt(counting.run, feeds, timeout=100)
    interrupt_outside()
    faulthandler.unregister(signal.SIGINT)
    attempt(counting.run, feeds, timeout=0.1)
    with meanwhile():
        attempt(counting.run, feeds, timeout=100)
    interrupt_outside()


def informed():
    """The library that argument 2 names sets a handler of SIGINT with information; after a run it is there again."""
    library = ctypes.CDLL(sys.argv[2])
    library.listen()
    with meanwhile():
        attempt(counting.run, feeds, timeout=100)
    print(library.listens())


def forked():
    """Runs with timeouts before a fork, in its child, and in its parent afterwards."""

    def use(session):
        attempt(session.run, feeds, timeout=0.05)
        attempt(lambda: session.submit(feeds, timeout=0.05).result())
        with meanwhile():
            attempt(session.run, feeds, timeout=100)

    use(counting)
    # Deadlines of other threads are under way at the fork, and those of the child's main thread are not theirs.
    stop = zrt.RunOptions(log_severity_level="FATAL")
    others = [counting.submit(feeds, options=stop, timeout=100) for _ in range(2)]
    time.sleep(0.05)
    sys.stdout.flush()
    child = os.fork()
    if child == 0:
        with zrt.Session(MODEL, QUIET) as own:
            use(own)
        sys.stdout.flush()
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
    stop.terminate()
    for future in others:
        assert isinstance(future.exception(60), zrt.errors.TerminatedError)
    attempt(counting.run, feeds, timeout=0.05)


def ending():
    """The interpreter ends while runs with deadlines are under way."""
    for _ in range(4):
        counting.submit(feeds, timeout=1000)
    for seconds in (0.05, 1000):
        threading.Thread(target=counting.run, args=(feeds, None, None, seconds), daemon=True).start()
    print("ending")


def nested():
    """An operator in Python runs another session with a deadline of its own, inside a run with a deadline."""
    from tests.custom_ops.support import ONE, Op, X, load

    class Nested(Op):
        seconds = 0.05

        def work(self, context):
            if self.seconds:
                counting.run(feeds, timeout=self.seconds)
            context.output(0, (4,))[...] = 1

    operator = Nested()
    session = load(ONE, operator)
    try:
        session.run([X], timeout=100)
    except zrt.errors.CallbackError as error:
        print(type(error.__cause__).__name__)
    operator.seconds = 100
    with meanwhile():
        attempt(session.run, [X], timeout=100)
    operator.seconds = 0
    print(session.run([X], timeout=100)[0].tolist())
    interrupt_outside()


signal.signal(signal.SIGINT, signal.default_int_handler)
cases = {case.__name__: case for case in (interrupted, handlers, chained, informed, forked, ending, nested)}
cases[sys.argv[1]]()
