"""Prints the class of the error that a function, named in the argument, raises for a wrong ``ZRT_CPUS``."""

import os
import sys

import zrt.onnxruntime as ort

os.environ["ZRT_CPUS"] = "many"
arguments = []
if sys.argv[1] == "InferenceSession":
    options = ort.SessionOptions()
    options.use_per_session_threads = False
    arguments = [b"no model", options]
try:
    getattr(ort, sys.argv[1])(*arguments)
except Exception as error:
    assert "ZRT_CPUS: 'many'" in str(error)
    print(type(error).__name__)
