"""Profiled runs whose traces cannot be written raise FileError, not an error about the session or the trace's form."""

import os
import resource
import signal
from collections.abc import Iterator
from contextlib import contextmanager

import zrt
from tests.robustness.prologue import FEEDS, session

profiled = session(zrt.SessionOptions(intra_op_num_threads=1, log_severity_level="FATAL"))
profiled.profile(FEEDS, runs=1)
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)


@contextmanager
def limit(kind: int, most: int) -> Iterator[None]:
    before = resource.getrlimit(kind)
    resource.setrlimit(kind, (most, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(kind, before)


def free_descriptor() -> int:
    lowest = os.open(os.devnull, os.O_RDONLY)
    os.close(lowest)
    return lowest


for kind, most in (
    (resource.RLIMIT_FSIZE, 0),
    (resource.RLIMIT_FSIZE, 100),
    (resource.RLIMIT_NOFILE, free_descriptor()),
):
    try:
        with limit(kind, most):
            profiled.profile(FEEDS, runs=1)
    except zrt.errors.FileError as error:
        assert "ONNX Runtime could not write it" in str(error), error
    else:
        raise SystemExit("a trace was not written whole, and no error was raised")
profiled.profile(FEEDS, runs=1)
