"""ONNX's element types and their numpy dtypes, packed arrays, and the small enums of the C API."""

from __future__ import annotations

import math
import operator
from collections.abc import Iterable, Sequence
from enum import IntEnum
from functools import cache
from typing import TYPE_CHECKING, Any, Final, Self, SupportsIndex

import numpy as np

from zrt._common.arguments import require_type, shown
from zrt._common.public import public
from zrt._native.cdata import NULL, new_array
from zrt._native.handle import Handle
from zrt._native.library import api
from zrt._native.status import make, type_and_shape
from zrt.errors import DTypeError, ShapeError, UnsupportedError

if TYPE_CHECKING:
    import numpy.typing as npt

__all__ = [
    "AllocatorType",
    "ArenaExtendStrategy",
    "DeviceMemType",
    "DeviceType",
    "ElementType",
    "ExecutionMode",
    "GraphOptimizationLevel",
    "LogSeverity",
    "MemType",
    "SparseFormat",
    "ValueKind",
    "as_shape",
    "creation_code",
    "nbytes",
    "pack",
    "unpack",
]

NO_COMPLEX = "ONNX Runtime has no tensors of complex numbers"


@public
class ElementType(IntEnum):
    """The element types of a tensor, with the values of C's ``ONNXTensorElementDataType``.

    A member's definition lists its value, ONNX's name, numpy's scalar type or the name of ml_dtypes' one, the bits of
    one element, and the reason if ONNX Runtime refuses tensors of this type.
    """

    onnx_name: str
    """ONNX Runtime's name for it, as in ``tensor(float)``."""
    _scalar: Any
    _dtype: np.dtype[Any] | None
    bits: int
    """The size of one element in bits; 0 for STRING and UNDEFINED, which have no fixed size."""
    refused: str | None
    """The reason why ONNX Runtime creates no tensor of this type; None if it does."""

    # The defaults let type checkers accept the look-up `ElementType(1)`.
    def __new__(
        cls, value: int, onnx_name: str = "", scalar: Any = None, bits: int = 0, refused: str | None = None
    ) -> Self:
        member = int.__new__(cls, value)
        member._value_ = value
        member.onnx_name = onnx_name
        member._scalar = scalar
        member._dtype = None if isinstance(scalar, str) else np.dtype(scalar)
        member.bits = bits
        member.refused = refused
        return member

    UNDEFINED = 0, "undefined", np.void, 0, "the element type is not known"
    FLOAT = 1, "float", np.float32, 32
    UINT8 = 2, "uint8", np.uint8, 8
    INT8 = 3, "int8", np.int8, 8
    UINT16 = 4, "uint16", np.uint16, 16
    INT16 = 5, "int16", np.int16, 16
    INT32 = 6, "int32", np.int32, 32
    INT64 = 7, "int64", np.int64, 64
    STRING = 8, "string", object, 0
    BOOL = 9, "bool", np.bool_, 8
    FLOAT16 = 10, "float16", np.float16, 16
    DOUBLE = 11, "double", np.float64, 64
    UINT32 = 12, "uint32", np.uint32, 32
    UINT64 = 13, "uint64", np.uint64, 64
    COMPLEX64 = 14, "complex64", np.complex64, 64, NO_COMPLEX
    COMPLEX128 = 15, "complex128", np.complex128, 128, NO_COMPLEX
    BFLOAT16 = 16, "bfloat16", "bfloat16", 16
    FLOAT8E4M3FN = 17, "float8e4m3fn", "float8_e4m3fn", 8
    FLOAT8E4M3FNUZ = 18, "float8e4m3fnuz", "float8_e4m3fnuz", 8
    FLOAT8E5M2 = 19, "float8e5m2", "float8_e5m2", 8
    FLOAT8E5M2FNUZ = 20, "float8e5m2fnuz", "float8_e5m2fnuz", 8
    UINT4 = 21, "uint4", "uint4", 4
    INT4 = 22, "int4", "int4", 4
    FLOAT4E2M1 = 23, "float4e2m1", "float4_e2m1fn", 4
    UINT2 = 24, "uint2", "uint2", 2
    INT2 = 25, "int2", "int2", 2
    FLOAT8E8M0 = 26, "float8e8m0", "float8_e8m0fnu", 8

    @property
    def dtype(self) -> np.dtype[Any]:
        """The dtype of its arrays: from ml_dtypes if numpy has none; objects for STRING, void for UNDEFINED."""
        if self._dtype is None:
            # The import is slow, and few models need it.
            import ml_dtypes

            self._dtype = np.dtype(getattr(ml_dtypes, self._scalar))
        return self._dtype

    @property
    def packed(self) -> bool:
        """Whether one byte holds several elements; the array of such a tensor is its packed bytes, as `uint8`."""
        return 0 < self.bits < 8

    @property
    def onnx_code(self) -> int:
        """Its value in ONNX's ``TensorProto.DataType``, which differs for UINT2, INT2 and FLOAT8E8M0."""
        return _ONNX_CODES.get(self, int(self))

    @classmethod
    def of(cls, dtype_like: object) -> ElementType:
        """The element type of a numpy dtype, a scalar type, a dtype's name, "string" or an `ElementType`.

        Byte order does not matter: ``">f4"`` is FLOAT. Arrays of `str`, `bytes` and objects are STRING.
        Raises `DTypeError` for a dtype that ONNX does not have.
        """
        try:
            known = _BY_DTYPE.get(dtype_like)
        except (TypeError, ValueError):  # not hashable, as a structured dtype's list of fields
            known = None
        return known if known is not None else _of_unusual(dtype_like)


