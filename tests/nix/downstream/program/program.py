"""A program that is written for the onnxruntime package: it doubles two numbers."""

import base64
from importlib import metadata

import numpy as np
import onnxruntime as ort

MODEL = "CAg6NQoOCgF4CgF4EgF5IgNBZGQSAWdaDwoBeBIKCggIARIECgIIAmIPCgF5EgoKCAgBEgQKAggCQgQKABAN"

session = ort.InferenceSession(base64.b64decode(MODEL), providers=["CPUExecutionProvider"])
[doubled] = session.run(None, {"x": np.array([1, 2], np.float32)})
print(doubled.tolist(), metadata.version("onnxruntime"), ort.__name__)
