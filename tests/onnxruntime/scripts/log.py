"""The default level of the log, which a session without a level of its own has."""

import importlib
import sys

from tests.onnxruntime.models import model

name, first = sys.argv[1:]
ort = importlib.import_module(name)
# An initializer that no node uses: ONNX Runtime logs a warning at load.
data = model("agraph (float[n] x) => (float[n] y) <float[1] w = {1}> { y = Abs(x) }")
if first == "session":
    options = ort.SessionOptions()
    options.log_severity_level = 4
    ort.InferenceSession(data, options, providers=["CPUExecutionProvider"])
for severity in (3, 2):
    print(f"severity {severity}", file=sys.stderr, flush=True)
    ort.set_default_logger_severity(severity)
    ort.InferenceSession(data, providers=["CPUExecutionProvider"])
