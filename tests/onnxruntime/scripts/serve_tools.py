"""The tools of the official package run on this one."""

import sys
import tempfile
from pathlib import Path

import numpy as np

import zrt.onnxruntime as ours
from tests.support import models

ours.install()

import onnxruntime  # noqa: E402
from onnxruntime import datasets, quantization  # noqa: E402
from onnxruntime.tools.make_dynamic_shape_fixed import make_dynamic_shape_fixed_helper  # noqa: E402
from onnxruntime.transformers.onnx_model import OnnxModel  # noqa: E402

official = Path(quantization.__file__).parents[1]
assert official != Path(ours.__file__).parent
assert quantization.__name__ == "onnxruntime.quantization"
assert sys.modules["zrt.onnxruntime.quantization"] is quantization
assert quantization.quant_utils.InferenceSession is ours.InferenceSession
# The library alone is shared: no extension module of the official package is loaded.
assert not [name for name, module in sys.modules.items() if "pybind11_state.c" in str(getattr(module, "__file__", ""))]

assert onnxruntime.InferenceSession(datasets.get_example("sigmoid.onnx")).get_inputs()[0].name == "x"
assert callable(make_dynamic_shape_fixed_helper)
assert callable(OnnxModel)

weights = np.random.default_rng(0).normal(size=(8, 4)).astype(np.float32)
model = models.parse("(float[2, 8] x) => (float[2, 4] y) { y = MatMul(x, w) }", w=weights)
with tempfile.TemporaryDirectory() as folder:
    plain, small = f"{folder}/plain.onnx", f"{folder}/small.onnx"
    Path(plain).write_bytes(model)
    # Sums of 8-bit products overflow on a processor without VNNI.
    quantization.quantize_dynamic(plain, small, reduce_range=True)
    x = np.ones((2, 8), np.float32)
    [exact], [close] = (onnxruntime.InferenceSession(path).run(None, {"x": x}) for path in (plain, small))
np.testing.assert_allclose(close, exact, atol=0.1)