_ONNX_CODES: Final = {ElementType.FLOAT8E8M0: 24, ElementType.UINT2: 25, ElementType.INT2: 26}

BY_ONNX_CODE: Final = {kind.onnx_code: kind for kind in ElementType}


def _keys(kinds: Iterable[ElementType]) -> dict[object, ElementType]:
    return {key: kind for kind in kinds for key in (kind.dtype, kind.dtype.type)}


# Without the dtypes of ml_dtypes, which `_add_ml_dtypes` adds when an unknown dtype is looked up.
_BY_DTYPE: Final = _keys(kind for kind in ElementType if kind.value and kind._dtype is not None)


@cache
def _add_ml_dtypes() -> None:
    _BY_DTYPE.update(_keys(kind for kind in ElementType if isinstance(kind._scalar, str)))


# The errors of `numpy.dtype`; a SyntaxError is that of a text with a parenthesis, which numpy parses as Python.
_NO_DTYPE = TypeError, ValueError, SyntaxError


def _of_unusual(dtype_like: Any) -> ElementType:
    """`ElementType.of` for anything but a native dtype and its scalar type."""
    if isinstance(dtype_like, ElementType):
        return dtype_like
    if dtype_like is None:  # numpy reads None as float64
        raise DTypeError("None is not a dtype")
    if isinstance(dtype_like, str) and dtype_like.lower() == ElementType.STRING.onnx_name:
        return ElementType.STRING
    try:
        dtype = np.dtype(dtype_like)
    except _NO_DTYPE:
        # numpy knows the dtypes of ml_dtypes by name once it is imported.
        _add_ml_dtypes()
        try:
            dtype = np.dtype(dtype_like)
        except _NO_DTYPE as error:
            raise DTypeError(f"{shown(dtype_like)} is not a dtype: {error}") from error
    if dtype.kind == "O" and isinstance(dtype_like, type) and dtype_like is not object:
        # numpy reads any class as that of objects.
        raise DTypeError(f"{shown(dtype_like)} is not a dtype")
    if dtype.kind in "OSTU":
        return ElementType.STRING
    native = dtype.newbyteorder("=")
    known = _BY_DTYPE.get(native)
    if known is None:
        _add_ml_dtypes()
        known = _BY_DTYPE.get(native)
    if known is None:
        raise DTypeError(f"ONNX has no element type for the dtype {dtype}")
    return known


