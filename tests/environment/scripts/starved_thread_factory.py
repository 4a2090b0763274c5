"""The system gives no more threads, or no more memory for them, while a factory makes the threads of a session.

The library of starved.c, which is preloaded, counts the calls that succeed.
"""

import ctypes
import gc
import threading
from collections.abc import Callable

import numpy as np
import pytest

import zrt
from tests.support import models

NO_THREAD = "model in memory: thread_factory raised AllocationError: the system has no thread: can't start new thread"
NO_MEMORY = "model in memory: thread_factory: no memory for another thread"
x = np.ones(4, np.float32)


def load(factory: Callable[..., object], mode: str) -> zrt.Session:
    options = zrt.SessionOptions(
        intra_op_num_threads=4,
        inter_op_num_threads=3,
        execution_mode=mode,
        thread_factory=factory,
        log_severity_level="FATAL",
    )
    return zrt.Session(models.add(), options)


def starve(count: str, allowed: int, mode: str, says: str) -> None:
    """A load raises while the system lets so many more calls succeed, and the next load works."""
    left = ctypes.c_int.in_dll(ctypes.CDLL(None), count)
    threads: list[threading.Thread] = []

    def factory(work: Callable[[], None]) -> threading.Thread:
        threads.append(threading.Thread(target=work))
        if len(threads) == 1:
            # The factory has made its first thread when the count begins.
            left.value = allowed
        return threads[-1]

    with pytest.raises(zrt.errors.CallbackError) as caught:
        load(factory, mode)
    left.value = -1
    assert str(caught.value) == says, (count, allowed, mode)
    for thread in threads:
        if thread.ident is not None:
            thread.join(30)
            assert not thread.is_alive()
    gc.collect()
    assert load(lambda work: threading.Thread(target=work), mode).run([x, x])[0].tolist() == [2, 2, 2, 2]


# Everything else that starts threads has started them.
zrt.Session(models.add()).run([x, x])
for allowed in range(3):
    starve("threads_left", allowed, "SEQUENTIAL", NO_THREAD)
for allowed in range(2):
    starve("callocs_left", allowed, "SEQUENTIAL", NO_MEMORY)
# The first and the last thread of the second pool.
for allowed in (3, 4):
    starve("threads_left", allowed, "PARALLEL", NO_THREAD)
for allowed in (2, 3):
    starve("callocs_left", allowed, "PARALLEL", NO_MEMORY)
