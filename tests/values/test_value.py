"""`Value`: tensors that borrow the caller's memory or own ONNX Runtime's, and how long that memory lives."""

from __future__ import annotations

import gc
import pickle
import weakref

import ml_dtypes
import numpy as np
import pytest

import zrt
from tests.support.arrays import Tracked, f32
from zrt.errors import (
    AllocationError,
    ArgumentError,
    ClosedError,
    DTypeError,
    NotCopyableError,
    ShapeError,
    UnsupportedError,
)
from zrt.types import ElementType, ValueKind, nbytes, pack
from zrt.values import as_value

PLAIN = [kind for kind in ElementType if kind.bits and not kind.packed and not kind.refused]
PACKED = [kind for kind in ElementType if kind.packed]


def tracked(*numbers: float) -> tuple[np.ndarray, weakref.ref]:
    array = f32(*numbers).view(Tracked)
    return array, weakref.ref(array)


class TestFromArray:
    @pytest.mark.parametrize("kind", PLAIN, ids=lambda kind: kind.name)
    @pytest.mark.parametrize("shape", [(2, 3), (), (0, 3), (3, 0)], ids=str)
    def test_borrows_the_arrays_memory(self, kind, shape):
        array = np.zeros(shape, kind.dtype)
        value = zrt.Value.from_array(array)
        assert value.is_tensor
        assert (value.kind, value.element_type, value.shape) == (ValueKind.TENSOR, kind, shape)
        assert value.nbytes == array.nbytes
        assert value.memory == zrt.MemoryInfo.cpu()
        assert value.address == array.ctypes.data
        seen = value.numpy()
        assert (seen.dtype, seen.shape) == (array.dtype, array.shape)
        assert array.size == 0 or np.shares_memory(seen, array)

    def test_both_sides_see_later_writes(self):
        array = np.zeros(3, np.float32)
        value = zrt.Value.from_array(array)
        array[0] = 1
        value.numpy()[1] = 2
        assert value.numpy().tolist() == array.tolist() == [1, 2, 0]

    def test_keeps_the_array_alive(self):
        array, alive = tracked(1, 2)
        value = zrt.Value.from_array(array)
        view = value.numpy()
        del array, value
        gc.collect()
        assert alive() is not None
        assert view.tolist() == [1, 2]
        del view
        gc.collect()
        assert alive() is None

    def test_read_only(self):
        array = np.arange(3, dtype=np.float32)
        assert zrt.Value.from_array(array).writeable
        array.flags.writeable = False
        value = zrt.Value.from_array(array)
        assert not value.writeable
        assert value.numpy().tolist() == [0, 1, 2]
        with pytest.raises(ValueError, match="read-only"):
            value.numpy()[0] = 1

    @pytest.mark.parametrize(
        ("thing", "error", "message"),
        [
            ([1.0], DTypeError, "array: expected a numpy array, got list"),
            (None, DTypeError, "array: expected a numpy array, got NoneType"),
            (np.float32(1), DTypeError, "array: expected a numpy array, got float32"),
            (np.arange(6)[::2], ArgumentError, "array: is not C-contiguous .*without a copy"),
            (np.arange(6, dtype=">i4"), ArgumentError, "array: is in the other byte order .*without a copy"),
            (np.zeros(2, "M8[s]"), DTypeError, "array: ONNX has no element type for the dtype datetime64"),
            (np.zeros(2, "f4,f4"), DTypeError, "array: ONNX has no element type"),
            (np.zeros(2, np.complex64), UnsupportedError, "array: COMPLEX64 tensors: .*complex"),
            (np.zeros(2, ml_dtypes.int4), DTypeError, "array: ONNX Runtime packs INT4; .*from_packed"),
            (np.array(["a", "b"]), UnsupportedError, "array: a tensor of strings cannot be over numpy's memory"),
            (np.array(["eight___"] * 4), UnsupportedError, "array: a tensor of strings"),
            (np.array([b"bytes"]), UnsupportedError, "array: a tensor of strings"),
            (np.array([None] * 8), UnsupportedError, "array: a tensor of strings"),
        ],
        ids=lambda thing: str(getattr(thing, "dtype", type(thing).__name__)) if not isinstance(thing, str) else "",
    )
    def test_refused(self, thing, error, message):
        with pytest.raises(error, match=message):
            zrt.Value.from_array(thing)

    def test_error_names_the_subject(self):
        with pytest.raises(DTypeError, match="weights of layer 3: expected a numpy array"):
            zrt.Value.from_array([1.0], "weights of layer 3")


