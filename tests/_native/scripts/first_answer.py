"""Computes a first answer with a table of all functions that can be handed to C, and read by nobody.

The argument is "zrt" or "drop-in". The first function that Python reads in the table would have cffi make the types of
all of them.
"""

import sys
from pathlib import Path

import numpy as np

import zrt
from zrt._native import ffi, library

MODEL = Path(zrt.__file__).parent / "models" / "digits.onnx"

library.library()
library._table = ffi.cast("void *", library._table)

feeds = {"image": np.full((1, 1, 8, 8), 0.5, "float32")}
if sys.argv[1] == "zrt":
    [answer] = zrt.Session(MODEL, zrt.SessionOptions(intra_op_num_threads=1)).run(feeds)
else:
    import zrt.onnxruntime as ort

    options = ort.SessionOptions()
    options.intra_op_num_threads = 1
    [answer] = ort.InferenceSession(MODEL, options, providers=["CPUExecutionProvider"]).run(None, feeds)
print(answer.argmax())
