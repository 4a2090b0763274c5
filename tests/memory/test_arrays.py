"""`zrt.memory.arrays`: addresses out of numpy's arrays, and views on memory that is not numpy's."""

from __future__ import annotations

import gc
import re
import weakref

import ml_dtypes
import numpy as np
import pytest

import zrt
from zrt._native import ffi
from zrt._native.handle import Handle
from zrt.errors import DTypeError, ShapeError
from zrt.memory import arrays
from zrt.types import ElementType, nbytes


class Pinned:
    """Something whose end can be seen."""


def memory(size: int) -> tuple[Handle, int]:
    block = Handle.block(f"char[{size}]")
    return block, int(ffi.cast("uintptr_t", block.pointer))


class TestView:
    @pytest.mark.parametrize(
        "kind", [kind for kind in ElementType if kind.bits and not kind.packed], ids=lambda kind: kind.name
    )
    @pytest.mark.parametrize("shape", [(2, 3), (), (0, 4)], ids=str)
    def test_view_has_dtype_and_shape(self, kind, shape):
        handle, address = memory(max(nbytes(kind, shape), 1))
        array = arrays.view(handle, address, shape, kind)
        assert (array.dtype, array.shape) == (kind.dtype, shape)
        assert array.flags.c_contiguous
        assert array.flags.writeable
        assert array.size == 0 or arrays.address_of(array) == address

    @pytest.mark.parametrize("kind", [kind for kind in ElementType if kind.packed], ids=lambda kind: kind.name)
    def test_view_of_packed_type_is_bytes(self, kind):
        handle, address = memory(8)
        array = arrays.view(handle, address, (3, 3), kind)
        assert (array.dtype, array.shape) == (np.uint8, (nbytes(kind, (3, 3)),))
        assert arrays.view(handle, address, (0, 3), kind).shape == (0,)

    def test_writes_change_the_memory(self):
        handle, address = memory(12)
        first, second = (arrays.view(handle, address, (3,), ElementType.FLOAT) for _ in range(2))
        first[...] = [1, 2, 3]
        assert second.tolist() == [1, 2, 3]
        assert bytes(ffi.buffer(ffi.cast("char *", address), 12)) == first.tobytes()

    def test_read_only_view_refuses_writes(self):
        handle, address = memory(12)
        array = arrays.view(handle, address, (3,), ElementType.FLOAT, writeable=False)
        assert not array.flags.writeable
        with pytest.raises(ValueError, match="WRITEABLE"):
            array.flags.writeable = True

    @pytest.mark.parametrize("shape", [(4,), (2, 2), ()], ids=str)
    def test_memory_lives_as_long_as_its_last_view(self, shape):
        _block, address = memory(16)
        thing = Pinned()
        alive, owner = weakref.ref(thing), Handle.pin(thing)
        array = arrays.view(owner, address, shape, ElementType.FLOAT)
        del thing, owner
        row = array.reshape(-1)[:1]
        del array
        gc.collect()
        assert alive() is not None
        del row
        gc.collect()
        assert alive() is None


class TestNative:
    def test_usable_array_is_not_copied(self):
        for array in (np.ones(3), np.ones((0, 3)), np.array(1.0), np.ones((1, 3)).T, np.zeros(3, ml_dtypes.bfloat16)):
            assert arrays.native(array) is array
            assert arrays.needs_copy(array) is None

    @pytest.mark.parametrize(
        ("array", "reason"),
        [
            (np.arange(6).reshape(2, 3).T, "is not C-contiguous"),
            (np.arange(6)[::2], "is not C-contiguous"),
            (np.arange(6)[::-1], "is not C-contiguous"),
            (np.broadcast_to(np.arange(2), (3, 2)), "is not C-contiguous"),
            (np.arange(6, dtype=">i8"), r"is in the other byte order \(>i8\)"),
            (np.arange(6, dtype=">i8")[::2], "is in the other byte order"),
            (np.arange(8, dtype=ml_dtypes.bfloat16)[::2], "is not C-contiguous"),
            (np.frombuffer(bytes(9), np.float32, offset=1), r"begins at 0x[0-9a-f]+, no multiple of its elements' 4"),
        ],
    )
    def test_unusable_array_is_copied(self, array, reason):
        assert re.match(reason, arrays.needs_copy(array))
        right = arrays.native(array)
        assert right.flags.c_contiguous
        assert right.dtype.isnative
        assert right.tolist() == array.tolist()
        assert not np.shares_memory(right, array)
        assert arrays.needs_copy(right) is None


def test_unknown_dtype_raises_with_subject():
    assert arrays.element_type_of(np.zeros(1, ">f4"), "x") is ElementType.FLOAT
    with pytest.raises(DTypeError, match="input 'x': ONNX has no element type"):
        arrays.element_type_of(np.zeros(1, "m8[s]"), "input 'x'")


class TestDims:
    @pytest.mark.parametrize(
        ("shape", "dims"),
        [
            ((), ()),
            (5, (5,)),
            (np.int32(5), (5,)),
            ([1, 2], (1, 2)),
            ((0, np.int64(3)), (0, 3)),
            (np.array([2, 3]), (2, 3)),
            (range(3), (0, 1, 2)),
            ((2**63 - 1,), (2**63 - 1,)),
        ],
        ids=repr,
    )
    def test_valid_shape_becomes_ints(self, shape, dims):
        checked = arrays.check_dims(shape, "x")
        assert checked == dims
        assert all(type(dim) is int for dim in checked)

    @pytest.mark.parametrize(
        ("shape", "message"),
        [
            ((-1,), r"x: dimension -1 of \(-1,\) is out of range"),
            (-1, "x: dimension -1"),
            ((2**63,), "x: dimension 9223372036854775808 .* is out of range"),
            ((1.0,), "x: dimension 1.0 .* is not an integer"),
            ((True,), "x: dimension True .* is not an integer"),
            (True, "x: a shape is a tuple of integers, not True"),
            ("ab", "x: dimension 'a' .* is not an integer"),
            ((None,), "x: dimension None"),
            (None, "x: a shape is a tuple of integers, not None"),
            (1.5, "x: a shape is a tuple of integers, not 1.5"),
        ],
        ids=repr,
    )
    def test_invalid_shape_raises(self, shape, message):
        with pytest.raises(ShapeError, match=message):
            arrays.check_dims(shape, "x")


def test_views_of_a_buffer_and_of_its_value_share_memory():
    buffer = zrt.Buffer((3,), np.float32)
    view = zrt.Value.from_buffer(buffer).numpy()
    buffer.array[...] = [1, 2, 3]
    assert view.tolist() == [1, 2, 3]
    assert arrays.address_of(view) == buffer.address


def test_empty_shape_that_numpy_cannot_have_raises_a_shape_error() -> None:
    with pytest.raises(ShapeError, match="numpy has no such array"):
        zrt.Buffer([0, 2, 2**62], np.float32)
