"""The interpreter ends while daemon threads are in callbacks of ONNX Runtime's, which the arguments name."""

import sys
import threading
import time

import numpy as np

import tests.robustness.prologue  # noqa: F401
import zrt
from tests.support import models
from zrt.environment.environment import set_log_callback


def blocks(inside):
    """A callback that keeps its thread to the end of the process, once it has set the event."""

    def callback(*_):
        inside.set()
        while threading.current_thread() is not threading.main_thread():
            time.sleep(0.0005)

    return callback


def log(callback):
    set_log_callback(callback)
    session = zrt.Session(models.parse("(float[n] x) => (float[3] y) { y = Identity(x) }"))
    # ONNX Runtime warns of the shape of the output.
    session.run([np.zeros(4, np.float32)])


WORK = {
    "log": log,
    "policy": lambda callback: zrt.Session(models.add(), providers=callback),
    "thread factory": lambda callback: zrt.Session(
        models.add(), zrt.SessionOptions(thread_factory=callback, intra_op_num_threads=2)
    ),
    "compiled model": lambda callback: zrt.compile(models.add(), callback),
    "compiled weights": lambda callback: zrt.compile(
        models.weighted(), lambda _: None, get_initializer_location_func=callback
    ),
}
for name in sys.argv[1:]:
    inside = threading.Event()
    threading.Thread(target=WORK[name], args=(blocks(inside),), daemon=True).start()
    inside.wait()
print("done", flush=True)
