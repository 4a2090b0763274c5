"""Lines that find no memory are printed, and the next line says how many there were.

With an argument the system takes the lines in parts: signals interrupt the writing.
"""

import resource
import signal
import sys
from pathlib import Path

from tests.support.log_queue import log, number, received
from zrt._native import bridge, ffi, lib

# Allow little more memory than the process has already.
pages = int(Path("/proc/self/statm").read_text().split()[0])
huge = ffi.new("char[]", b"0123456789" * (10 << 20))
resource.setrlimit(resource.RLIMIT_AS, ((pages * 4096) + (130 << 20), -1))
if sys.argv[1:]:
    signal.signal(signal.SIGALRM, lambda *_: None)
    signal.setitimer(signal.ITIMER_REAL, 1e-3, 1e-3)
for _ in range(2):
    lib.zrt_log_sink(number, 2, b"category", b"id", b"file.cc:7 function", huge)
signal.setitimer(signal.ITIMER_REAL, 0)
resource.setrlimit(resource.RLIMIT_AS, (-1, -1))
assert bridge.flush(60)
assert not received
log("small")
assert bridge.flush(60)
assert [record.getMessage() for record in received] == [
    "2 lines of ONNX Runtime's log found no memory and went to standard error",
    "small",
]
log("next")
assert bridge.flush(60)
assert len(received) == 3
