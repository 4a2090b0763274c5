import math
import pickle

import ml_dtypes
import numpy as np
import onnx
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from tests.support import ort
from zrt import types
from zrt._native import lib, status
from zrt._native.handle import Handle
from zrt._native.library import api
from zrt.errors import DTypeError, NotImplementedByOrtError, ShapeError
from zrt.memory.allocators import default_allocator
from zrt.types import ElementType, nbytes, pack, unpack
from zrt.values.type_info import type_name

PACKED = [kind for kind in ElementType if kind.packed]
SIZED = [kind for kind in ElementType if kind.bits]
HELD = [kind for kind in ElementType if not kind.refused]


def c_values(prefix: str) -> dict[str, int]:
    return {name.removeprefix(prefix): getattr(lib, name) for name in dir(lib) if name.startswith(prefix)}


def new_tensor(kind: ElementType, shape: tuple[int, ...]) -> Handle:
    """A tensor that the library makes; zrt refuses some of the types itself."""
    return types.new_tensor(api().CreateTensorAsOrtValue, (default_allocator(),), shape, kind)


class TestTable:
    def test_every_type_of_the_c_enum_is_a_member(self):
        assert {kind.name: int(kind) for kind in ElementType} == c_values("ONNX_TENSOR_ELEMENT_DATA_TYPE_")

    def test_onnx_codes_and_names_are_those_of_onnx(self):
        assert {kind.name: kind.onnx_code for kind in ElementType} == dict(onnx.TensorProto.DataType.items())
        for kind in ElementType:
            if kind not in (ElementType.UNDEFINED, ElementType.FLOAT, ElementType.DOUBLE):
                assert kind.onnx_name == kind.name.lower()

    @pytest.mark.parametrize("kind", SIZED, ids=lambda kind: kind.name)
    def test_dtype_and_bits_are_those_of_onnx(self, kind):
        assert kind.dtype == onnx.helper.tensor_dtype_to_np_dtype(kind.onnx_code)
        assert kind.dtype.itemsize == math.ceil(kind.bits / 8)
        assert kind.packed == (kind.bits in (2, 4))

    def test_types_without_a_size_have_no_bits(self):
        assert [kind for kind in ElementType if not kind.bits] == [ElementType.UNDEFINED, ElementType.STRING]
        assert ElementType.UNDEFINED.dtype == np.dtype(np.void)
        assert ElementType.STRING.dtype == np.dtype(object)

    def test_members_survive_pickle(self):
        assert all(pickle.loads(pickle.dumps(kind)) is kind for kind in ElementType)


class TestLibrary:
    """The members compared with the library's behaviour."""

    @pytest.mark.parametrize("kind", HELD, ids=lambda kind: kind.name)
    def test_library_creates_it(self, kind):
        assert status.type_and_shape(new_tensor(kind, (5,)).pointer) == (kind, (5,))

    @pytest.mark.parametrize("kind", sorted(set(ElementType) - set(HELD)), ids=lambda kind: kind.name)
    def test_library_refuses_it(self, kind):
        with pytest.raises(NotImplementedByOrtError, match="not supported"):
            new_tensor(kind, (5,))

    @pytest.mark.parametrize("shape", [(), (0,), (1,), (3,), (5, 7), (4, 0, 2)], ids=str)
    @pytest.mark.parametrize("kind", sorted(set(HELD) & set(SIZED)), ids=lambda kind: kind.name)
    def test_nbytes_equals_the_library_s_size(self, kind, shape):
        value = new_tensor(kind, shape)
        assert nbytes(kind, shape) == status.fetch(api().GetTensorSizeInBytes, "size_t", value.pointer)

    def test_creation_codes_are_those_of_the_library_in_use(self):
        for kind in HELD:
            assert types.creation_code(kind) == (int(kind) if ort.CREATES_BY_C_ENUM else kind.onnx_code)


