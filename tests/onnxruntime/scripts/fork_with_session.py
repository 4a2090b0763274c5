"""A forked child runs sessions of its parent that have no threads, and sessions of its own; others raise an error."""

import os
import sys
from typing import Any

import numpy as np

import zrt.onnxruntime as ort
from tests.onnxruntime.models import FEEDS, TWOS, model
from zrt.diagnosis import capsules
from zrt.errors import ForkedError


def load(threads: int, parallel: bool = False) -> Any:
    options = ort.SessionOptions()
    options.intra_op_num_threads = threads
    if parallel:
        options.execution_mode = ort.ExecutionMode.ORT_PARALLEL
    return ort.InferenceSession(model(), options)


def check(session: Any, refused: bool = False) -> None:
    for feeds in (FEEDS, {name: array.tolist() for name, array in FEEDS.items()}):
        try:
            assert session.run(None, feeds)[0].tolist() == TWOS
        except ForkedError:
            assert refused
        else:
            assert not refused


def fail(session: Any) -> None:
    try:
        session.run(None, {name: array[np.newaxis] for name, array in FEEDS.items()})
    except ort.capi.onnxruntime_pybind11_state.InvalidArgument:
        return
    raise AssertionError("the run did not fail")


# A recorder keeps one, and a child removes none of its parent's.
capsules.MOST = 1
alone, *threaded = load(1), load(2), load(1, parallel=True)
check(alone)
fail(alone)
child = os.fork()
check(alone)
if child == 0:
    fail(alone)
for session in threaded:
    check(session, refused=child == 0)
if child == 0:
    check(load(1))
    check(load(2))
    sys.exit(0)
sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
