"""Chooses the library after `zrt.Session` has opened one; prints the source of the used one, and an answer."""

import os

import numpy as np

import zrt
from zrt._native import early_start
from zrt._native.library import library
from zrt._native.library_files import DISTRIBUTIONS, library_file, metadata

session = zrt.Session
early_start.wait()
installed = next(info for info in map(metadata, DISTRIBUTIONS) if info)
os.environ["ZRT_ORT_LIBRARY"] = library_file(installed) or ""

model = os.path.join(os.path.dirname(zrt.__file__), "models", "digits.onnx")
[answer] = session(model).run([np.full((1, 1, 8, 8), 0.5, np.float32)])
print(library().source, answer.argmax())
