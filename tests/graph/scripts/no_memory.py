"""A lack of memory while a model is read is reported as that, and not as a fault of the model."""

import resource
import sys
from pathlib import Path

import onnx

import zrt

SIZE = 1 << 30
path = Path(sys.argv[1])
with path.open("wb") as file:
    file.truncate(SIZE)
onnx.ModelProto.FromString(b"")
pages = int(Path("/proc/self/statm").read_text().split()[0])
resource.setrlimit(resource.RLIMIT_AS, (pages * resource.getpagesize() + SIZE // 4, -1))
try:
    zrt.Graph.from_onnx(path)
except MemoryError as error:
    print(type(error).__name__)
