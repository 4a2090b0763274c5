"""During a run with a timeout another library sets a handler of SIGINT, which calls the one before; later it goes."""

from __future__ import annotations

import faulthandler
import os
import signal
import threading
import time

import numpy as np

import zrt
from tests.support import models

counting = zrt.Session(models.counting_loop(), zrt.SessionOptions(intra_op_num_threads=1, log_severity_level="FATAL"))
feeds = {"turns": np.array(2**40), "start": np.zeros(2, np.float32)}
log = open(os.devnull, "w")  # noqa: SIM115 (faulthandler writes into it to the end)


def run(timeout, during, *arguments):
    thread = threading.Timer(0.1, during, arguments)
    thread.start()
    try:
        counting.run(feeds, timeout=timeout)
    except (KeyboardInterrupt, zrt.errors.TimeoutError) as error:
        print(type(error).__name__)
    thread.join()


def interrupt():
    os.kill(os.getpid(), signal.SIGINT)


def interrupt_outside():
    try:
        interrupt()
        time.sleep(10)
    except KeyboardInterrupt:
        print("outside")


signal.signal(signal.SIGINT, signal.default_int_handler)
run(0.3, lambda: faulthandler.register(signal.SIGINT, log, chain=True))
interrupt_outside()
run(100, interrupt)
interrupt_outside()
faulthandler.unregister(signal.SIGINT)
run(0.1, lambda: None)
run(100, interrupt)
interrupt_outside()