class TestOf:
    @pytest.mark.parametrize("kind", list(ElementType)[1:], ids=lambda kind: kind.name)
    def test_of_accepts_every_form_of_a_type(self, kind):
        for form in (kind.dtype, kind.dtype.type, kind, type_name(kind), kind.dtype.newbyteorder(">"), kind.dtype.name):
            assert ElementType.of(form) is kind

    @pytest.mark.parametrize(
        ("dtype_like", "kind"),
        [
            ("f4", ElementType.FLOAT),
            (">f4", ElementType.FLOAT),
            (float, ElementType.DOUBLE),
            (int, ElementType.INT64),
            (bool, ElementType.BOOL),
            (complex, ElementType.COMPLEX128),
            (np.longlong, ElementType.INT64),
            ("bfloat16", ElementType.BFLOAT16),
            (str, ElementType.STRING),
            ("string", ElementType.STRING),
            ("STRING", ElementType.STRING),
            ("U12", ElementType.STRING),
            ("S3", ElementType.STRING),
            (np.dtypes.StringDType(), ElementType.STRING),
            (np.dtype("f4", metadata={"unit": "m"}), ElementType.FLOAT),
        ],
        ids=str,
    )
    def test_of_accepts_other_spellings(self, dtype_like, kind):
        assert ElementType.of(dtype_like) is kind

    @pytest.mark.parametrize(
        ("dtype_like", "named"),
        [
            ("m8[ms]", "timedelta64"),
            ([("red", "u1"), ("green", "u1")], "red"),
            (np.longdouble, "float"),
            (ml_dtypes.float8_e4m3, "float8_e4m3"),
            ("V7", "V7"),
            (np.void, "V"),
            # numpy reads any class as that of objects.
            (np.dtypes.Float32DType, "Float32DType"),
            (list, "list"),
            ("no such type", "no such type"),
            # numpy parses these as Python.
            ("0)", "0\\)"),
            (b"0)", "0\\)"),
        ],
        ids=str,
    )
    def test_unsupported_dtype_raises(self, dtype_like, named):
        with pytest.raises(DTypeError, match=named):
            ElementType.of(dtype_like)


class TestNbytes:
    def test_huge_shapes_do_not_overflow(self):
        assert nbytes(ElementType.DOUBLE, (2**62, 2**62)) == 2**127
        assert nbytes(ElementType.INT2, (2**62, 3)) == 3 * 2**60

    def test_invalid_shape_raises(self):
        with pytest.raises(ShapeError, match="batch"):
            nbytes(ElementType.FLOAT, ("batch", 3))

    @pytest.mark.parametrize("kind", [ElementType.STRING, ElementType.UNDEFINED])
    def test_type_without_a_size_raises(self, kind):
        with pytest.raises(DTypeError, match=kind.name):
            nbytes(kind, (2,))

    @pytest.mark.parametrize("kind", ["float32", np.float32], ids=repr)
    def test_another_name_of_a_type_is_refused(self, kind):
        with pytest.raises(DTypeError, match=r"element_type: expected an ElementType, got .*float32"):
            nbytes(kind, (2,))


class TestAsShape:
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
        checked = types.as_shape(shape, "x")
        assert checked == dims
        assert all(type(dim) is int for dim in checked)

    @pytest.mark.parametrize(
        ("shape", "message"),
        [
            (-1, r"x: dimension -1 of \(-1,\) is out of range"),
            ((True,), "x: dimension True .* is not an integer"),
            (True, "x: a shape is a tuple of integers, not True"),
            ((None,), "x: dimension None"),
            (1.5, "x: a shape is a tuple of integers, not 1.5"),
            ({3, 2}, "x: a shape is a tuple of integers, not {2, 3}"),
            ({0: 2}, "x: a shape is a tuple of integers, not {0: 2}"),
            (b"23", "x: a shape is a tuple of integers, not b'23'"),
            ("", "x: a shape is a tuple of integers, not ''"),
        ],
        ids=repr,
    )
    def test_invalid_shape_raises(self, shape, message):
        with pytest.raises(ShapeError, match=message):
            types.as_shape(shape, "x")


@st.composite
def elements(draw):
    """A packed type and an array of it, of any shape, possibly a strided view."""
    kind = draw(st.sampled_from(PACKED))
    codes = st.integers(0, 2**kind.bits - 1)
    shape = draw(hnp.array_shapes(min_dims=0, max_dims=4, min_side=0, max_side=5))
    array = draw(hnp.arrays(np.uint8, shape, elements=codes)).view(kind.dtype)
    return kind, draw(st.sampled_from([array, array.T, array[..., ::-1] if array.ndim else array]))


