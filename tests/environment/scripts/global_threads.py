"""Steps with an environment's thread pools: `global_threads.py FUNCTION [ARGUMENT ...]` runs one in a new process."""

import gc
import os
import platform
import sys

import numpy as np
import pytest

import zrt
from tests.support import tasks
from tests.support.threads import FEEDS, MODEL, Factory, check, raises, unstarted
from zrt import Environment, Session, SessionOptions, ThreadingOptions
from zrt.environment import environment
from zrt.errors import ArgumentError, CallbackError, DTypeError


def session_of_the_environment(**fields):
    return Session(MODEL, SessionOptions(use_per_session_threads=False, **fields))


def sessions_share_the_pools():
    """Counts the threads that a factory was asked for."""
    shared, own = Factory(), Factory()
    Environment(
        threading=ThreadingOptions(
            intra_op_num_threads=3, inter_op_num_threads=4, allow_spinning=False, thread_factory=shared
        )
    )
    assert shared.asked == 2 + 3
    sessions = [session_of_the_environment(), session_of_the_environment(execution_mode="PARALLEL")]
    for session in sessions:
        check(session)
    assert shared.asked == 2 + 3
    check(Session(MODEL, SessionOptions(intra_op_num_threads=3, thread_factory=own)))
    assert (shared.asked, own.asked) == (2 + 3, 2)


def threads_of_the_process():
    """Counts the threads that Linux lists."""

    before = tasks.count()
    Environment(threading=ThreadingOptions(intra_op_num_threads=3, inter_op_num_threads=4, allow_spinning=False))
    assert tasks.count() == before + 2 + 3
    sessions = [session_of_the_environment(), session_of_the_environment(execution_mode="PARALLEL")]
    assert tasks.count() == before + 5
    for session in sessions:
        check(session)
    own = Session(MODEL, SessionOptions(intra_op_num_threads=3))
    assert tasks.count() == before + 5 + 2
    check(own)


def no_threads():
    Environment(threading=ThreadingOptions(intra_op_num_threads=1, inter_op_num_threads=1))
    check(session_of_the_environment())
    check(session_of_the_environment(execution_mode="PARALLEL"))


def no_pools():
    message = "^use_per_session_threads=False: the environment of this process has no thread pools"
    with pytest.raises(ArgumentError, match=message):
        session_of_the_environment()
    with pytest.raises(ArgumentError, match=message):
        zrt.Runtime.replicate(MODEL, 2, SessionOptions(use_per_session_threads=False), share_weights=True)
    with pytest.raises(ArgumentError) as caught:
        Environment(threading=ThreadingOptions())
    assert "this process has its environment already, as Environment(log_id='zrt'" in str(caught.value)
    assert "WARNING, threading=ThreadingOptions(intra_op_num_threads=0" in str(caught.value)
    check(Session(MODEL))


def equal_options():
    options = ThreadingOptions(intra_op_num_threads=2)
    first = Environment(threading=options)
    assert Environment(threading=ThreadingOptions(intra_op_num_threads=2)) is first
    options.intra_op_num_threads = 3
    assert first.threading.intra_op_num_threads == 2
    with pytest.raises(ArgumentError):
        Environment(threading=options)
    with pytest.raises(ArgumentError):
        Environment()
    assert environment.current() is first


def factory():
    pool_factory = Factory()
    Environment(threading=ThreadingOptions(intra_op_num_threads=3, inter_op_num_threads=2, thread_factory=pool_factory))
    assert len(pool_factory.threads) == 3
    for _ in range(3):
        session = session_of_the_environment()
        check(session)
        session.close()
    gc.collect()
    assert all(thread.is_alive() for thread in pool_factory.threads)


def factory_that_raises():
    """Two threads are for operators, and the third one belongs to the pool between operators."""
    for before in range(3):
        failing = Factory(*[unstarted] * before, raises)
        pools = ThreadingOptions(intra_op_num_threads=3, inter_op_num_threads=2, thread_factory=failing)
        message = "^Environment: thread_factory raised ValueError: no more threads$"
        with pytest.raises(CallbackError, match=message) as caught:
            Environment("first", threading=pools)
        assert type(caught.value.__cause__) is ValueError
        assert failing.ended()
        assert environment._current is None
    working = Factory()
    Environment("second", threading=ThreadingOptions(intra_op_num_threads=3, thread_factory=working))
    assert working.asked >= 2
    check(session_of_the_environment())


def affinity():
    pool_factory = Factory()
    Environment(
        threading=ThreadingOptions(
            intra_op_num_threads=3, inter_op_num_threads=1, intra_op_thread_affinity="2;1", thread_factory=pool_factory
        )
    )
    check(session_of_the_environment())
    assert [os.sched_getaffinity(thread.native_id) for thread in pool_factory.threads] == [{1}, {0}]


def denormals(zero):
    as_zero = zero == "True"
    Environment(threading=ThreadingOptions(intra_op_num_threads=4, denormal_as_zero=as_zero))
    session = session_of_the_environment()
    tiny = np.full_like(FEEDS["x"], 1e-40)
    feeds = {"x": tiny, "y": np.zeros_like(tiny)}
    # ONNX Runtime changes threads on x86 only.
    wanted = as_zero and platform.machine() == "x86_64"
    # The caller's own thread keeps denormals, and it may compute a whole run alone: try many runs.
    some_zero = any(np.any(session.run(feeds)[0] == 0) for _ in range(1000 if wanted else 20))
    assert some_zero == wanted


def bad_options():
    """The arguments are checked before the environment is made, and the options of its pools meanwhile."""
    for keywords, error, culprit in (
        ({"log_id": "a\0b"}, ArgumentError, "log_id"),
        ({"log_severity": "loud"}, ArgumentError, "log_severity"),
        ({"threading": 5}, DTypeError, "threading"),
        ({"threading": ThreadingOptions(allow_spinning=2)}, DTypeError, "allow_spinning"),
        ({"threading": ThreadingOptions(thread_factory=2)}, DTypeError, "thread_factory"),
        ({"config_entries": 5}, DTypeError, "config_entries"),
    ):
        with pytest.raises(error, match=f"^{culprit}: "):
            Environment(**keywords)
    assert environment._current is None


if __name__ == "__main__":
    globals()[sys.argv[1]](*sys.argv[2:])
