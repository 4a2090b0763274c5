"""onnxconverter-common converts a model to float16, all of it and as far as its answers stay close: shrink.py MODEL."""

import sys

import numpy as np
import onnx
import onnxruntime
from onnxconverter_common import auto_mixed_precision, float16

model = onnx.load(sys.argv[1])
feeds = {"image": np.random.default_rng(0).random((1, 1, 8, 8), dtype=np.float32)}
for converted in (
    float16.convert_float_to_float16(model, keep_io_types=True),
    auto_mixed_precision.auto_convert_mixed_precision(model, feeds, rtol=0.01, atol=0.001, keep_io_types=True),
):
    session = onnxruntime.InferenceSession(converted.SerializeToString(), providers=["CPUExecutionProvider"])
    print(session.run(None, feeds)[0].tobytes().hex())