class TestFromPacked:
    @pytest.mark.parametrize("kind", PACKED, ids=lambda kind: kind.name)
    @pytest.mark.parametrize("shape", [(3, 3), (7,), (), (0, 2)], ids=str)
    def test_bytes_and_logical_shape(self, kind, shape):
        elements = np.resize([1, 0, 1, 1, 0], shape).astype(kind.dtype)
        packed = pack(elements, kind)
        value = zrt.Value.from_packed(packed, kind, shape)
        assert (value.element_type, value.shape, value.nbytes) == (kind, shape, nbytes(kind, shape))
        assert value.numpy().tolist() == packed.tolist()
        assert value.unpack().tobytes() == elements.tobytes()
        assert value.unpack().shape == shape

    def test_borrows_the_packed_bytes(self):
        packed = np.zeros(2, np.uint8)
        value = zrt.Value.from_packed(packed, ElementType.INT4, (4,))
        packed[...] = [0x21, 0x43]
        assert value.unpack().tolist() == [1, 2, 3, 4]
        assert value.address == packed.ctypes.data

    def test_element_type_given_as_dtype(self):
        assert zrt.Value.from_packed(np.zeros(2, np.uint8), ml_dtypes.uint4, (4,)).element_type is ElementType.UINT4

    @pytest.mark.parametrize(
        ("packed", "kind", "shape", "error", "message"),
        [
            (np.zeros(2, np.int8), ElementType.INT4, (4,), DTypeError, "packed bytes are a uint8 array, not dtype"),
            ([0, 0], ElementType.INT4, (4,), DTypeError, "packed bytes are a uint8 array"),
            (np.zeros(2, np.uint8), ElementType.UINT8, (2,), DTypeError, "UINT8 is not a packed type"),
            (np.zeros(2, np.uint8), "nonesuch", (2,), DTypeError, "nonesuch"),
            (np.zeros(4, np.uint8)[::2], ElementType.INT4, (4,), ArgumentError, "is not C-contiguous"),
            (np.zeros(2, np.uint8), ElementType.INT4, (5,), ShapeError, r"shape \(5,\) takes 3 bytes, .* has 2"),
            (np.zeros(2, np.uint8), ElementType.INT2, (4,), ShapeError, "takes 1 bytes, the array has 2"),
            (np.zeros(2, np.uint8), ElementType.INT4, (-4,), ShapeError, "dimension -4"),
            (np.zeros(2, np.uint8), ElementType.INT4, (2**40, 2**40), ShapeError, "the array has 2"),
            (np.zeros(2, np.uint8), ElementType.INT4, None, ShapeError, "a shape is a tuple of integers"),
        ],
    )
    def test_refused(self, packed, kind, shape, error, message):
        with pytest.raises(error, match=message):
            zrt.Value.from_packed(packed, kind, shape)


class TestFromBuffer:
    @pytest.mark.parametrize("kind", [*PLAIN, *PACKED], ids=lambda kind: kind.name)
    @pytest.mark.parametrize("shape", [(2, 3), (), (0,)], ids=str)
    def test_borrows_the_buffers_memory(self, kind, shape):
        buffer = zrt.Buffer(shape, kind)
        value = zrt.Value.from_buffer(buffer)
        assert (value.element_type, value.shape, value.nbytes) == (kind, shape, buffer.nbytes)
        assert value.address == buffer.address
        assert value.writeable

    def test_keeps_the_memory_of_a_closed_buffer(self):
        buffer = zrt.Buffer((1000,), np.float32)
        buffer.array[...] = 5
        value = zrt.Value.from_buffer(buffer)
        buffer.close()
        del buffer
        gc.collect()
        junk = [zrt.Buffer((1000,), np.float32) for _ in range(10)]
        assert value.numpy().tolist() == [5] * 1000
        del junk

    def test_refused(self):
        buffer = zrt.Buffer((1,), np.float32)
        buffer.close()
        with pytest.raises(ClosedError, match="this Buffer is closed"):
            zrt.Value.from_buffer(buffer)
        with pytest.raises(DTypeError, match="buffer: expected a Buffer, got ndarray"):
            zrt.Value.from_buffer(np.zeros(1))


