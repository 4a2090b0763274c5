"""Computes one result of the model in argument 1 with onnxruntime, and prints the class."""

import sys

import numpy as np
import onnxruntime

options = onnxruntime.SessionOptions()
options.intra_op_num_threads = 1
session = onnxruntime.InferenceSession(sys.argv[1], options, providers=["CPUExecutionProvider"])
[answer] = session.run(None, {"image": np.full((1, 1, 8, 8), 0.5, "float32")})
print(answer.argmax())
