"""SIGINT has another handler than Python's own during a run with a timeout."""

from __future__ import annotations

import os
import signal
import threading

import numpy as np

import zrt
from tests.support import models

counting = zrt.Session(models.counting_loop(), zrt.SessionOptions(intra_op_num_threads=1, log_severity_level="FATAL"))
feeds = {"turns": np.array(2**40), "start": np.zeros(2, np.float32)}


class OwnError(Exception):
    pass


def raising(number, frame):
    raise OwnError("the handler's own error")


def run(timeout):
    sender = threading.Timer(0.1, os.kill, (os.getpid(), signal.SIGINT))
    sender.start()
    try:
        counting.run(feeds, timeout=timeout)
    finally:
        sender.join()


signal.signal(signal.SIGINT, lambda number, frame: print("called"))
try:
    run(100)
except zrt.errors.TerminatedError as error:
    print(f"TerminatedError: {error}")
signal.signal(signal.SIGINT, raising)
try:
    run(100)
except OwnError as error:
    print(error)
signal.signal(signal.SIGINT, signal.SIG_IGN)
try:
    run(0.3)
except TimeoutError as error:
    print(f"ignored: {type(error).__name__}")
