"""Options, models and callbacks that the scripts of test_seams.py share."""

from __future__ import annotations

import logging
import threading

import numpy as np
import onnx

import zrt
from tests.robustness.prologue import FEEDS
from tests.support import models

W = np.arange(1024, dtype=np.float32)
WEIGHTED = models.build(
    [models.node("Add", ["x", "w"], ["y"])],
    [models.tensor("x", 1, [1024])],
    [models.tensor("y", 1, [1024])],
    {"w": W},
)
LOGGED = logging.getLogger("zrt.test")
LOGGED.propagate = False
LOGGED.setLevel("DEBUG")


def factory(work):
    """A thread factory."""
    return threading.Thread(target=work)


def built(text):
    """A model from ONNX's own notation."""
    return onnx.parser.parse_model(f'<ir_version: 10, opset_import: ["" : 21]> test {text}')


def own_threads(**fields):
    """Session options with threads made by `factory`."""
    return zrt.SessionOptions(intra_op_num_threads=3, thread_factory=factory, **fields)


def called_back(session, act):
    """The result or exception of `act`, called in a future's callback on the bridge's own thread."""
    outcomes, done = [], threading.Event()

    def call(_):
        try:
            # The callback of a future that is already done runs in the thread that adds it.
            if threading.current_thread().name == "zrt-bridge":
                outcomes.append(act())
        except BaseException as error:
            outcomes.append(error)
        done.set()

    while not outcomes:
        done.clear()
        future = session.submit(FEEDS)
        future.add_done_callback(call)
        assert done.wait(60)
    return outcomes[0]
