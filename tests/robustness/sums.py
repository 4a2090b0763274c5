"""The model z = x + y over float32 [n], its feeds, and objects over it, each ready to run."""

import numpy as np

import zrt
from tests.support import models
from tests.support.bindings import bind

QUIET = zrt.SessionOptions(intra_op_num_threads=1, log_severity_level="FATAL")
ADD = models.add(["n"])
FEEDS = {"x": np.arange(4, dtype=np.float32), "y": np.ones(4, np.float32)}
SUM = FEEDS["x"] + FEEDS["y"]


def same(result, wanted):
    """Asserts that two arrays are equal."""
    assert np.array_equal(result, wanted), (result, wanted)


def session(options=QUIET):
    return zrt.Session(ADD, options)


def lane(session, **options):
    """A lane with `FEEDS` in its inputs."""
    lane = session.lane({"x": 4, "y": 4}, **options)
    for name, feed in FEEDS.items():
        lane.inputs[name][...] = feed
    return lane


def binding(session):
    """A binding with `FEEDS` bound, and its output left to ONNX Runtime."""
    return bind(session, FEEDS, "z")


def ran(item, output):
    """Asserts that a run of a lane or a binding gives the sum."""
    item.run()
    same(output(item), SUM)
