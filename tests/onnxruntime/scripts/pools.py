"""The global thread pools of a process: made once, and used by sessions that have no threads of their own."""

import importlib
import sys

import numpy as np
import onnx

from tests.support import tasks

name, after = sys.argv[1:]
ort = importlib.import_module(name)
state = importlib.import_module(f"{name}.capi.onnxruntime_pybind11_state")
model = onnx.parser.parse_model(
    '<ir_version: 10, opset_import: ["" : 21]> test (float[n] x) => (float[n] y) { y = Abs(x) }'
).SerializeToString()


if after == "severity":
    ort.set_default_logger_severity(3)
before = tasks.count()
ort.set_global_thread_pool_sizes(3, inter_op_num_threads=2)
pools = tasks.count() - before
options = ort.SessionOptions()
options.use_per_session_threads = False
options.intra_op_num_threads = 4
session = ort.InferenceSession(model, options, providers=["CPUExecutionProvider"])
assert tasks.count() - before == pools
assert session.run(None, {"x": np.array([-1], np.float32)})[0].tolist() == [1]
try:
    ort.set_global_thread_pool_sizes(3, 2)
except state.Fail as error:
    assert str(error) == (
        "[ONNXRuntimeError] : 1 : FAIL : Global thread pools have already been created, cannot replace them"
    )
else:
    raise AssertionError("a second pair of pools")
print(pools)
