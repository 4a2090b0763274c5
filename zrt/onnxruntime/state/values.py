"""`OrtValue` over a `Value`, vectors of them, and copies between them."""

from __future__ import annotations

import math
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import numpy as np

from zrt.environment.environment import current
from zrt.errors import AllocationError, DLPackError, Error
from zrt.memory import arrays
from zrt.memory.allocators import CPU as HOST
from zrt.memory.allocators import Allocator
from zrt.onnxruntime.release import minor
from zrt.onnxruntime.state.arguments import (
    ANY,
    ARRAY,
    INT32,
    INT64,
    Kind,
    instance,
    no_constructor,
    refused,
    sequence,
    take,
)
from zrt.onnxruntime.state.devices import (
    CPU,
    NPU,
    NotPickled,
    OrtDevice,
    OrtMemoryInfo,
    OrtSyncStream,
    memory_of,
    runtime_error,
)
from zrt.types import BY_ONNX_CODE, ElementType, ValueKind, nbytes
from zrt.values import Value
from zrt.values.value import at_address

if TYPE_CHECKING:
    from zrt.onnxruntime.state.sparse import SparseTensor

_NUMBERS_ONLY = "Creation of OrtValues is currently only supported from non-string numpy arrays"
_TENSORS_ONLY = "Only OrtValues that are Tensors are currently supported"
_NO_ALLOCATOR = (
    "Can't allocate memory on the device using this package of OnnxRuntime. "
    "Please use the appropriate package of OnnxRuntime for your hardware to use this feature."
)
_NO_PLACE = "Unsupported device: Cannot place the OrtValue on this device"

# The kinds of dtypes that are numbers: bool, int, unsigned, float and complex.
_NUMBERS = "biufc"

# The types without an array, by the names in the messages about them.
_NO_ARRAY = {
    ElementType.BFLOAT16: "bfloat16",
    ElementType.FLOAT8E4M3FNUZ: "Float8E4M3FNUZ",
    ElementType.FLOAT8E5M2: "Float8E5M2",
    ElementType.FLOAT8E5M2FNUZ: "Float8E5M2FNUZ",
    ElementType.FLOAT8E8M0: "Float8E8M0",
    ElementType.FLOAT4E2M1: "Float4E2M1x2",
    ElementType.INT4: "Int4x2",
    ElementType.UINT4: "UInt4x2",
    ElementType.INT2: "Int2x4",
    ElementType.UINT2: "UInt2x4",
}

# ONNX Runtime counts a string as the size of the C++ object, whatever its length.
_STRING_SIZE = 32

_DEVICE_NAMES = {"Hip": "Gpu"}


def type_name(value: Value) -> str:
    """A value's type as the official package writes it: "tensor(float)", "seq(map(int64,tensor(float)))"."""
    name = f"tensor({value.element_type.onnx_name})"
    if value.key_type is not ElementType.UNDEFINED:
        name = f"map({value.key_type.onnx_name},{name})"
    if value.kind is ValueKind.SPARSE_TENSOR:
        return f"sparse_{name}"
    return f"seq({name})" if value.kind is ValueKind.SEQUENCE else name


def element_type_of(dtype: np.dtype[Any]) -> ElementType:
    """The element type of arrays of numbers; raises `RuntimeError` for any other dtype."""
    if dtype.kind not in _NUMBERS:
        raise RuntimeError(_NUMBERS_ONLY)
    try:
        element_type = ElementType.of(dtype)
    except Error:
        element_type = ElementType.COMPLEX64
    if element_type.refused:
        raise RuntimeError(f"Numpy_type {dtype.num} can't be converted to MLDataType.")
    return element_type