class TestAllocate:
    @pytest.mark.parametrize("kind", [*PLAIN, *PACKED], ids=lambda kind: kind.name)
    @pytest.mark.parametrize("shape", [(2, 3), (), (0, 3)], ids=str)
    def test_every_type(self, kind, shape):
        value = zrt.Value.allocate(shape, kind)
        assert (value.element_type, value.shape, value.nbytes) == (kind, shape, nbytes(kind, shape))
        array = value.numpy()
        if array.size:
            array[...] = 1
            assert value.numpy().tobytes() == array.tobytes()

    def test_value_outlives_the_sessions_allocator(self, relu):
        allocator = relu.allocator()
        value = zrt.Value.allocate((3,), "float32", allocator)
        value.numpy()[...] = [-1, 0, 1]
        view = value.numpy()
        assert relu.run([value])[0].tolist() == [0, 0, 1]
        allocator.close()
        relu.close()
        del allocator, relu, value
        gc.collect()
        view[0] = 5
        assert view.tolist() == [5, 0, 1]

    @pytest.mark.parametrize(
        ("shape", "dtype", "error", "message"),
        [
            ((-1,), "f4", ShapeError, "value: dimension -1"),
            ((2**63,), "f4", ShapeError, "value: dimension 9223372036854775808 .*out of range"),
            ((1.5,), "f4", ShapeError, "value: dimension 1.5"),
            (None, "f4", ShapeError, "value: a shape is a tuple of integers"),
            ((2**61,), "f4", AllocationError, "value: no memory for FLOAT of shape"),
            ((2**40, 2**40), "u1", AllocationError, "value: no memory for UINT8 of shape"),
            ((2**62,), "u1", AllocationError, "value: UINT8 of shape .* on Cpu: "),
            ((2**50,), "f8", AllocationError, "value: DOUBLE of shape .* on Cpu: "),
            ((1,), "c8", UnsupportedError, "value: COMPLEX64 tensors"),
            ((1,), ElementType.UNDEFINED, UnsupportedError, "value: UNDEFINED tensors"),
            ((1,), ElementType.STRING, DTypeError, "STRING have no fixed size"),
            ((1,), "nonesuch", DTypeError, "nonesuch"),
            ((1,), None, DTypeError, "None is not a dtype"),
        ],
        ids=repr,
    )
    def test_refused(self, shape, dtype, error, message):
        with pytest.raises(error, match=message):
            zrt.Value.allocate(shape, dtype)

    def test_wrong_and_closed_allocators_are_refused(self, relu):
        with pytest.raises(DTypeError, match="value: expected an Allocator, got str"):
            zrt.Value.allocate((1,), "f4", "cpu")
        allocator = relu.allocator()
        allocator.close()
        with pytest.raises(ClosedError, match="this Allocator is closed"):
            zrt.Value.allocate((1,), "f4", allocator)


class TestClosing:
    def test_closed_value_keeps_its_declaration_only(self):
        value = zrt.Value.from_array(np.zeros((2, 3), np.float32))
        value.close()
        assert value.closed
        assert (value.shape, value.element_type, value.nbytes) == ((2, 3), ElementType.FLOAT, 24)
        assert repr(value) == "Value(closed)"
        for call in (value.numpy, value.unpack, lambda: value.address, value.__enter__):
            with pytest.raises(ClosedError, match="this Value is closed"):
                call()
        value.close()

    def test_close_releases_the_array(self):
        array, alive = tracked(1)
        with zrt.Value.from_array(array) as value:
            del array
            gc.collect()
            assert alive() is not None
        gc.collect()
        assert alive() is None
        assert value.closed

    def test_views_outlive_the_value(self):
        array, alive = tracked(1, 2)
        value = zrt.Value.from_array(array)
        view = value.numpy()[1:]
        value.close()
        del array
        gc.collect()
        assert view.tolist() == [2]
        assert alive() is not None

    def test_copies_are_refused(self):
        with pytest.raises(NotCopyableError, match="Value"):
            pickle.dumps(zrt.Value.from_array(np.zeros(1)))


