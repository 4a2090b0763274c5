"""Loads and runs the mutated model of the seed in argument 1 with the onnxruntime package."""

import sys

import numpy as np
import onnxruntime

from tests.robustness.test_fuzz_models import mutated, valid_models

options = onnxruntime.SessionOptions()
options.intra_op_num_threads, options.log_severity_level = 1, 4
try:
    one = onnxruntime.InferenceSession(mutated(int(sys.argv[1]), valid_models()), options)
    kinds = {"tensor(float)": "f4", "tensor(int64)": "i8", "tensor(bool)": "?", "tensor(float16)": "f2"}
    kinds |= {"tensor(uint8)": "u1", "tensor(double)": "f8"}
    feeds = {}
    for each in one.get_inputs():
        shape = [size if isinstance(size, int) else 2 for size in each.shape]
        feeds[each.name] = np.ones(shape, kinds.get(each.type, "f4"))
    one.run(None, feeds)
except Exception as error:
    print(error)
