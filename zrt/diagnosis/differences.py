"""`Difference`: how far two arrays of one value are apart."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from zrt._common.public import public

# The tolerance by default: a part of the second side's value, and what is added to it.
RTOL, ATOL = 1e-3, 1e-5

# Whole numbers as wide as the floats, to count units in the last place.
_WHOLE = {2: np.int16, 4: np.int32, 8: np.int64}


@public
@dataclass(frozen=True, slots=True)
class Difference:
    """A value of a model on two sides (see `zrt.diff`)."""

    name: str
    node: str
    """The node that makes it: its name and operator."""
    within: bool
    """Whether all elements are within the tolerance."""
    largest: float = 0.0
    """The largest distance of two elements; infinite where one is NaN or infinite and the other is not."""
    mean: float = 0.0
    """The mean distance of all elements."""
    ulps: int | None = None
    """The largest distance in units in the last place, for floats of one type; None for others."""
    reason: str = ""
    """Why the values cannot be compared element by element: their shapes."""

    def __str__(self) -> str:
        if self.reason:
            return f"{self.name!r} of {self.node}: {self.reason}"
        ulps = "" if self.ulps is None else f", {self.ulps:,} units in the last place"
        return f"{self.name!r} of {self.node}: at most {self.largest:.3g} apart{ulps}, {self.mean:.3g} in the mean"


def compare(name: str, node: str, a: Any, b: Any, rtol: float, atol: float) -> Difference:
    """The difference of two arrays; elements are within ``atol + rtol * abs(b)`` of each other."""
    a, b = np.asarray(a), np.asarray(b)
    if a.shape != b.shape:
        return Difference(name, node, False, math.inf, math.inf, reason=f"shape {list(a.shape)} and {list(b.shape)}")
    if a.dtype.kind in "OUS" or b.dtype.kind in "OUS":
        apart = a != b
        return Difference(name, node, not apart.any(), float(apart.any()), float(apart.mean()) if apart.size else 0.0)
    left, right = a.astype(np.float64), b.astype(np.float64)
    with np.errstate(invalid="ignore", over="ignore"):
        distance = np.abs(left - right)
        limit = atol + rtol * np.abs(right)
        if a.dtype == b.dtype and a.dtype.kind in "iu":
            # Floats round large whole numbers. The distance of two fits into their type without a sign.
            distance = np.where(a > b, a - b, b - a).view(f"u{a.itemsize}").astype(np.float64)
            left, right = distance, np.zeros_like(distance)
    equal = (left == right) | (np.isnan(left) & np.isnan(right))
    distance = np.where(equal, 0.0, np.where(np.isfinite(distance), distance, np.inf))
    within = bool((equal | (distance <= np.where(np.isfinite(limit), limit, 0.0))).all())
    if not distance.size:
        return Difference(name, node, True)
    return Difference(name, node, within, float(distance.max()), float(distance.mean()), _ulps(a, b, equal))


def _ulps(a: np.ndarray[Any, Any], b: np.ndarray[Any, Any], equal: np.ndarray[Any, Any]) -> int | None:
    if a.dtype != b.dtype or a.dtype.kind != "f" or a.dtype.itemsize not in _WHOLE:
        return None
    apart = ~equal & np.isfinite(a) & np.isfinite(b)
    if not apart.any():
        return 0
    left, right = _places(a[apart]), _places(b[apart])
    return int(np.where(left > right, left - right, right - left).max())


def _places(floats: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Whole numbers in the order of the floats, one apart for neighbours; both zeros have the same."""
    whole = floats.view(_WHOLE[floats.dtype.itemsize])
    ordered = np.where(whole < 0, np.iinfo(whole.dtype).min - whole, whole).astype(np.int64)
    # Without a sign: the distance of two of them fits.
    return ordered.view(np.uint64) ^ np.uint64(1 << 63)
