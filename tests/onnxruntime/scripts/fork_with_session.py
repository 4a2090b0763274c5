"""A forked child runs the session of its parent, and one of its own; both end without a crash."""

from __future__ import annotations

import os
import sys
from typing import Any

import numpy as np

import zrt.onnxruntime as ort
from tests.onnxruntime.models import model

FEEDS = {name: np.ones((2, 4), np.float32) for name in "xy"}


def load() -> Any:
    options = ort.SessionOptions()
    # The child has no threads but its own.
    options.intra_op_num_threads = 1
    return ort.InferenceSession(model(), options)


def check(session: Any) -> None:
    for feeds in (FEEDS, {name: array.tolist() for name, array in FEEDS.items()}):
        assert session.run(None, feeds)[0].tolist() == [[2] * 4] * 2


session = load()
check(session)
child = os.fork()
if child == 0:
    check(session)
    check(load())
    sys.exit(0)
_, status = os.waitpid(child, 0)
check(session)
sys.exit(os.waitstatus_to_exitcode(status))
