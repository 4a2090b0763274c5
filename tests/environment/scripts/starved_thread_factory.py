"""The system gives no more threads, or no more memory for them, while a factory makes the threads of a session.

Arguments: the name of a count in starved.c, the calls that succeed, and the session's execution mode.
"""

from __future__ import annotations

import ctypes
import gc
import sys
import threading
from collections.abc import Callable

import numpy as np

import zrt
from tests.support import models

count, allowed, mode = sys.argv[1], int(sys.argv[2]), sys.argv[3]
left = ctypes.c_int.in_dll(ctypes.CDLL(None), count)
x = np.ones(4, np.float32)
threads: list[threading.Thread] = []


def factory(work: Callable[[], None]) -> threading.Thread:
    threads.append(threading.Thread(target=work))
    if len(threads) == 1:
        left.value = allowed
    return threads[-1]


def load() -> zrt.Session:
    options = zrt.SessionOptions(
        intra_op_num_threads=4,
        inter_op_num_threads=3,
        execution_mode=mode,
        thread_factory=factory,
        log_severity_level="FATAL",
    )
    return zrt.Session(models.add(), options)


# Everything else that starts threads has started them.
zrt.Session(models.add()).run([x, x])
try:
    load()
except zrt.errors.CallbackError as error:
    print(error)
left.value = -1
for thread in threads:
    if thread.ident is not None:
        thread.join(30)
        assert not thread.is_alive()
gc.collect()
session = load()
left.value = -1
assert session.run([x, x])[0].tolist() == [2, 2, 2, 2]
