"""A module that Python clears after zrt's modules keeps a binding."""

import sys

import numpy.linalg

import zrt.onnxruntime as ort
from tests.support import models

if sys.argv[1] == "installed":
    ort.install()
session = ort.InferenceSession(models.add(["n"]))
numpy.linalg.kept = session.io_binding()  # type: ignore[attr-defined]
