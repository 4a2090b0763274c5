"""Thread factories, valid and invalid, and a model whose work ONNX Runtime divides among threads."""

import os
import threading
import time

import numpy as np

from tests.support import models
from zrt import Session, SessionOptions

# Large enough for ONNX Runtime to divide it among the threads.
SIZE = 1 << 18
MODEL = models.add([SIZE])
FEEDS = {"x": np.arange(SIZE, dtype=np.float32), "y": np.ones(SIZE, np.float32)}


def cpu_time(thread):
    """A function that tells the seconds which the thread with this `ident` has computed; of wall time on macOS."""
    if not hasattr(time, "pthread_getcpuclockid"):
        return time.monotonic
    clock = time.pthread_getcpuclockid(thread)
    return lambda: time.clock_gettime(clock)


class Factory:
    """Creates a pool's threads and keeps them: call n follows step n of `plan`, later calls its last step."""

    def __init__(self, *plan):
        self.plan = plan
        self.asked = 0
        self.threads = []
        self.works = []

    def __call__(self, work):
        step = self.plan[min(self.asked, len(self.plan) - 1)] if self.plan else unstarted
        self.asked += 1
        thread = step(self, work)
        if isinstance(thread, threading.Thread):
            self.threads.append(thread)
        return thread

    def ended(self):
        for thread in self.threads:
            thread.join(60)
        return not any(thread.is_alive() for thread in self.threads)


def unstarted(factory, work):
    return threading.Thread(target=work, name="worker")


def started(factory, work):
    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    return thread


def raises(factory, work):
    raise ValueError("no more threads")


def interrupted(factory, work):
    raise KeyboardInterrupt


def forgets(factory, work):
    return "a thread"


def keeps(factory, work):
    factory.works.append(work)


def on_the_spot(factory, work):
    work()


def no_daemon(factory, work):
    thread = threading.Thread(target=work, daemon=False)
    thread.start()
    return thread


def begins_and_raises(factory, work):
    factory.threads.append(started(factory, work))
    raise ValueError("no more threads")


def session(factory, threads=4, **fields):
    options = SessionOptions(intra_op_num_threads=threads, thread_factory=factory, log_severity_level="FATAL", **fields)
    return Session(MODEL, options)


def check(session):
    np.testing.assert_array_equal(session.run(FEEDS)[0], FEEDS["x"] + FEEDS["y"])


def two_cpus():
    """Whether this process may pin its threads to the CPUs 0 and 1."""
    return hasattr(os, "sched_getaffinity") and {0, 1} <= os.sched_getaffinity(0)
