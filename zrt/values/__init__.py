"""`Value`, which owns or borrows a value of any kind, and `SparseTensor`, the arrays of a sparse one."""

from __future__ import annotations

from zrt.values.sparse import SparseTensor
from zrt.values.value import Value, as_value

__all__ = ["SparseTensor", "Value", "as_value"]
