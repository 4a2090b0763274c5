"""`Value`: tensors that borrow the caller's memory or own ONNX Runtime's, and how long that memory lives."""

import gc
import weakref

import ml_dtypes
import numpy as np
import pytest

import zrt
from tests.support.arrays import Tracked, f32
from zrt.errors import AllocationError, ArgumentError, ClosedError, DTypeError, ShapeError, UnsupportedError
from zrt.types import ElementType, ValueKind, nbytes, pack
from zrt.values.value import as_value

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

    def test_read_only(self):
        array = np.arange(3, dtype=np.float32)
        assert zrt.Value.from_array(array).writeable
        array.flags.writeable = False
        value = zrt.Value.from_array(array)
        assert not value.writeable
        assert value.numpy().tolist() == [0, 1, 2]
        with pytest.raises(ValueError, match="read-only"):
            value.numpy()[0] = 1
        with pytest.raises(ValueError, match="WRITEABLE"):
            value.numpy().flags.writeable = True

    @pytest.mark.parametrize(
        ("array", "error", "message"),
        [
            (None, DTypeError, "layer 3: expected a numpy array, got NoneType"),
            (np.float32(1), DTypeError, "layer 3: expected a numpy array, got float32"),
            (np.arange(6)[::2], ArgumentError, "layer 3: is not C-contiguous .*without a copy"),
            (np.zeros(2, "f4,f4"), DTypeError, "layer 3: ONNX has no element type"),
            (np.zeros(2, ml_dtypes.int4), DTypeError, "layer 3: ONNX Runtime packs INT4; .*from_packed"),
            (np.array([b"bytes"]), UnsupportedError, "layer 3: a tensor of strings"),
            (np.array([None] * 8), UnsupportedError, "layer 3: a tensor of strings"),
        ],
        ids=str,
    )
    def test_refused(self, array, error, message):
        with pytest.raises(error, match=message):
            zrt.Value.from_array(array, "layer 3")


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
            (np.zeros(2, np.uint8), ElementType.UINT8, (2,), DTypeError, "UINT8 is not a packed type"),
            (np.zeros(4, np.uint8)[::2], ElementType.INT4, (4,), ArgumentError, "is not C-contiguous"),
            (np.zeros(2, np.uint8), ElementType.INT2, (4,), ShapeError, "takes 1 bytes, the array has 2"),
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

    @pytest.mark.parametrize(
        ("shape", "dtype", "error", "message"),
        [
            ((2**61,), "f4", AllocationError, "value: no memory for FLOAT of shape"),
            ((2**62,), "u1", AllocationError, "value: UINT8 of shape .* on Cpu: "),
            ((1,), ElementType.UNDEFINED, UnsupportedError, "value: UNDEFINED tensors: the element type is not known"),
            ((1,), ElementType.STRING, DTypeError, "STRING have no fixed size"),
        ],
        ids=repr,
    )
    def test_refused(self, shape, dtype, error, message):
        with pytest.raises(error, match=message):
            zrt.Value.allocate(shape, dtype)


class TestClosing:
    def test_closed_value_keeps_its_declaration_only(self):
        value = zrt.Value.from_array(np.zeros((2, 3), np.float32))
        value.close()
        assert value.closed
        assert (value.shape, value.element_type, value.nbytes) == ((2, 3), ElementType.FLOAT, 24)
        assert repr(value) == "Value(closed)"
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


@pytest.mark.parametrize(
    ("make", "view"),
    [
        (zrt.Value.from_array, zrt.Value.numpy),
        (zrt.Value.from_array, np.from_dlpack),
        (
            lambda array: zrt.Value.from_sparse(zrt.SparseTensor("coo", (9,), array, [0, 1])),
            lambda value: value.sparse().values,
        ),
    ],
    ids=["numpy", "dlpack", "sparse"],
)
def test_views_keep_the_memory_of_a_closed_value(make, view):
    array, alive = tracked(1, 2)
    value = make(array)
    part = view(value)[1:]
    value.close()
    del array, value
    gc.collect()
    assert alive() is not None
    assert part.tolist() == [2]
    del part
    gc.collect()
    assert alive() is None


@pytest.mark.parametrize(
    ("value", "kind", "text"),
    [
        (zrt.Value.from_array(np.zeros((2, 3), np.float32)), "TENSOR", "float, shape=(2, 3), memory=Cpu"),
        (zrt.Value.from_strings(["1", "два"]), "TENSOR", "string, shape=(2,), memory=Cpu"),
        (zrt.Value.from_sequence([np.zeros(1, np.float32)] * 2), "SEQUENCE", "seq(float32[...])"),
        (zrt.Value.from_sequence([], str), "SEQUENCE", "seq(string[...])"),
        (zrt.Value.from_map({"a": 1}), "MAP", "map(string, int64)"),
        (
            zrt.Value.from_sparse(zrt.SparseTensor("csr", (2, 2), np.ones(2), [0, 1], [0, 1, 2])),
            "SPARSE_TENSOR",
            "sparse double, shape=(2, 2), format=csr",
        ),
    ],
)
def test_kind_and_repr(value, kind, text):
    assert value.kind is ValueKind[kind]
    assert value.is_tensor == (kind == "TENSOR")
    assert value.memory == zrt.MemoryInfo.cpu()
    assert repr(value) == f"Value({text})"


class Exporter:
    """A tensor of another library, as far as its type tells."""

    def __dlpack__(self, **_: object) -> object:
        raise AssertionError("nothing asks for it")


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
        with pytest.raises(DTypeError, match=r"got Exporter .*; zrt\.from_dlpack makes a Value of it"):
            as_value(Exporter(), "input 'x'")
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
