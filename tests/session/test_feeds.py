"""`zrt.session.feeds`: match names, check types and shapes, convert arrays."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

import zrt
from zrt.errors import (
    AllocationError,
    ArgumentError,
    ClosedError,
    DTypeError,
    ShapeError,
    UnknownNameError,
    UnsupportedError,
)
from zrt.session import feeds, value_feeds
from zrt.types import ElementType, ValueKind
from zrt.values.type_info import ValueInfo

X = ValueInfo("x", ValueKind.TENSOR, ElementType.FLOAT, ("n", 2))
Y = ValueInfo("y", ValueKind.TENSOR, ElementType.FLOAT, None)
W = ValueInfo("w", ValueKind.TENSOR, ElementType.FLOAT, (3,))
PACKED = ValueInfo("p", ValueKind.TENSOR, ElementType.INT4, ("n",))
STRINGS = ValueInfo("s", ValueKind.TENSOR, ElementType.STRING, ("n",))
SEQUENCE = ValueInfo("q", ValueKind.SEQUENCE, ElementType.UNDEFINED, None)


class TestByName:
    def test_puts_a_mapping_in_the_models_order(self):
        assert feeds.by_name({"y": 2, "x": 1}, [X, Y], [W]) == [(X, 1), (Y, 2)]

    def test_a_sequence_is_in_the_models_order(self):
        assert feeds.by_name([1, 2], [X, Y], [W]) == [(X, 1), (Y, 2)]
        assert feeds.by_name((), [], [W]) == []

    def test_initializers_come_last_and_only_if_fed(self):
        assert feeds.by_name({"w": 3, "x": 1}, [X], [W]) == [(X, 1), (W, 3)]

    @pytest.mark.parametrize(
        ("given", "error", "message"),
        [
            ({"x": 1}, ArgumentError, "input 'y' is missing"),
            ({"x": 1, "y": 2, "z": 3}, UnknownNameError, "no input 'z'; it has 'x', 'y'"),
            ([1], ArgumentError, r"2 inputs \('x', 'y'\), got 1"),
            (None, DTypeError, "got NoneType"),
            (b"xy", DTypeError, "got bytes"),
            ({"x", "y"}, DTypeError, "got set"),
        ],
    )
    def test_bad_feeds_raise(self, given, error, message):
        with pytest.raises(error, match=message) as caught:
            feeds.by_name(given, [X, Y], [W])
        assert type(caught.value) is error

    def test_error_for_a_model_without_inputs(self):
        with pytest.raises(UnknownNameError, match="no input 'x'; it has none"):
            feeds.by_name({"x": 1}, [], [])


class TestRightArray:
    def test_suitable_array_is_not_copied(self):
        array = np.ones((3, 2), np.float32)
        assert feeds.right_array(X, array) is array

    def test_unsuitable_array_is_copied(self):
        array = np.arange(6, dtype=">f4").reshape(2, 3).T
        right = feeds.right_array(X, array)
        assert right.dtype.isnative
        assert right.flags.c_contiguous
        assert right.tolist() == array.tolist()
        assert not np.shares_memory(right, array)

    def test_objects_that_numpy_converts(self):
        doubles = ValueInfo("d", ValueKind.TENSOR, ElementType.DOUBLE, (2,))
        assert feeds.right_array(doubles, [1.0, 2]).tolist() == [1, 2]

    @pytest.mark.parametrize(
        ("info", "feed", "error", "message"),
        [
            (X, np.ones((2, 3), np.float32), ShapeError, r"input 'x': expected shape \[n, 2\], got \[2, 3\]"),
            (X, np.ones((3, 2)), DTypeError, "input 'x': expected float32, got float64"),
            (X, np.ones((3, 2), np.complex64), DTypeError, "input 'x': expected float32, got complex64"),
            (X, np.ones((3, 2), ml_dtypes.bfloat16), DTypeError, "input 'x': expected float32, got bfloat16"),
            (X, object(), DTypeError, r"input 'x': expected float32, got objects \(object\)"),
            (Y, np.broadcast_to(np.float32(1), (2**50,)), AllocationError, "input 'y': "),
        ],
    )
    def test_bad_feeds_raise(self, info, feed, error, message):
        with pytest.raises(error, match=message):
            feeds.right_array(info, feed)


class TestRightValue:
    def test_value_shares_the_feeds_memory(self):
        array = np.ones((3, 2), np.float32)
        assert value_feeds.right_value(X, array).address == array.ctypes.data
        buffer = zrt.Buffer((3, 2), np.float32)
        assert value_feeds.right_value(X, buffer).address == buffer.address
        value = zrt.Value.from_array(array)
        assert value_feeds.right_value(X, value) is value

    @pytest.mark.parametrize(
        ("info", "feed", "error", "message"),
        [
            (X, np.ones((2, 3), np.float32).T, ArgumentError, "input 'x': is not C-contiguous"),
            (X, np.ones((3, 2), ">f4"), ArgumentError, "input 'x': is in the other byte order"),
            (X, np.ones((3, 2)), DTypeError, "input 'x': expected float32, got float64"),
            (X, np.ones((3, 3), np.float32), ShapeError, r"input 'x': expected shape \[n, 2\], got \[3, 3\]"),
            (X, [[1.0, 2.0]], DTypeError, "input 'x': expected an array, a Value or a Buffer, got list"),
            (X, np.ones(3, "M8[s]"), DTypeError, "input 'x': ONNX has no element type"),
            (PACKED, np.ones(4, ml_dtypes.int4), DTypeError, "input 'p': ONNX Runtime packs INT4"),
            (STRINGS, np.array(["a"]), UnsupportedError, "input 's' holds strings"),
            (SEQUENCE, np.ones(1), UnsupportedError, "input 'q' is a sequence"),
        ],
    )
    def test_bad_feeds_raise(self, info, feed, error, message):
        with pytest.raises(error, match=message):
            value_feeds.right_value(info, feed)

    def test_closed_value_raises(self):
        value = zrt.Value.from_array(np.ones((3, 2), np.float32))
        value.close()
        with pytest.raises(ClosedError, match="input 'x': this Value is closed"):
            value_feeds.right_value(X, value)
