"""A forked child gets an error where it runs a session of its parent that has threads; one of its own runs."""

from __future__ import annotations

import os
import sys

import numpy as np

import zrt.onnxruntime as ort
from tests.onnxruntime.models import model
from zrt.errors import ForkedError

FEEDS = {name: np.ones((2, 4), np.float32) for name in "xy"}
threaded, parallel = ort.SessionOptions(), ort.SessionOptions()
threaded.intra_op_num_threads = 2
parallel.intra_op_num_threads = 1
parallel.execution_mode = ort.ExecutionMode.ORT_PARALLEL
sessions = [ort.InferenceSession(model(), options) for options in (threaded, parallel)]
child = os.fork()
for session in sessions:
    if child:
        session.run(None, FEEDS)
        continue
    for feeds in (FEEDS, {name: array.tolist() for name, array in FEEDS.items()}):
        try:
            session.run(None, feeds)
        except ForkedError:
            continue
        raise AssertionError("the session of the parent ran")
if child == 0:
    assert ort.InferenceSession(model(), threaded).run(None, FEEDS)[0].tolist() == [[2] * 4] * 2
    sys.exit(0)
sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
