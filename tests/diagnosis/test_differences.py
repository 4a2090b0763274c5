"""How far two arrays are apart, by known pairs."""

import math
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from zrt.diagnosis.differences import Difference, compare

NAN, INF = math.nan, math.inf


def difference(a: Any, b: Any, rtol: float = 0, atol: float = 0) -> Difference:
    return compare("v", "node", a, b, rtol, atol)


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64, ml_dtypes.bfloat16])
def test_equal_floats(dtype: Any) -> None:
    array = np.array([0, -1, 2, NAN, INF, -INF], dtype)
    found = difference(array, array.copy())
    assert (found.within, found.largest, found.mean) == (True, 0, 0)
    assert found.ulps == (0 if dtype is not ml_dtypes.bfloat16 else None)


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
@pytest.mark.parametrize("value", [1, -1, 0, 1e-5, 60000])
def test_neighbours_are_one_place_apart(dtype: Any, value: float) -> None:
    here = np.array([value, 5], dtype)
    there = np.nextafter(here, dtype(np.inf))
    assert difference(here, there).ulps == 1
    # Zero lies between its neighbours.
    assert difference(np.nextafter(here, dtype(-np.inf)), there).ulps == 2
    assert difference(np.array([0.0], dtype), np.array([-0.0], dtype)).ulps == 0


def test_distances_of_floats() -> None:
    found = difference(np.array([1, 2, 4], np.float32), np.array([1, 2.5, 3], np.float32))
    assert (found.largest, found.mean, found.within) == (1, 0.5, False)


@pytest.mark.parametrize(("rtol", "atol", "within"), [(0.1, 0, False), (0.26, 0, True), (0, 1, True), (0.1, 0.7, True)])
def test_tolerance_is_of_the_second(rtol: float, atol: float, within: bool) -> None:
    assert difference(np.array([5.0]), np.array([4.0]), rtol, atol).within is within


@pytest.mark.parametrize(("a", "b"), [(NAN, 1), (1, NAN), (INF, 1), (1, INF), (INF, -INF), (NAN, INF)])
def test_what_is_not_finite_on_one_side_is_no_tolerance_apart(a: float, b: float) -> None:
    found = difference(np.array([a, 0]), np.array([b, 0]), 1, 1e9)
    assert (found.within, found.largest) == (False, INF)


def test_other_types() -> None:
    assert difference(np.array([1, 2]), np.array([1, 5])).largest == 3
    assert difference(np.array([1, 2]), np.array([1, 5])).ulps is None
    assert not difference(np.array([True, False]), np.array([True, True])).within
    assert difference(np.float16([1]), np.float32([1])).within
    texts = np.array(["a", "b"], object)
    assert difference(texts, texts.copy()).within
    found = difference(texts, np.array(["a", "c"], object))
    assert (found.within, found.mean) == (False, 0.5)


def test_shapes() -> None:
    found = difference(np.zeros((2, 3)), np.zeros((3, 2)), 1, 1)
    assert (found.within, found.reason) == (False, "shape [2, 3] and [3, 2]")
    assert str(found) == "'v' of node: shape [2, 3] and [3, 2]"
    assert difference(np.zeros((0, 3)), np.zeros((0, 3))).within
    assert difference(np.float32(3), np.float32(3)).within


@pytest.mark.parametrize(
    ("dtype", "here", "there", "apart"),
    [
        (np.int64, 2**60, 2**60 + 1, 1),
        (np.uint64, 2**64 - 1, 2**64 - 2, 1),
        (np.int64, -(2**63), 2**63 - 1, 2**64 - 1),
        (np.int8, -128, 127, 255),
    ],
)
def test_whole_numbers_are_compared_as_they_are(dtype: Any, here: int, there: int, apart: int) -> None:
    for a, b in ((here, there), (there, here)):
        found = difference(np.array([a, 5], dtype), np.array([b, 5], dtype))
        assert (found.within, found.largest, found.mean) == (False, float(apart), apart / 2)
        assert difference(np.array(a, dtype), np.array(b, dtype), atol=float(apart)).within
    assert difference(np.array([here], dtype), np.array([here], dtype)).within
