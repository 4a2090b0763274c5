"""A thread factory that uses zrt while the environment is being created: refused, and the creation succeeds."""

import os

import numpy as np

import zrt
from tests.robustness.forking import fork
from tests.robustness.prologue import FEEDS, SUM, session
from tests.robustness.seams import factory


def refused():
    try:
        session()
    except zrt.errors.UnsupportedError:
        return
    raise AssertionError("a session was made")


def meddles(work):
    for act in (session, zrt.Environment):
        try:
            act()
        except zrt.errors.UnsupportedError as error:
            print(error, flush=True)
    if hasattr(os, "fork"):
        fork(refused, end=os._exit)
    return factory(work)


made = zrt.Environment(threading=zrt.ThreadingOptions(intra_op_num_threads=2, thread_factory=meddles))
one = session(zrt.SessionOptions(use_per_session_threads=False))
assert np.array_equal(one.submit(FEEDS).result(60)[0], SUM)
try:
    __import__("copy").copy(made)
except zrt.errors.NotCopyableError as error:
    print(error)
