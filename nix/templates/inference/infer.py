"""One inference on the digit classifier that zrt ships."""

from importlib.resources import files

import numpy as np

import zrt

shipped = files("zrt.models")
digits = np.load(shipped / "digits.npz")
image = (digits["images"][:1] / 16).astype(np.float32).reshape(1, 1, 8, 8)

session = zrt.Session(shipped / "digits.onnx")
[probabilities] = session.run({"image": image})
print(f"read: {probabilities.argmax()}, written: {digits['labels'][0]}")
