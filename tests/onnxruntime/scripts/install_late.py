"""`install()` after an import of the official package raises an error that says so, and changes nothing."""

import sys

import onnxruntime

import zrt.onnxruntime

before = list(sys.meta_path)
try:
    zrt.onnxruntime.install()
except ImportError as error:
    assert "call zrt.onnxruntime.install() before the first import of onnxruntime" in str(error)
else:
    raise AssertionError("no error")
assert sys.modules["onnxruntime"] is onnxruntime
assert sys.meta_path == before
