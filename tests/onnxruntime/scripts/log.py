"""The default level of the log, which a session without a level of its own has."""

import importlib
import sys

import onnx

name, severity, first = sys.argv[1:]
ort = importlib.import_module(name)
# An initializer that no node uses: ONNX Runtime logs a warning at load.
model = onnx.parser.parse_model(
    '<ir_version: 10, opset_import: ["" : 21]> test (float[n] x) => (float[n] y) <float[1] w = {1}> { y = Abs(x) }'
).SerializeToString()
if first == "session":
    options = ort.SessionOptions()
    options.log_severity_level = 4
    ort.InferenceSession(model, options, providers=["CPUExecutionProvider"])
ort.set_default_logger_severity(int(severity))
ort.InferenceSession(model, providers=["CPUExecutionProvider"])
