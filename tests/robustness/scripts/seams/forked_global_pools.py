"""After a fork, sessions of the global thread pools run in the child without the parent's threads."""

import asyncio

import zrt
from tests.robustness.forking import fork
from tests.robustness.prologue import FEEDS, SUM, same, session
from tests.robustness.seams import LOGGED, factory, own_threads

zrt.Environment(logger=LOGGED, threading=zrt.ThreadingOptions(intra_op_num_threads=3, thread_factory=factory))
shared = zrt.SessionOptions(use_per_session_threads=False)
before = session(shared)
before.submit(FEEDS).result(60)


def child():
    try:
        before.submit(FEEDS)
    except zrt.errors.ForkedError:
        pass
    else:
        raise AssertionError("the session of the parent ran")
    for one in (session(shared), session(own_threads())):
        same(one.submit(FEEDS).result(30)[0], SUM)
        same(asyncio.run(one.run_async(FEEDS))[0], SUM)
    zrt.ep_devices()


fork(child)
