"""Global thread pools cannot be made once there is an environment."""

import zrt.onnxruntime as ort
from zrt import Environment
from zrt.onnxruntime.capi.onnxruntime_pybind11_state import Fail

Environment()
try:
    ort.set_global_thread_pool_sizes(3, 2)
except Fail as error:
    print(error)
