"""Forks while another thread is in an operator for one thread at a time, in Python or in C; the child uses it too."""

import ctypes
import os
import signal
import sys
import threading
import warnings

import numpy as np

import tests.robustness.prologue  # noqa: F401
import zrt
from tests.custom_ops.support import DOMAIN, ONE, Op, X, build
from zrt.custom_ops import CFunction, CustomOp
from zrt.errors import CallbackError

# Python itself warns of forks among threads, since 3.12.
warnings.filterwarnings("ignore", ".*multi-threaded, use of fork", DeprecationWarning)
parent = os.getpid()
inside, forked = threading.Event(), threading.Event()


def wait():
    if os.getpid() == parent:
        inside.set()
        forked.wait()


class InPython(Op):
    serialize = True

    def work(self, context):
        wait()
        raise ValueError("no")


@ctypes.CFUNCTYPE(ctypes.c_int, *[ctypes.c_void_p, ctypes.c_size_t] * 2, ctypes.c_void_p)
def fail(*_):
    wait()
    return 7


class InC(CustomOp):
    name, inputs, outputs, serialize, function = "Op", (np.float32,), (np.float32,), True, CFunction(fail)


domain = zrt.CustomOpDomain(DOMAIN, [{"python": InPython, "c": InC}[sys.argv[1]]()])


def fails():
    session = zrt.Session(build(ONE), zrt.SessionOptions(custom_ops=[domain], log_severity_level="FATAL"))
    try:
        session.run([X])
    except (CallbackError, zrt.errors.OrtError):
        return True
    return False


def fails_meanwhile():
    assert fails()


thread = threading.Thread(target=fails_meanwhile)
thread.start()
inside.wait()
child = os.fork()
if child == 0:
    signal.alarm(30)
    os._exit(0 if fails() else 1)
forked.set()
thread.join()
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
