"""The global thread pools of a process: made once, and used by sessions that have no threads of their own."""

import importlib
import sys

import numpy as np

from tests.onnxruntime.models import model
from tests.support import tasks

name, after = sys.argv[1:]
ort = importlib.import_module(name)
state = importlib.import_module(f"{name}.capi.onnxruntime_pybind11_state")
data = model("agraph (float[n] x) => (float[n] y) { y = Abs(x) }")


if after == "severity":
    ort.set_default_logger_severity(3)
before = tasks.count()
ort.set_global_thread_pool_sizes(3, inter_op_num_threads=2)
pools = tasks.count() - before
options = ort.SessionOptions()
options.use_per_session_threads = False
options.intra_op_num_threads = 4
session = ort.InferenceSession(data, options, providers=["CPUExecutionProvider"])
assert tasks.count() - before == pools
assert session.run(None, {"x": np.array([-1], np.float32)})[0].tolist() == [1]
options.use_per_session_threads = True
for error, work in [
    (state.Fail, lambda: ort.set_global_thread_pool_sizes(3, 2)),
    (RuntimeError, lambda: ort.InferenceSession(data, options, enable_fallback=False)),
]:
    try:
        work()
    except error:
        continue
    raise AssertionError("a second pair of pools")
print(pools)
