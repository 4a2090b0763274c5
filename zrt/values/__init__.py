"""`Value`, which owns or borrows a value of any kind, and `SparseTensor`, the arrays of a sparse one.

Both are imported at their first use: a run on arrays needs neither.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from zrt.values.sparse import SparseTensor
    from zrt.values.value import Value, as_output, as_value

_HOMES = {"SparseTensor": "sparse", "Value": "value", "as_output": "value", "as_value": "value"}

__all__ = ["SparseTensor", "Value", "as_output", "as_value"]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'zrt.values' has no attribute {name!r}")
    value = getattr(importlib.import_module(f"zrt.values.{_HOMES[name]}"), name)
    globals()[name] = value
    return value
