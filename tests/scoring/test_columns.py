"""Columns as the inputs of a model."""

from typing import Any

import ml_dtypes
import numpy as np
import pytest

from zrt.errors import DTypeError
from zrt.scoring.columns import Wanted, fit, fit_each, stack

FLOATS = Wanted("x", np.dtype(np.float32), (2,))
NUMBER = Wanted("k", np.dtype(np.int32), ())
OPEN = Wanted("x", np.dtype(np.float32), (None,))


def test_array_of_the_right_type_is_not_copied() -> None:
    rows = np.ones((5, 2), np.float32)
    assert fit("c", rows, FLOATS).values is rows


@pytest.mark.parametrize("shape", [(5, 2, 1), (5, 1, 2)])
def test_row_of_as_many_numbers_is_reshaped(shape: tuple[int, ...]) -> None:
    fitted = fit("c", np.ones(shape, np.float32), FLOATS)
    assert np.shape(fitted.values) == (5, 2)
    assert not fitted.bad


def test_rows_of_another_shape_are_bad() -> None:
    fitted = fit("c", np.ones((2, 3), np.float32), FLOATS)
    assert fitted.bad == {0: "c: shape [3], not shape [2]", 1: "c: shape [3], not shape [2]"}


@pytest.mark.parametrize("dtype", [np.int64, np.float64, np.uint8, bool, np.float16])
def test_numbers_are_converted(dtype: type) -> None:
    values = fit("c", np.ones((3, 2), dtype), FLOATS).values
    assert np.asarray(values).dtype == np.float32


def test_texts_of_any_type_of_numpy_are_texts() -> None:
    wanted = Wanted("s", np.dtype(object), ())
    for dtype in ("U1", "S1", *([np.dtypes.StringDType()] if hasattr(np.dtypes, "StringDType") else [])):
        assert len(fit("c", np.array(["a", "b"], dtype), wanted).values) == 2


@pytest.mark.parametrize("rows", [["a", "\udcff", "b\udcff", "é"], [b"a", b"\xff", b"b\xff", "é".encode()]])
def test_texts_of_numpy_that_are_no_utf_8_are_bad(rows: list[Any]) -> None:
    for column in (np.array(rows), np.array(rows)[:, None]):
        wanted = Wanted("s", np.dtype(object), column.shape[1:])
        assert fit("c", column, wanted).bad == dict.fromkeys([1, 2], "c: it is no UTF-8")


def test_column_of_another_kind_raises() -> None:
    with pytest.raises(DTypeError, match="c: float64 cannot be fed as int32 to input 'k'"):
        fit("c", np.ones(3), NUMBER)


def test_numbers_that_are_too_large_are_bad() -> None:
    assert fit("c", np.array([1, 2**40, -(2**31)]), NUMBER).bad == {
        1: "c: a number is out of the range of the input's type"
    }


@pytest.mark.parametrize(
    ("values", "dtype", "bad"),
    [
        (np.array([1e300, -1e39, 3.4e38, np.inf, np.nan, 1e-300]), np.float32, [0, 1]),
        (np.array([70000, -70000, 65504]), np.float16, [0, 1]),
        (np.array([1e5, 1], np.float32), np.float16, [0]),
        (np.array([1e39, 1e38]), ml_dtypes.bfloat16, [0]),
        (np.array([-1, 255, 256]), np.uint8, [0, 2]),
        (np.array([2**63, 1], np.uint64), np.int64, [0]),
        (np.array([-1, 1]), np.uint64, [0]),
        (np.array([1e300 + 1j, 1j]), np.complex64, [0]),
    ],
)
def test_numbers_that_the_type_does_not_hold_are_bad(values: Any, dtype: Any, bad: list[int]) -> None:
    for column in (values, values[:, None]):
        wanted = Wanted("x", np.dtype(dtype), column.shape[1:])
        assert fit("c", column, wanted).bad == dict.fromkeys(bad, "c: a number is out of the range of the input's type")
        assert fit("c", column[:0], wanted).bad == {}


@pytest.mark.parametrize(
    ("text", "dtype"),
    [("1e300", np.float32), ("1e400", np.float64), ("-1e400", np.float32), ("300", np.uint8), (str(2**70), np.int64)],
)
def test_texts_of_numbers_that_are_too_large_are_bad(text: str, dtype: Any) -> None:
    wanted = Wanted("x", np.dtype(dtype), ())
    assert fit_each("c", ["1", text], wanted).bad == {1: "c: a number is out of the range of the input's type"}
    assert fit_each("c", [1, 2**70], Wanted("x", np.dtype(np.int64), ())).bad == {
        1: "c: a number is out of the range of the input's type"
    }


def test_texts_may_say_infinite() -> None:
    fitted = fit_each("c", ["inf", "-Infinity", "nan"], Wanted("x", np.dtype(np.float32), ()))
    assert not fitted.bad
    np.testing.assert_array_equal(fitted.values, [np.inf, -np.inf, np.nan])


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        (None, "it is null"),
        ([1.0, None], "it has a null or lists of different lengths"),
        ([1.0], "shape [1], not shape [2]"),
        ([[1.0], [2.0, 3.0]], "'[[1.0], [2.0, 3.0]]' is no float32"),
        (["1", "two"], "\"['1', 'two']\" is no float32"),
        ({"a": 1}, "it has a null or lists of different lengths"),
    ],
)
def test_objects_that_are_bad(value: Any, reason: str) -> None:
    fitted = fit_each("c", [[1, 2], value, ["3", " 4.5"]], FLOATS)
    assert fitted.bad == {1: f"c: {reason}"}
    assert np.asarray(fitted.values)[[0, 2]].tolist() == [[1, 2], [3, 4.5]]


def test_rows_of_different_shapes_stay_apart() -> None:
    fitted = fit_each("c", [[1.0], [1.0, 2.0], None], OPEN)
    assert isinstance(fitted.values, list)
    assert [None if row is None else row.tolist() for row in fitted.values] == [[1], [1, 2], None]
    assert fitted.bad == {2: "c: it is null"}


def test_columns_side_by_side() -> None:
    one = fit("a", np.array([1, 2]), Wanted("x", np.dtype(np.float32), ()))
    other = fit_each("b", [3, None], Wanted("x", np.dtype(np.float32), ()))
    stacked = stack([one, other], FLOATS)
    assert np.asarray(stacked.values)[0].tolist() == [1, 3]
    assert stacked.bad == {1: "b: it is null"}


def test_lists_beside_whole_numbers_are_bad_rows() -> None:
    number = Wanted("x", np.dtype(np.int64), ())
    stacked = stack([fit("a", np.array([1, 2]), number), fit("b", np.ones((2, 3)), number)], number._replace(row=(2,)))
    assert stacked.bad == dict.fromkeys([0, 1], "b: shape [3], not shape []")