@cache
def creation_code(element_type: ElementType) -> int:
    """The type argument with which ONNX Runtime's functions create a tensor of `element_type`.

    ``CreateTensorAsOrtValue`` and its like read their type argument as a ``TensorProto.DataType`` up to 1.30, and as
    the C enum, in which they report types, since 1.31. The two differ for UINT2, INT2 and FLOAT8E8M0. For these types a
    trial with the loaded library decides.
    """
    code = element_type.onnx_code
    if code == element_type:
        return code
    table = api()
    allocator = make(table.GetAllocatorWithDefaultOptions, "OrtAllocator")
    value = Handle.make(table.ReleaseValue, [], table.CreateTensorAsOrtValue, "OrtValue", allocator, NULL, 0, code)
    reported, _ = type_and_shape(value.pointer)
    return code if reported == element_type else int(element_type)


def new_tensor(
    function: Any,
    place: Sequence[Any],
    shape: tuple[int, ...],
    element_type: ElementType,
    parents: Sequence[Handle] = (),
) -> Handle:
    """The ``OrtValue`` that a function of the table makes of `place`, its first arguments, a shape and a type."""
    table = api()
    dims, code = new_array("int64_t", shape), creation_code(element_type)
    return Handle.make(table.ReleaseValue, parents, function, "OrtValue", *place, dims, len(shape), code)


def require_tensors(element_type: ElementType, subject: str) -> None:
    """Raises `UnsupportedError` if ONNX Runtime creates no tensor of this type."""
    if element_type.refused:
        raise UnsupportedError(f"{subject}: {element_type.name} tensors: {element_type.refused}")


def as_shape(shape: Any, subject: str = "shape") -> tuple[int, ...]:
    """`shape`, a sequence of ints or one int, as a tuple of ints.

    Raises `ShapeError`, about `subject`, for a dimension that is no int from 0 to 2**63 - 1.
    """
    if isinstance(shape, (int, np.integer)) and not isinstance(shape, bool):
        shape = (shape,)
    try:
        # A set has no order, and a tuple of the others is not what its caller means.
        if isinstance(shape, (str, bytes, set, frozenset, dict)):
            raise TypeError
        dims = tuple(shape)
    except TypeError:
        raise ShapeError(f"{subject}: a shape is a tuple of integers, not {shown(shape)}") from None
    for dim in dims:
        if isinstance(dim, bool) or not issubclass(type(dim), (int, np.integer)):
            raise ShapeError(f"{subject}: dimension {shown(dim)} of {shown(dims)} is not an integer")
    # A subclass of int may override comparison: check the number that C reads.
    sizes = tuple([operator.index(dim) for dim in dims])
    for size in sizes:
        if not 0 <= size < 1 << 63:
            raise ShapeError(f"{subject}: dimension {shown(size)} of {shown(dims)} is out of range")
    return sizes


def nbytes(element_type: ElementType, shape: Iterable[SupportsIndex]) -> int:
    """The bytes that ONNX Runtime stores for a tensor of `shape`; packed types round up to a whole byte.

    Equal to the result of ``GetTensorSizeInBytes``. Raises `ShapeError` for an invalid dimension and `DTypeError` for
    STRING and UNDEFINED, whose elements have no fixed size.
    """
    require_type(element_type, ElementType, "element_type", "an ElementType")
    if not element_type.bits:
        raise DTypeError(f"elements of type {element_type.name} have no fixed size")
    return (math.prod(as_shape(shape)) * element_type.bits + 7) // 8


