"""Forks while ONNX Runtime starts; each child, and the parent, prints the answer of a session of its own."""

import os

import numpy as np

import zrt
from tests.robustness.forking import fork
from zrt._native import early_start
from zrt.session.session import Session


def answer():
    model = os.path.join(os.path.dirname(zrt.__file__), "models", "digits.onnx")
    [scores] = Session(model).run([np.full((1, 1, 8, 8), 0.5, np.float32)])
    print(scores.argmax(), flush=True)


# The modules have been imported by now, so that the first fork comes while ONNX Runtime starts.
early_start.start()
for _ in range(3):
    fork(answer)
answer()
