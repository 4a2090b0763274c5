"""Profiling whose file exceeds the size limit raises FileError."""

import os
import resource
import signal
import sys

import zrt
from tests.robustness.prologue import FEEDS, session

os.chdir(sys.argv[1])
options = zrt.SessionOptions(intra_op_num_threads=1, log_severity_level="FATAL", profile_file_prefix="p")
profiled = session(options)
whole = session(options)
profiled.run(FEEDS)
whole.end_profiling()
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (100, resource.RLIM_INFINITY))
try:
    profiled.end_profiling()
except zrt.errors.FileError as error:
    assert "not all of it" in str(error), error
else:
    raise SystemExit("the trace was cut short, and no error was raised")
