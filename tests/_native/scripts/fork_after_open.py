"""Forks while the library is being opened; each child, and the parent, prints the answer of a session of its own."""

import os

import zrt

session = zrt.Session
children = []
for _ in range(3):
    child = os.fork()
    if not child:
        # Those before it are its parent's.
        children = []
        break
    children.append(child)

import numpy as np  # noqa: E402

from tests.robustness.waiting import wait  # noqa: E402

model = os.path.join(os.path.dirname(zrt.__file__), "models", "digits.onnx")
[answer] = session(model).run([np.full((1, 1, 8, 8), 0.5, np.float32)])
print(answer.argmax(), flush=True)
for child in children:
    wait(child)
