"""The C library that runs these tests, on which some words, names and clocks depend."""

import platform
import sys
import time

GLIBC = platform.libc_ver()[0] == "glibc"
MUSL = sys.platform == "linux" and not GLIBC

# Those that a trace may begin by: the official library for glibc has the first, one for musl either.
TRACE_CLOCKS = [time.time_ns] if GLIBC else [time.time_ns, time.monotonic_ns]
