"""A program for the onnxruntime package: it runs the model that the argument names, and waits for the end of its input.

It prints the file of the module that has the package's own library in it.
"""

import sys
from importlib import import_module

import numpy as np
import onnxruntime as ort

options = ort.SessionOptions()
options.intra_op_num_threads = 1
session = ort.InferenceSession(sys.argv[1], options, providers=["CPUExecutionProvider"])
session.run(None, {each.name: np.ones(4, np.float32) for each in session.get_inputs()})
print(import_module("onnxruntime.capi.onnxruntime_pybind11_state").__file__, flush=True)
sys.stdin.read()
