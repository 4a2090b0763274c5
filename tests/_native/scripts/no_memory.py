"""Lines that find no memory are printed, and the next line says how many there were."""

import resource
from pathlib import Path

from tests.support.log_queue import log, number, received
from zrt._native import bridge, ffi, lib

# Allow little more memory than the process has already.
pages = int(Path("/proc/self/statm").read_text().split()[0])
huge = ffi.new("char[]", b"x" * (100 << 20))
resource.setrlimit(resource.RLIMIT_AS, ((pages * 4096) + (130 << 20), -1))
for _ in range(2):
    lib.zrt_log_sink(number, 2, b"category", b"id", b"file.cc:7 function", huge)
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
