"""An operator in Python runs another session with a deadline of its own, inside a run with a deadline."""

from __future__ import annotations

import os
import signal
import threading

import numpy as np

import zrt
from tests.custom_ops.support import ONE, Op, X, load
from tests.support import models

signal.signal(signal.SIGINT, signal.default_int_handler)
counting = zrt.Session(models.counting_loop(), zrt.SessionOptions(intra_op_num_threads=1, log_severity_level="FATAL"))
feeds = {"turns": np.array(2**40), "start": np.zeros(2, np.float32)}


class Nested(Op):
    seconds = 0.05

    def work(self, context):
        if self.seconds:
            counting.run(feeds, timeout=self.seconds)
        context.output(0, (4,))[...] = 1


nested = Nested()
session = load(ONE, nested)
try:
    session.run([X], timeout=100)
except zrt.errors.CallbackError as error:
    print(type(error.__cause__).__name__)

nested.seconds = 100
sender = threading.Timer(0.1, os.kill, (os.getpid(), signal.SIGINT))
sender.start()
try:
    session.run([X], timeout=100)
except KeyboardInterrupt:
    print("interrupted")
sender.join()

nested.seconds = 0
print(session.run([X], timeout=100)[0].tolist())
try:
    os.kill(os.getpid(), signal.SIGINT)
    threading.Event().wait(10)
except KeyboardInterrupt:
    print("interrupted")