class TestOtherKinds:
    def test_strings(self):
        value = zrt.Value.from_strings(["1", "два"])
        assert (value.element_type, value.shape, value.nbytes) == (ElementType.STRING, (2,), 7)
        assert repr(value) == "Value(string, shape=(2,), memory=Cpu)"

    def test_sequences(self):
        value = zrt.Value.from_sequence([np.zeros(1, np.float32)] * 2)
        assert (value.kind, value.element_type, value.shape, value.nbytes) == (
            ValueKind.SEQUENCE,
            ElementType.FLOAT,
            (),
            0,
        )
        assert not value.is_tensor
        assert value.memory == zrt.MemoryInfo.cpu()
        assert repr(value) == "Value(seq(float32[...]))"
        for call in (value.numpy, lambda: value.address, value.unpack, value.strings):
            with pytest.raises(UnsupportedError, match="this value is a sequence, not a tensor"):
                call()

    def test_more_dimensions_than_numpy_has(self, load):
        session = load("(float[1] x, int64[k] shape) => (float[] y) { y = Reshape(x, shape) }")
        x = np.ones(1, np.float32)
        assert session.run([x, np.ones(64, np.int64)])[0].shape == (1,) * 64
        with pytest.raises(UnsupportedError, match="numpy has no array of 65 dimensions"):
            session.run([x, np.ones(65, np.int64)])


def test_constructor_refuses_other_objects():
    with pytest.raises(DTypeError, match="a Value is made by from_array, from_packed, from_buffer or allocate"):
        zrt.Value(np.zeros(1, np.float32))


def test_unpack_refuses_unpacked_types():
    with pytest.raises(DTypeError, match="FLOAT is not a packed type"):
        zrt.Value.from_array(np.zeros(1, np.float32)).unpack()


def test_repr():
    assert repr(zrt.Value.from_array(np.zeros((2, 3), np.float32))) == "Value(float, shape=(2, 3), memory=Cpu)"


class TestAsValue:
    def test_values_are_returned_and_the_rest_is_wrapped(self):
        array, buffer = np.zeros(1, np.float32), zrt.Buffer((1,), np.float32)
        value = zrt.Value.from_array(array)
        assert as_value(value, "x") is value
        assert as_value(array, "x").address == array.ctypes.data
        assert as_value(buffer, "x").address == buffer.address

    def test_refused(self):
        with pytest.raises(DTypeError, match="input 'x': expected an array, a Value or a Buffer, got list"):
            as_value([1.0], "input 'x'")
        value, buffer = zrt.Value.from_array(np.zeros(1)), zrt.Buffer((1,), np.float32)
        value.close()
        buffer.close()
        for thing in (value, buffer):
            with pytest.raises(ClosedError, match=f"input 'x': this {type(thing).__name__} is closed"):
                as_value(thing, "input 'x'")


@pytest.mark.gpu
class TestOnDevice:
    def test_device_memory_has_no_view(self, build):
        session = zrt.Session(build("(float[n] x) => (float[n] y) { y = Relu(x) }"), providers=["cuda"])
        value = zrt.Value.allocate((3,), "float32", session.allocator(zrt.MemoryInfo.cuda()))
        assert value.memory.name == "Cuda"
        assert not value.memory.is_host
        with pytest.raises(UnsupportedError, match=r"this value lies on Cuda:0; zrt\.copy brings it to the host"):
            value.numpy()

    def test_pinned_memory_has_a_view(self, build):
        session = zrt.Session(build("(float[n] x) => (float[n] y) { y = Relu(x) }"), providers=["cuda"])
        value = zrt.Value.allocate((3,), "float32", session.allocator(zrt.MemoryInfo.cuda_pinned()))
        assert value.memory.is_host
        value.numpy()[...] = [-1, 0, 1]
        assert session.run([value])[0].tolist() == [0, 0, 1]