def on_cpu(array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """An array of numbers as a tensor can use its memory: the array itself, or a contiguous copy."""
    element_type_of(array.dtype)
    if type(array) is np.ndarray and array.flags.carray and array.dtype.isnative:
        # The caller may change the shape of its own object.
        return array.view()
    # A masked array counts as its data, as theirs.
    return arrays.native(np.asarray(array))


def over_bytes(array: np.ndarray[Any, Any], element_type: ElementType) -> Value:
    """A value of any element type over the memory of an array whose elements have the same size."""
    array = arrays.native(np.asarray(array))
    if element_type.packed:
        # Each element of the array counts as one of the tensor's, whose bytes are the array's first ones.
        size = nbytes(element_type, array.shape)
        return Value.from_packed(array.reshape(-1).view(np.uint8)[:size], element_type, array.shape)
    return Value.from_array(array.view(element_type.dtype))


def onnx_type(code: int) -> ElementType:
    """The element type of a number of ``TensorProto.DataType``."""
    element_type = BY_ONNX_CODE.get(code)
    if element_type is None or element_type.refused:
        raise RuntimeError(f"tensor type {code} is not supported")
    return element_type


def _allocator(device: OrtDevice) -> Allocator | None:
    """The allocator of a device's memory; None for the host's own."""
    if device.device_type() == CPU:
        return None
    memory = memory_of(device)
    found = None if memory is None else current().shared_allocator(memory)
    if found is None and memory is not None and memory.name == "Cuda":
        from zrt.values import copy

        # CUDA's library allocates once it is registered. Not tested on hardware.
        try:
            if not copy.register_cuda(memory):
                found = current().shared_allocator(memory)
        except Error as error:
            raise RuntimeError(f"Can't allocate memory on the device: {error}") from error
    if found is None:
        raise RuntimeError(_NO_PLACE if device.device_type() == NPU else _NO_ALLOCATOR)
    return found


def _shared_allocator(memory: OrtMemoryInfo) -> Allocator:
    """The environment's allocator for a memory."""
    found = current().shared_allocator(memory._to_zrt())
    if found is None:
        raise RuntimeError(f"No shared allocator found for: {memory._to_zrt()}")
    return found


def allocated(shape: list[int], element_type: ElementType, device: OrtDevice) -> Value:
    """A new tensor of undefined content on a device."""
    return allocated_by(_allocator(device), shape, element_type)


def allocated_by(allocator: Allocator | None, shape: list[int], element_type: ElementType) -> Value:
    """A new tensor of undefined content in an allocator's memory; None is the host's own."""
    if any(dim < 0 for dim in shape):
        raise RuntimeError(f"Tensor shape.Size() must be >= 0, and the shape is {shape}")
    try:
        return Value.allocate(tuple(shape), element_type, allocator)
    except AllocationError as error:
        if math.prod(shape) * max(element_type.bits, 8) >= 1 << 63:
            raise RuntimeError(f"Integer overflow: a tensor of shape {shape} is too large") from error
        raise MemoryError("std::bad_alloc") from error
    except Error as error:
        raise runtime_error(error) from error


class OrtValue(NotPickled):
    """A tensor or another kind of value; the functions below and runs make it."""

    __slots__ = ("_array", "_made")

    _array: np.ndarray[Any, Any] | None
    """The array of a tensor of numbers on the host: `numpy` and runs need no more. None for other values."""
    _made: Value | None
    """The value, once something needs it. Without an array, None stands for an optional value without content."""

    def __init__(self) -> None:
        raise no_constructor(self)

    @classmethod
    def _of(cls, value: Value | None) -> OrtValue:
        made = cls.__new__(cls)
        made._made = value
        made._array = None
        return made

    @classmethod
    def _over(cls, array: np.ndarray[Any, Any]) -> OrtValue:
        """A tensor over an array as `on_cpu` makes it."""
        made = cls.__new__(cls)
        made._made = None
        made._array = array
        return made

    @property
    def _value(self) -> Value | None:
        made = self._made
        if made is None and self._array is not None:
            made = self._made = Value.from_array(self._array)
        return made

    @_value.setter
    def _value(self, value: Value | None) -> None:
        self._made, self._array = value, None

    def _to_zrt(self) -> Value:
        if self._value is None:
            raise RuntimeError("the ort_value must contain a constructed tensor or sparse tensor")
        return self._value

    def __zrt_feed__(self) -> Value | np.ndarray[Any, Any]:
        """The form of the value that costs `zrt.Session.run` least."""
        return self._to_zrt() if self._array is None else self._array

    def _tensor(self, message: str = _TENSORS_ONLY) -> Value:
        value = self._value
        if value is None or not value.is_tensor:
            raise RuntimeError(message)
        return value

    @staticmethod
    def ortvalue_from_numpy(*arguments: Any) -> OrtValue:
        """A tensor from an array of numbers: on the CPU over the array's memory, on other devices a copy."""
        if len(arguments) != 2 or type(arguments[1]) is not OrtDevice:
            take("ortvalue_from_numpy", {"": (ANY, _DEVICE)}, arguments)
        array, device = arguments
        if not isinstance(array, np.ndarray):
            raise RuntimeError(_NUMBERS_ONLY)
        array = on_cpu(array)
        if device.device_type() == CPU:
            return OrtValue._over(array)
        copied = allocated(list(array.shape), element_type_of(array.dtype), device)
        _copy(Value.from_array(array), copied)
        return OrtValue._of(copied)

    @staticmethod
    def ortvalue_from_numpy_with_onnx_type(*arguments: Any) -> OrtValue:
        """A tensor over an array's memory, of an ONNX type whose elements have the size of the array's."""
        _, (array, code) = take("ortvalue_from_numpy_with_onnx_type", {"": (ARRAY, INT32)}, arguments)
        if code not in BY_ONNX_CODE:
            raise RuntimeError(f"Not a valid ONNX Tensor data type: {code}")
        element_type = onnx_type(code)
        size = _STRING_SIZE if element_type is ElementType.STRING else (element_type.bits + 7) // 8
        if array.dtype.itemsize != size:
            raise RuntimeError(
                f"Items size in the incoming array: {array.dtype.itemsize} specified by onnxtype: {size}"
            )
        if element_type is ElementType.STRING or array.dtype.hasobject:
            raise RuntimeError(_NUMBERS_ONLY)
        return OrtValue._of(over_bytes(array, element_type))

    @staticmethod
    def ortvalue_from_shape_and_type(*arguments: Any) -> OrtValue:
        """A tensor of undefined content, of a shape and a type of numpy."""
        _, (shape, given, device) = take("ortvalue_from_shape_and_type", {"": (SHAPE, ANY, _DEVICE)}, arguments)
        return OrtValue._of(allocated(shape, numpy_type(given), device))

    @staticmethod
    def ortvalue_from_shape_and_onnx_type(*arguments: Any) -> OrtValue:
        """A tensor of undefined content, of a shape and an ONNX type."""
        _, (shape, code, device) = take("ortvalue_from_shape_and_onnx_type", {"": (SHAPE, INT32, _DEVICE)}, arguments)
        return OrtValue._of(allocated(shape, onnx_number_type(code), device))

    @staticmethod
    def ortvalue_from_shape_and_type_for_memory_info(*arguments: Any) -> OrtValue:
        """A tensor of undefined content, of a shape and a type of numpy, from the shared allocator of a memory."""
        name = "ortvalue_from_shape_and_type_for_memory_info"
        _, (shape, given, memory) = take(name, {"": (SHAPE, ANY, _MEMORY)}, arguments)
        element_type = numpy_type(given)
        return OrtValue._of(allocated_by(_shared_allocator(memory), shape, element_type))

    @staticmethod
    def ortvalue_from_shape_and_onnx_type_for_memory_info(*arguments: Any) -> OrtValue:
        """The same of a shape and an ONNX type."""
        name = "ortvalue_from_shape_and_onnx_type_for_memory_info"
        _, (shape, code, memory) = take(name, {"": (SHAPE, INT32, _MEMORY)}, arguments)
        element_type = onnx_number_type(code)
        return OrtValue._of(allocated_by(_shared_allocator(memory), shape, element_type))

    @staticmethod
    def ort_value_from_sparse_tensor(*arguments: Any) -> OrtValue:
        """A value that holds a sparse tensor."""
        from zrt.onnxruntime.state.sparse import SparseTensor

        _, (tensor,) = take("ort_value_from_sparse_tensor", {"": (instance(SparseTensor),)}, arguments)
        return OrtValue._of(tensor._to_zrt())

    def as_sparse_tensor(self) -> SparseTensor:
        """The sparse tensor of the value."""
        from zrt.onnxruntime.state.sparse import SparseTensor

        if not self.is_sparse_tensor():
            raise RuntimeError("This OrtValue does not contain SparseTensor. Check data_type() value.")
        return SparseTensor._of(self._to_zrt())

    def update_inplace(self, *arguments: Any) -> None:
        """Writes the content of an array of numbers, or of another value, into the value's own memory."""
        if len(arguments) == 1 and isinstance(arguments[0], OrtValue):
            self._copy_from(arguments[0])
        elif len(arguments) == 1 and isinstance(arguments[0], np.ndarray):
            self._fill(arguments[0])
        else:
            raise refused("update_inplace", [(ARRAY,), (_VALUE,)], arguments)

    def _copy_from(self, source: OrtValue) -> None:
        origin, target = source._value, self._value
        if origin is None or target is None or not (origin.is_tensor and target.is_tensor):
            raise RuntimeError("Inplace update of OrtValues is only supported for Tensors")
        if origin.element_type is not target.element_type:
            raise RuntimeError("The source and destination OrtValues must have the same data type")
        if math.prod(origin.shape) != math.prod(target.shape):
            raise RuntimeError("The source and destination OrtValues must have the same size")
        if origin.element_type is ElementType.STRING:
            raise RuntimeError("Inplace update of string tensors is not supported")
        _copy(origin, target)

    def _fill(self, array: np.ndarray[Any, Any]) -> None:
        target = self._tensor("Inplace update of OrtValues is only supported for Tensors")
        if array.dtype.kind not in _NUMBERS or target.element_type is ElementType.STRING:
            raise RuntimeError("Inplace update of OrtValues is currently only supported from non-string numpy arrays")
        if array.size != math.prod(target.shape):
            raise RuntimeError("The input size of numpy arrays does not match the size of the OrtValue.")
        if array.dtype.itemsize != (target.element_type.bits + 7) // 8:
            raise RuntimeError(
                f"Inplace update copies bytes: the elements of the array have {array.dtype.itemsize}, those of the "
                f"OrtValue, {self.data_type()}, {(target.element_type.bits + 7) // 8}"
            )
        _copy(over_bytes(array.reshape(target.shape), target.element_type), target)

    def data_ptr(self) -> int:
        """The address of the tensor's first element."""
        return self._tensor().address

    def device_name(self) -> str:
        """The name of the memory that holds the content: "Cpu", "Cuda"."""
        value = self._value
        if value is None or value.kind not in (ValueKind.TENSOR, ValueKind.SPARSE_TENSOR):
            raise RuntimeError("Only OrtValues that are Tensors/SparseTensors are currently supported")
        return device_name(value)

    def shape(self) -> list[int]:
        """The shape; of a sparse tensor the dense one."""
        if self._array is not None:
            return list(self._array.shape)
        value = self._made
        if value is None or value.kind not in (ValueKind.TENSOR, ValueKind.SPARSE_TENSOR):
            raise RuntimeError("Only OrtValues that are Tensors/SpareTensors are currently supported")
        return list(value.shape)

    def data_type(self) -> str:
        """The type, for example "tensor(float)"."""
        return type_name(self._to_zrt())

    def element_type(self) -> int:
        """The ONNX number of the element type of a tensor, or of the tensors in a sequence."""
        value = self._to_zrt()
        if value.kind is ValueKind.MAP or value.key_type is not ElementType.UNDEFINED:
            raise RuntimeError("Tensor proto_type is unavailable for this value.")
        return value.element_type.onnx_code

    def tensor_size_in_bytes(self) -> int:
        """The size of the tensor's memory; a string counts as the object that C++ has for it."""
        value = self._tensor()
        if value.element_type is ElementType.STRING:
            return _STRING_SIZE * math.prod(value.shape)
        return value.nbytes

    def has_value(self) -> bool:
        """Whether there is content; an optional value may have none."""
        return self._array is not None or self._made is not None

    def is_tensor(self) -> bool:
        """Whether it is a dense tensor."""
        return self._array is not None or (self._made is not None and self._made.is_tensor)

    def is_sparse_tensor(self) -> bool:
        """Whether it is a sparse tensor."""
        return self._value is not None and self._value.kind is ValueKind.SPARSE_TENSOR

    def is_tensor_sequence(self) -> bool:
        """Whether it is a sequence of tensors."""
        value = self._value
        return value is not None and value.kind is ValueKind.SEQUENCE and value.key_type is ElementType.UNDEFINED

    def numpy(self) -> Any:
        """The tensor as an array: of numbers over its memory, of strings or of a device a copy."""
        if self._array is not None:
            return self._array[...]
        return as_array(self._tensor("Only OrtValues that are Tensors are convertible to Numpy objects"))

    def to_dlpack(self) -> Any:
        """A DLPack capsule over the tensor's memory, which the capsule keeps alive; before 1.32 bool becomes uint8."""
        if self._array is not None and self._array.dtype != np.bool_:
            # numpy exports no array of ml_dtypes, and none that is read-only.
            with suppress(BufferError):
                return self._array.__dlpack__()
        value = self._tensor("Only tensor type OrtValues are supported")
        if value.element_type is ElementType.BOOL and value.memory.is_host and minor() < 32:
            value = Value.from_array(value.numpy().view(np.uint8))
        if value.element_type in _NO_DLPACK:
            raise RuntimeError(f"Unexpected data type of {value.element_type.onnx_code}")
        return value.__dlpack__()

    def __dlpack__(self, stream: Any = None) -> Any:
        return self.to_dlpack()

    def __dlpack_device__(self) -> tuple[int, int]:
        if self._array is not None:
            return (1, 0)
        value = self._tensor("Only tensor type OrtValues are supported")
        return (1, 0) if value.memory.is_host else value.__dlpack_device__()

    @staticmethod
    def from_dlpack(data: Any, is_bool_tensor: bool = False) -> OrtValue:
        """A value over the memory of a capsule's tensor; uint8 as bool if `is_bool_tensor`."""
        from zrt.interop import dlpack

        if not hasattr(type(data), "__dlpack_device__"):
            data = _Capsule(data.__dlpack__() if hasattr(data, "__dlpack__") else data)
        try:
            value = dlpack.from_dlpack(data)
        except DLPackError as error:
            if "C-contiguous" in str(error):
                raise RuntimeError(f"ORT only supports contiguous tensor for now. {error}") from error
            cause = error.__cause__
            if isinstance(cause, BufferError):
                raise cause from error
            raise runtime_error(error) from error
        except Error as error:
            raise runtime_error(error) from error
        if is_bool_tensor and value.element_type is ElementType.UINT8 and value.memory.is_host:
            value = Value.from_array(value.numpy().view(np.bool_))
        return OrtValue._of(value)


# The types whose tensors are arrays of numpy's own types.
_ARRAY_TYPES = {kind for kind in ElementType if kind.bits and not kind.refused and kind not in _NO_ARRAY} - {
    ElementType.FLOAT8E4M3FN
}

# The types that theirs does not exchange by DLPack.
_NO_DLPACK = {
    kind
    for kind in ElementType
    if kind is ElementType.STRING or kind.packed or (kind.bits == 8 and kind.name.startswith("FLOAT"))
}

_DEVICE = instance(OrtDevice)
_MEMORY = instance(OrtMemoryInfo)
_VALUE = instance(OrtValue)
SHAPE = sequence(INT64)


class _Capsule:
    """A capsule as an object that exports it, for `zrt.from_dlpack`."""

    def __init__(self, capsule: object) -> None:
        self.capsule = capsule

    def __dlpack__(self, **_: Any) -> object:
        return self.capsule

    def __dlpack_device__(self) -> tuple[int, int]:
        return 1, 0


def device_name(value: Value) -> str:
    """The name of the memory that holds a value."""
    return _DEVICE_NAMES.get(value.memory.name, value.memory.name)


def numpy_type(given: Any) -> ElementType:
    """The element type of anything that numpy reads as a dtype of numbers."""
    try:
        dtype = np.dtype(given)
    except Exception:
        raise RuntimeError("Not a valid numpy type") from None
    return element_type_of(dtype)


def onnx_number_type(code: int) -> ElementType:
    """The element type of a number of ONNX, but strings."""
    element_type = onnx_type(code)
    if element_type is ElementType.STRING:
        raise RuntimeError(_NUMBERS_ONLY)
    return element_type


def on_host(value: Value) -> Value:
    """A tensor itself, or a copy of one that lies on a device."""
    if value.memory.is_host:
        return value
    target = Value.allocate(value.shape, value.element_type)
    _copy(value, target)
    return target


def as_array(value: Value) -> Any:
    """A tensor as numpy has it; raises `RuntimeError` for a type that has no array."""
    refused_name = _NO_ARRAY.get(value.element_type)
    if refused_name is not None:
        raise RuntimeError(f"No corresponding Numpy type for Tensor Type. {refused_name}")
    array = on_host(value).numpy()
    # Theirs has no dtype of its own for this type.
    return array.view(np.uint8) if value.element_type is ElementType.FLOAT8E4M3FN else array


def _copy(source: Value, target: Value) -> None:
    """Copies a tensor's bytes into another of the same type and size."""
    try:
        if not (source.memory.is_host and target.memory.is_host):
            from zrt.values import copy

            copy.copy(source, target)
            return
        origin, place = source.numpy(), target.numpy()
    except Error as error:
        raise runtime_error(error) from error
    if not place.flags.writeable:
        raise RuntimeError("Inplace update: the OrtValue is over a read-only array")
    place.reshape(-1).view(np.uint8)[...] = origin.reshape(-1).view(np.uint8)


def over_address(
    address: int, shape: list[int], element_type: ElementType, device: OrtDevice, owner: object = None
) -> OrtValue:
    """A value over memory at an address, which is the caller's to keep alive, or `owner`'s.

    Raises `RuntimeError` for a shape or an address that no tensor can have.
    """
    memory = memory_of(device)
    if memory is None:
        raise RuntimeError(_NO_PLACE)
    if element_type is ElementType.STRING:
        raise RuntimeError(_NUMBERS_ONLY)
    if min(shape, default=0) < 0:
        raise RuntimeError(f"shape.Size() must >=0, and the shape is {shape}")
    size = (math.prod(shape) * element_type.bits + 7) // 8
    if size >= 1 << 62:
        raise RuntimeError(f"Integer overflow: a tensor of shape {shape} is too large")
    if size and not 0 < address < (1 << 64) - size:
        raise RuntimeError(f"a tensor of {size} bytes cannot be at the address {address}")
    width = max(element_type.bits // 8, 1)
    if size and address % width:
        raise RuntimeError(f"the address {address:#x} is no multiple of {width} bytes, the size of an element")
    if memory is HOST and element_type in _ARRAY_TYPES:
        dtype = element_type.dtype
        return OrtValue._over(
            np.asarray(_Memory(address, tuple(shape), dtype, owner)) if size else np.empty(shape, dtype)
        )
    return OrtValue._of(at_address(address, tuple(shape), element_type, memory, owner))


class _Memory:
    """Memory at an address as numpy reads it; an array over it keeps this object and the owner alive."""

    __slots__ = ("__array_interface__", "owner")

    def __init__(self, address: int, shape: tuple[int, ...], dtype: np.dtype[Any], owner: object) -> None:
        self.owner = owner
        self.__array_interface__ = {"version": 3, "shape": shape, "typestr": dtype.str, "data": (address, False)}


def copy_tensors(*arguments: Any) -> None:
    """Copies each tensor of the first sequence into the one of the second, on a device's stream or with None."""
    values = sequence(_VALUE)
    _, (sources, targets, stream) = take("copy_tensors", {"": (values, values, ANY)}, arguments)
    if not sources or len(sources) != len(targets):
        raise RuntimeError("Invalid arguments provided to CopyTensors.")
    if stream is not None and not isinstance(stream, OrtSyncStream):
        raise RuntimeError(f"Unable to cast Python instance of type {type(stream)} to C++ type 'OrtSyncStream'")
    from zrt.values import copy

    message = "OrtValue must contain Tensor with data."
    pairs = [(one._tensor(message), two._tensor(message)) for one, two in zip(sources, targets, strict=True)]
    try:
        copy.copy_all(pairs, None if stream is None else stream._to_zrt())
    except Error as error:
        raise runtime_error(error) from error


def is_dlpack_uint8_tensor(capsule: Any) -> bool:
    """Whether a DLPack capsule holds a tensor of uint8, as which tensors of bool are exported too."""
    from zrt.interop import dlpack

    try:
        return dlpack.element_type_in(capsule) is ElementType.UINT8
    except DLPackError:
        raise refused("is_dlpack_uint8_tensor", [(Kind("typing_extensions.CapsuleType", id),)], (capsule,)) from None