def pack(array: npt.NDArray[Any], element_type: object) -> npt.NDArray[np.uint8]:
    """The packed bytes of `array`, as a `uint8` array of one dimension: the first element in the lowest bits.

    `array` has the dtype of `element_type` (``ml_dtypes.int4`` for INT4) and any shape; `element_type` may be
    anything that `ElementType.of` accepts. Unused bits of the last byte are zero; the order is that of ONNX's
    ``TensorProto.raw_data``. Raises `DTypeError` for an array of another dtype or a type that is not packed.
    """
    element_type = _packed_type(element_type)
    _require(array, element_type.dtype, f"pack to {element_type.name}")
    bits = element_type.bits
    groups = np.zeros((nbytes(element_type, array.shape), 8 // bits), np.uint8)
    groups.reshape(-1)[: array.size] = array.reshape(-1).view(np.uint8) & (2**bits - 1)
    groups <<= np.arange(0, 8, bits, dtype=np.uint8)
    packed: npt.NDArray[np.uint8] = np.bitwise_or.reduce(groups, axis=1)
    return packed


def unpack(packed: npt.NDArray[np.uint8], element_type: object, shape: Iterable[SupportsIndex]) -> npt.NDArray[Any]:
    """The elements in the bytes `packed`, as a fresh ml_dtypes array of the logical `shape`.

    Raises `DTypeError` if `packed` is not `uint8` or `element_type` is not packed, and `ShapeError` if the number of
    bytes does not match `shape` or numpy has no array of that shape.
    """
    element_type = _packed_type(element_type)
    _require(packed, np.dtype(np.uint8), f"unpack of {element_type.name}")
    dims = as_shape(shape)
    wanted = nbytes(element_type, dims)
    if packed.size != wanted:
        raise ShapeError(f"{element_type.name} of shape {dims} is {wanted} bytes packed, not {packed.size}")
    bits = element_type.bits
    elements = (packed.reshape(-1, 1) >> np.arange(0, 8, bits, dtype=np.uint8)) & np.uint8(2**bits - 1)
    try:
        return elements.reshape(-1)[: math.prod(dims)].view(element_type.dtype).reshape(dims)
    except ValueError as error:
        raise ShapeError(f"shape {list(dims)}: numpy has no such array: {error}") from error


def _packed_type(dtype_like: object) -> ElementType:
    element_type = ElementType.of(dtype_like)
    if not element_type.packed:
        raise DTypeError(f"{element_type.name} is not a packed type")
    return element_type


def _require(array: object, dtype: np.dtype[Any], subject: str) -> None:
    if not isinstance(array, np.ndarray) or array.dtype != dtype:
        came = array.dtype if isinstance(array, np.ndarray) else type(array).__name__
        raise DTypeError(f"{subject}: expected an array of {dtype}, got {came}")


@public
class GraphOptimizationLevel(IntEnum):
    """How far ONNX Runtime optimizes a graph at load (``SetSessionGraphOptimizationLevel``)."""

    DISABLE_ALL = 0
    ENABLE_BASIC = 1
    ENABLE_EXTENDED = 2
    ENABLE_LAYOUT = 3
    ENABLE_ALL = 99


@public
class ExecutionMode(IntEnum):
    """Whether a run executes its nodes one after another or in parallel (``SetSessionExecutionMode``)."""

    SEQUENTIAL = 0
    PARALLEL = 1


@public
class LogSeverity(IntEnum):
    """The severity of a message in ONNX Runtime's log (``OrtLoggingLevel``)."""

    VERBOSE = 0
    INFO = 1
    WARNING = 2
    ERROR = 3
    FATAL = 4


@public
class ValueKind(IntEnum):
    """The kind of an ``OrtValue`` (``ONNXType``)."""

    UNKNOWN = 0
    TENSOR = 1
    SEQUENCE = 2
    MAP = 3
    OPAQUE = 4
    SPARSE_TENSOR = 5
    OPTIONAL = 6


@public
class SparseFormat(IntEnum):
    """How a sparse tensor stores the indices of its values (``OrtSparseFormat``)."""

    COO = 1
    CSR = 2
    BLOCK_SPARSE = 4


class AllocatorType(IntEnum):
    """How an allocator gets its memory (``OrtAllocatorType``)."""

    INVALID = -1
    DEVICE = 0
    ARENA = 1
    READ_ONLY = 2


class MemType(IntEnum):
    """For which use an execution provider has this memory (``OrtMemType``)."""

    CPU_INPUT = -2
    CPU_OUTPUT = -1
    CPU = -1
    DEFAULT = 0


class ArenaExtendStrategy(IntEnum):
    """How much a full arena grows (``arena_extend_strategy``)."""

    NEXT_POWER_OF_TWO = 0
    SAME_AS_REQUESTED = 1


class DeviceMemType(IntEnum):
    """A device's own memory, or memory that the CPU can access too (``OrtDeviceMemoryType``)."""

    DEFAULT = 0
    HOST_ACCESSIBLE = 5


class DeviceType(IntEnum):
    """The kind of device that memory belongs to (``OrtMemoryInfoDeviceType``)."""

    CPU = 0
    GPU = 1
    FPGA = 2
    NPU = 3
