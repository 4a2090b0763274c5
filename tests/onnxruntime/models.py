"""Small models for the tests of the drop-in, as bytes in ONNX's own notation."""

from __future__ import annotations

from functools import cache

import onnx.parser

HEAD = '<ir_version: 8, opset_import: ["" : 17, "ai.onnx.ml" : 3, "com.microsoft" : 1]>'

ADD = "agraph (float[n,4] x, float[n,4] y) => (float[n,4] z) { z = Add(x, y) }"


@cache
def model(text: str = ADD) -> bytes:
    """The bytes of a model."""
    made = onnx.parser.parse_model(f"{HEAD}\n{text}")
    data: bytes = made.SerializeToString()
    return data
