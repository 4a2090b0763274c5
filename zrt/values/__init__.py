"""`Value`: what ONNX Runtime holds, of any kind; and `SparseTensor`, which is what a sparse one is made of."""

from __future__ import annotations

from zrt.values.sparse import SparseTensor
from zrt.values.value import Value, as_value

__all__ = ["SparseTensor", "Value", "as_value"]
