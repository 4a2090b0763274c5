"""Computes one result of a model with the package in argument 1, and prints a digest of it.

The other arguments are the model, an .npz file of feeds, and the folder of zrt's cache or "".
"""

import sys

import numpy as np

package, model, feeds, cache = sys.argv[1:]
arrays = dict(np.load(feeds))
if package == "zrt":
    import zrt

    session = zrt.Session(model, zrt.SessionOptions(intra_op_num_threads=1, cache=cache or None))
    results = session.run(arrays)
else:
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    results = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"]).run(None, arrays)
print([float(np.abs(result).sum(dtype="float64")) for result in results])
