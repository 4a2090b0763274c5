"""Without the onnx package `Graph` raises UnsupportedError."""

from __future__ import annotations

import sys

sys.modules["onnx"] = None

import zrt  # noqa: E402

try:
    zrt.Graph()
except zrt.errors.UnsupportedError as error:
    assert "pip install" in str(error)
else:
    raise AssertionError