class TestPacking:
    @given(elements())
    def test_unpack_inverts_pack(self, case):
        kind, array = case
        packed = pack(array, kind)
        assert packed.dtype == np.uint8
        assert packed.shape == (nbytes(kind, array.shape),)
        again = unpack(packed, kind, array.shape)
        assert again.dtype == kind.dtype
        assert again.shape == array.shape
        assert again.flags.c_contiguous
        assert again.flags.writeable
        assert again.tobytes() == array.tobytes()

    @given(elements())
    def test_packed_bytes_equal_onnx_s(self, case):
        kind, array = case
        proto = onnx.numpy_helper.from_array(np.ascontiguousarray(array).reshape(array.shape))
        assert proto.data_type == kind.onnx_code
        for form in (kind, kind.dtype, kind.dtype.name):
            assert pack(array, form).tobytes() == proto.raw_data

    def test_bits_after_the_last_element_are_ignored(self):
        assert unpack(np.array([0xF1], np.uint8), "uint4", (1,)).astype(int).tolist() == [1]

    @pytest.mark.parametrize("size", [0, 1, 3])
    def test_wrong_byte_count_raises(self, size):
        with pytest.raises(ShapeError, match=f"2 bytes packed, not {size}"):
            unpack(np.zeros(size, np.uint8), ElementType.INT4, (3,))

    @pytest.mark.parametrize("shape", [(0, 2**40, 2**40), (1,) * 70])
    def test_unpack_to_a_shape_that_numpy_has_not_raises(self, shape):
        with pytest.raises(ShapeError, match="numpy has no such array"):
            unpack(np.zeros(nbytes(ElementType.INT4, shape), np.uint8), "int4", shape)

    def test_unpack_of_another_type_raises(self):
        for wrong in (np.zeros(2, np.int8), b"ab", np.uint8(3), [1, 2]):
            with pytest.raises(DTypeError, match="uint8"):
                unpack(wrong, ElementType.INT4, (3,))

    def test_pack_of_another_dtype_raises(self):
        for wrong in (np.zeros(2, np.int8), np.zeros(2, ml_dtypes.uint4), [1, 2]):
            with pytest.raises(DTypeError, match="int4"):
                pack(wrong, ElementType.INT4)

    def test_type_that_is_not_packed_raises(self):
        with pytest.raises(DTypeError, match="FLOAT is not a packed type"):
            pack(np.zeros(2, np.float32), ElementType.FLOAT)
        with pytest.raises(DTypeError, match="INT8 is not a packed type"):
            unpack(np.zeros(2, np.uint8), "int8", (2,))


LEVELS = ("DISABLE_ALL", "ENABLE_BASIC", "ENABLE_EXTENDED", "ENABLE_LAYOUT", "ENABLE_ALL")
# The names of C that differ from zrt's by more than a prefix.
MEM_TYPES = {"CPU_INPUT": "CPUInput", "CPU_OUTPUT": "CPUOutput", "CPU": "CPU", "DEFAULT": "Default"}
ALLOCATORS = {"INVALID": "Invalid", "DEVICE": "Device", "ARENA": "Arena", "READ_ONLY": "ReadOnly"}


@pytest.mark.parametrize(
    ("enum", "wanted"),
    [
        (types.GraphOptimizationLevel, {name: getattr(lib, f"ORT_{name}") for name in LEVELS}),
        (types.ExecutionMode, {"SEQUENTIAL": lib.ORT_SEQUENTIAL, "PARALLEL": lib.ORT_PARALLEL}),
        (types.LogSeverity, c_values("ORT_LOGGING_LEVEL_")),
        (types.ValueKind, {n.replace("SPARSET", "SPARSE_T"): value for n, value in c_values("ONNX_TYPE_").items()}),
        (types.AllocatorType, {name: getattr(lib, f"Ort{of_c}Allocator") for name, of_c in ALLOCATORS.items()}),
        (types.MemType, {name: getattr(lib, f"OrtMemType{of_c}") for name, of_c in MEM_TYPES.items()}),
        (types.DeviceType, c_values("OrtMemoryInfoDeviceType_")),
    ],
    ids=lambda case: getattr(case, "__name__", ""),
)
def test_enums_have_the_values_of_c(enum, wanted):
    assert {name: int(member) for name, member in enum.__members__.items()} == wanted
