"""onnxruntime.quantization over the model in argument 1: dynamic, and static with calibration; prints the answers."""

import sys

import numpy as np
import onnxruntime
from onnxruntime.quantization import CalibrationDataReader, quantize_dynamic, quantize_static, shape_inference


class Digits(CalibrationDataReader):
    """Eight images of noise."""

    def __init__(self) -> None:
        generator = np.random.default_rng(0)
        self.feeds = iter([{"image": generator.random((1, 1, 8, 8), np.float32)} for _ in range(8)])

    def get_next(self) -> dict[str, np.ndarray] | None:
        return next(self.feeds, None)


shape_inference.quant_pre_process(sys.argv[1], "prepared.onnx")
quantize_dynamic("prepared.onnx", "dynamic.onnx")
quantize_static("prepared.onnx", "static.onnx", Digits())
for path in ("prepared.onnx", "dynamic.onnx", "static.onnx"):
    session = onnxruntime.InferenceSession(path)
    print(path, [answer.tolist() for answer in session.run(None, Digits().get_next())])
