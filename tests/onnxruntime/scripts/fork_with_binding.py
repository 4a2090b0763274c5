"""A forked child uses the bindings and values of its parent; both end with them in module variables and in cycles."""

import os
import sys
import threading
from typing import Any

import numpy as np

import zrt.onnxruntime as ort
from tests.support import models

options = ort.SessionOptions()
# The child has no threads but its own.
options.intra_op_num_threads = 1
session = ort.InferenceSession(models.add(["n"]), options)
value = ort.OrtValue.ortvalue_from_numpy(np.ones(4, np.float32))
binding = session.io_binding()
binding.bind_ortvalue_input("x", value)
binding.bind_cpu_input("y", np.ones(4, np.float32))
binding.bind_output("z")
# A cycle that only the end of the interpreter collects.
binding.itself = binding
value.binding = binding


def check(binding: Any) -> None:
    for number in range(5):
        value.update_inplace(np.full(4, number, np.float32))
        session.run_with_iobinding(binding)
        assert binding.copy_outputs_to_cpu()[0].tolist() == [number + 1] * 4
        assert binding.get_outputs()[0].numpy().tolist() == [number + 1] * 4


check(binding)
child = os.fork()
if child == 0:
    check(binding)
    other = session.io_binding()
    other.bind_ortvalue_input("x", value)
    other.bind_cpu_input("y", np.ones(4, np.float32))
    other.bind_output("z")
    check(other)
    sys.exit(0)
_, status = os.waitpid(child, 0)
check(binding)


def forever() -> None:
    while True:
        session.run_with_iobinding(binding)


# The interpreter ends during a run.
threading.Thread(target=forever, daemon=True).start()
sys.exit(os.waitstatus_to_exitcode(status))
