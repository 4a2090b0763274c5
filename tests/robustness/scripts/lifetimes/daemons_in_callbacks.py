"""The interpreter ends while a daemon thread is in a callback of ONNX Runtime's, which argument 1 names."""

import sys
import threading
import time

import numpy as np

import tests.robustness.prologue  # noqa: F401
import zrt
from tests.support import models
from zrt.environment.environment import set_log_callback

inside = threading.Event()


def callback(*_):
    inside.set()
    while threading.current_thread() is not threading.main_thread():
        time.sleep(0.0005)


def log():
    set_log_callback(callback)
    session = zrt.Session(models.parse("(float[n] x) => (float[3] y) { y = Identity(x) }"))
    # ONNX Runtime warns of the shape of the output.
    return lambda: session.run([np.zeros(4, np.float32)])


WORK = {
    "log": log,
    "policy": lambda: lambda: zrt.Session(models.add(), providers=callback),
    "thread factory": lambda: (
        lambda: zrt.Session(models.add(), zrt.SessionOptions(thread_factory=callback, intra_op_num_threads=2))
    ),
    "compiled model": lambda: lambda: zrt.compile(models.add(), callback),
    "compiled weights": lambda: (
        lambda: zrt.compile(models.weighted(), lambda _: None, get_initializer_location_func=callback)
    ),
}

threading.Thread(target=WORK[sys.argv[1]](), daemon=True).start()
inside.wait()
print("done", flush=True)
