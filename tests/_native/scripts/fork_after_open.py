"""Forks while the library is being opened; each child, and the parent, prints the answer of a session of its own."""

import os

import numpy as np

import zrt
from tests.robustness.waiting import wait
from zrt._native import preload
from zrt.session.session import Session

# The modules have been imported by now, so that the forks come while the library is being opened.
preload.start()
children = []
for _ in range(3):
    child = os.fork()
    if not child:
        # Those before it are its parent's.
        children = []
        break
    children.append(child)

model = os.path.join(os.path.dirname(zrt.__file__), "models", "digits.onnx")
[answer] = Session(model).run([np.full((1, 1, 8, 8), 0.5, np.float32)])
print(answer.argmax(), flush=True)
for child in children:
    wait(child)
