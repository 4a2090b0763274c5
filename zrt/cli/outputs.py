"""An output's statistics: range, mean, deviation, number of non-finite elements, best classes."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from zrt.session.call import Result
from zrt.types import ElementType
from zrt.values.sparse import SparseTensor
from zrt.values.type_info import type_name
from zrt.values.value import Value

MOST_CLASSES: Final = 100_000
TOP: Final = 5
KINDS: Final[dict[type, str]] = {list: "sequence", dict: "map", SparseTensor: "sparse_tensor"}


def describe(result: Result | None) -> dict[str, Any]:
    """Plain data for JSON: statistics of the finite elements; only the ``kind`` of an output without numbers."""
    if result is None:
        return {"kind": "nothing"}
    if isinstance(result, Value):
        if not result.element_type.packed:
            return {"kind": result.kind.name.lower()}
        result = result.unpack()
    if not isinstance(result, np.ndarray):
        return {"kind": KINDS[type(result)]}
    element_type = ElementType.of(result.dtype)
    if element_type is ElementType.STRING:
        return {"kind": "strings", "shape": list(result.shape)}
    numbers = result.astype(np.float64)
    finite = numbers[np.isfinite(numbers)]
    some = finite.size > 0
    mean, deviation = _spread(finite) if some else (None, None)
    # Integers of 64 bits keep all their digits.
    values = result if element_type.dtype.kind in "iu" else finite
    return {
        "kind": "tensor",
        "type": type_name(element_type),
        "shape": list(result.shape),
        "min": values.min().item() if some else None,
        "max": values.max().item() if some else None,
        "mean": mean,
        "deviation": deviation,
        "nan": int(np.isnan(numbers).sum()),
        "infinite": int(np.isinf(numbers).sum()),
        "top": _top(numbers) if element_type.dtype.kind not in "iub" else None,
    }


def is_finite(description: dict[str, Any]) -> bool:
    """Whether the described output has neither NaN nor infinity."""
    return not description.get("nan") and not description.get("infinite")


def _spread(finite: np.ndarray[Any, np.dtype[np.float64]]) -> tuple[float, float]:
    """The mean and the deviation. They are computed on numbers below 1: the squares of large ones overflow."""
    _, exponent = np.frexp(np.abs(finite).max())
    scaled = np.ldexp(finite, -exponent)
    return float(np.ldexp(scaled.mean(), exponent)), float(np.ldexp(scaled.std(), exponent))


def _top(numbers: np.ndarray[Any, np.dtype[np.float64]]) -> list[dict[str, Any]] | None:
    """The best five classes of the first row, if the shape is that of class scores: [N, C] or [1, C, 1, 1]."""
    squeezed = numbers.squeeze()
    if numbers.ndim == 2 and numbers.shape[0] > 0:
        row = numbers[0]
    elif numbers.ndim > 2 and squeezed.ndim == 1:
        row = squeezed
    else:
        return None
    if not 2 <= row.size <= MOST_CLASSES:
        return None
    candidates = np.flatnonzero(np.isfinite(row))
    best = candidates[np.argsort(-row[candidates], kind="stable")][:TOP]
    return [{"index": int(index), "value": float(row[index])} for index in best]
