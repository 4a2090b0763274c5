"""The names that the scripts of the robustness tests share, and what makes a failure in a thread fail the script."""

from __future__ import annotations

import faulthandler
import os
import sys
import threading

import numpy as np

import zrt
from tests.support import models

QUIET = zrt.SessionOptions(intra_op_num_threads=1, log_severity_level="FATAL")
ADD = models.add(["n"])
FEEDS = {"x": np.arange(4, dtype=np.float32), "y": np.ones(4, np.float32)}
SUM = FEEDS["x"] + FEEDS["y"]


def same(found, wanted):
    """Asserts that two arrays are equal."""
    assert np.array_equal(found, wanted), (found, wanted)


def session(options=QUIET):
    """z = x + y over float32 [n]."""
    return zrt.Session(ADD, options)


def lane(session):
    """A lane with `FEEDS` in its inputs."""
    made = session.lane({"x": 4, "y": 4})
    for name, feed in FEEDS.items():
        made.inputs[name][...] = feed
    return made


def binding(session):
    """A binding with `FEEDS` bound, and its output left to ONNX Runtime."""
    made = session.binding()
    for name, feed in FEEDS.items():
        made.bind_input(name, feed)
    made.bind_output("z")
    return made


def fail(failed):
    """Ends the process with status 9 when a thread raises."""
    sys.__excepthook__(failed.exc_type, failed.exc_value, failed.exc_traceback)
    os._exit(9)


faulthandler.enable()
threading.excepthook = fail
