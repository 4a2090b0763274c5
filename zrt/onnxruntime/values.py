"""`OrtValue` over a `Value`, `OrtValueVector`, and copies between values."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from zrt.environment.environment import current
from zrt.errors import AllocationError, DLPackError, Error
from zrt.interop import dlpack
from zrt.memory import arrays
from zrt.memory.allocators import Allocator
from zrt.onnxruntime import conversions, errors, notices
from zrt.onnxruntime.devices import OrtDevice, OrtMemoryInfo, OrtSyncStream
from zrt.onnxruntime.feeds import AS_BYTES, tensor_type
from zrt.onnxruntime.provider_args import minor
from zrt.onnxruntime.sparse import SparseTensor, device_name, type_name
from zrt.onnxruntime.wrapper import NotPickled, itself
from zrt.types import BY_ONNX_CODE, ElementType, ValueKind, nbytes
from zrt.values import copy
from zrt.values.value import Value, at_address

# The kinds of dtypes that are numbers: bool, int, unsigned, float and complex.
_NUMBERS = "biufc"

# The types whose tensors are arrays of numpy's own types, also in the official package.
_ARRAY_TYPES = {ElementType.of(np.dtype(code)) for code in "?bBhHiIlLefd"}
# The types that the official package does not exchange by DLPack.
_NO_DLPACK = {
    kind
    for kind in ElementType
    if kind is ElementType.STRING or kind.packed or (kind.bits == 8 and kind.name.startswith("FLOAT"))
}

# ONNX Runtime counts a string as the size of the C++ object, whatever its length.
_STRING_SIZE = 32


def element_type_of(dtype: np.dtype[Any]) -> ElementType:
    """The element type of arrays of numbers; raises `RuntimeError` for any other dtype."""
    if dtype.kind not in _NUMBERS:
        raise RuntimeError(f"an OrtValue takes arrays of numbers, and no array of {dtype}")
    return tensor_type(dtype)


def element_type(kind: np.typing.DTypeLike | int) -> ElementType:
    """The element type of numbers, of a number of ``TensorProto.DataType`` or of anything that numpy reads as a dtype.

    Raises `RuntimeError` for strings and for unknown types.
    """
    if not isinstance(kind, int):
        try:
            dtype = np.dtype(kind)
        except Exception:
            raise RuntimeError(f"{kind!r} is no type of numpy's") from None
        return element_type_of(dtype)
    onnx = onnx_type(conversions.integer(kind, "element_type"))
    if onnx is ElementType.STRING:
        raise RuntimeError("an OrtValue of strings cannot be made here")
    return onnx


def onnx_type(code: int) -> ElementType:
    """The element type of a number of ``TensorProto.DataType``."""
    kind = BY_ONNX_CODE.get(code)
    if kind is None or kind.refused:
        raise RuntimeError(f"tensor type {code} is not supported")
    return kind


def _over_bytes(array: np.ndarray[Any, Any], kind: ElementType) -> Value:
    """A value of any element type over the memory of an array whose elements have the same size."""
    array = arrays.native(np.asarray(array))
    if kind.packed:
        # Each element of the array counts as one of the tensor's, whose bytes are the array's first ones.
        size = nbytes(kind, array.shape)
        return Value.from_packed(array.reshape(-1).view(np.uint8)[:size], kind, array.shape)
    return Value.from_array(array.view(kind.dtype))


def _aligned(shape: list[int], dtype: np.dtype[Any]) -> np.ndarray[Any, Any]:
    """An array of undefined content at a multiple of 64 bytes, as memory of ONNX Runtime's own; numpy's is at 16."""
    block = np.empty(math.prod(shape) * dtype.itemsize + 64, np.uint8)
    return np.ndarray(shape, dtype, block, -arrays.address_of(block) % 64)


def _allocator(device: OrtDevice) -> Allocator | None:
    """The allocator of a device's memory; None for the host's own."""
    if device._is_cpu:
        return None
    memory = device._memory()
    allocator = None if memory is None else current().shared_allocator(memory)
    if allocator is None and memory is not None and memory.name == "Cuda":
        # CUDA's library allocates once it is registered. Not tested on hardware.
        with errors.as_runtime_error("Can't allocate memory on the device: "):
            if not copy.register_cuda(memory):
                allocator = current().shared_allocator(memory)
    if allocator is None:
        raise RuntimeError(f"Can't allocate memory on the device {device._numbers}: no provider has it")
    return allocator


class OrtValue(NotPickled):
    """A value for runs and bindings: a tensor on the CPU or on a device, a sparse tensor, a sequence or a map."""

    _array: np.ndarray[Any, Any] | None
    """The array of a tensor of numbers on the host, once something needs it: `numpy` and runs need no more."""
    _content: Value | None
    """The value, once something needs it. Without an array, None stands for an optional value without content."""

    def __init__(self, ortvalue: OrtValue, numpy_obj: object = None, session: object = None) -> None:
        """A second object for the same value; each keeps its memory alive, so the other arguments are not needed."""
        if not isinstance(ortvalue, OrtValue):
            raise ValueError(f"ortvalue: expected an OrtValue, got {type(ortvalue).__name__}")
        self._array, self._content = ortvalue._array, ortvalue._content

    @classmethod
    def _of(cls, content: Value | None, array: np.ndarray[Any, Any] | None = None) -> OrtValue:
        value = cls.__new__(cls)
        value._content, value._array = content, array
        return value

    @staticmethod
    def _allocated(allocator: Allocator | None, shape: Any, kind: Any) -> OrtValue:
        """A new tensor of undefined content in an allocator's memory; None is the host's own."""
        sizes, element = conversions.integers(shape, "shape"), element_type(kind)
        if min(sizes, default=0) < 0:
            raise RuntimeError(f"a tensor has no negative sizes, and the shape is {sizes}")
        if allocator is None and element in _ARRAY_TYPES:
            # Numpy refuses more dimensions than it has, and sizes beyond its count: those ONNX Runtime decides.
            with contextlib.suppress(ValueError):
                return OrtValue._of(None, _aligned(sizes, element.dtype))
        try:
            return OrtValue._of(Value.allocate(tuple(sizes), element, allocator))
        except AllocationError as error:
            if math.prod(sizes) * max(element.bits, 8) >= 1 << 63:
                raise RuntimeError(f"a tensor of shape {sizes} is too large") from error
            raise MemoryError(str(error)) from error
        except Error as error:
            raise RuntimeError(str(error)) from error

    _ortvalue = property(itself)
    _get_c_value = itself

    def __copy__(self) -> OrtValue:
        return OrtValue(self)

    @property
    def _value(self) -> Value | None:
        content = self._content
        if content is None and self._array is not None:
            content = self._content = Value.from_array(self._array)
        return content

    def _to_zrt(self) -> Value:
        value = self._value
        if value is None:
            raise RuntimeError("the OrtValue has no content")
        return value

    def _as_array(self) -> np.ndarray[Any, Any] | None:
        """The array of a tensor of numbers on the host; None for other values."""
        value = self._content
        if self._array is not None or value is None or not value.is_tensor or not value.memory.is_host:
            return self._array
        if value.element_type in _ARRAY_TYPES and len(value.shape) <= arrays.MOST_DIMENSIONS:
            self._array = value.numpy()
        return self._array

    def __zrt_feed__(self) -> Value | np.ndarray[Any, Any]:
        """The form of the value that costs `zrt.Session.run` least."""
        return self._to_zrt() if self._array is None else self._array

    def _tensor(self) -> Value:
        value = self._value
        if value is None or not value.is_tensor:
            raise RuntimeError(f"the OrtValue is no tensor{'' if value is None else f', but {type_name(value)}'}")
        return value

    @staticmethod
    def ortvalue_from_numpy(
        numpy_obj: np.ndarray[Any, Any],
        /,
        device_type: str | OrtDevice = "cpu",
        device_id: int = 0,
        vendor_id: int = -1,
    ) -> OrtValue:
        """A tensor from an array of numbers.

        On the CPU it shares the memory of the array, and keeps it alive; a strided array is copied. On another device
        it is a copy.
        """
        device = OrtDevice._from(device_type, device_id, vendor_id)
        if not isinstance(numpy_obj, np.ndarray):
            raise RuntimeError(f"an OrtValue takes arrays of numbers, and no {type(numpy_obj).__name__}")
        element = element_type_of(numpy_obj.dtype)
        plain = type(numpy_obj) is np.ndarray and numpy_obj.flags.carray and numpy_obj.dtype.isnative
        # A masked array counts as its data, as in the official package. The caller may change its own object's shape.
        array = (numpy_obj if plain else arrays.native(np.asarray(numpy_obj))).view()
        if device._is_cpu:
            return OrtValue._of(None, array)
        value = OrtValue._allocated(_allocator(device), array.shape, element.onnx_code)
        _copy(Value.from_array(array), value._to_zrt())
        return value

    @staticmethod
    def ortvalue_from_numpy_with_onnx_type(data: np.ndarray[Any, Any], /, onnx_element_type: int) -> OrtValue:
        """A tensor of an ONNX type (a number of `onnx.TensorProto`) over the memory of an array.

        It is for types that numpy lacks: the elements of the array have the same size, as uint16 for bfloat16. The
        tensor keeps the array alive.
        """
        array = conversions.instance(data, np.ndarray, "data")
        element = onnx_type(conversions.integer(onnx_element_type, "onnx_element_type"))
        if element is ElementType.STRING or array.dtype.hasobject:
            raise RuntimeError("an OrtValue takes arrays of numbers, and no strings")
        if array.dtype.itemsize != (element.bits + 7) // 8:
            raise RuntimeError(
                f"the elements of the array have {array.dtype.itemsize} bytes, those of the type {onnx_element_type} "
                f"have {(element.bits + 7) // 8}"
            )
        return OrtValue._of(_over_bytes(array, element))

    @staticmethod
    def ortvalue_from_shape_and_type(
        shape: Sequence[int],
        element_type: np.typing.DTypeLike | int,
        device_type: str | OrtDevice = "cpu",
        device_id: int = 0,
        vendor_id: int = -1,
        memory_info: OrtMemoryInfo | None = None,
    ) -> OrtValue:
        """A tensor of undefined content. `element_type` is a type of numpy or a number of `onnx.TensorProto`.

        With `memory_info`, such as `OrtEpDevice.memory_info(...)`, it comes from the environment's shared allocator for
        that memory, and a device that is given too is ignored with a warning. Raises `RuntimeError` if there is none.
        """
        if memory_info is None:
            return OrtValue._allocated(
                _allocator(OrtDevice._from(device_type, device_id, vendor_id)), shape, element_type
            )
        if (device_type, device_id, vendor_id) != ("cpu", 0, -1):
            notices.warn("device_type, device_id, and vendor_id are ignored when memory_info is provided.")
        return OrtValue.ortvalue_from_shape_and_type_for_memory_info(shape, element_type, memory_info)

    @staticmethod
    def ortvalue_from_shape_and_type_for_memory_info(
        shape: Sequence[int], element_type: np.typing.DTypeLike | int, memory: OrtMemoryInfo, /
    ) -> OrtValue:
        """The same, from the shared allocator of a memory."""
        info = conversions.instance(memory, OrtMemoryInfo, "memory_info")._to_zrt()
        allocator = current().shared_allocator(info)
        if allocator is None:
            raise RuntimeError(f"No shared allocator found for: {info}")
        return OrtValue._allocated(allocator, shape, element_type)

    ortvalue_from_shape_and_onnx_type = ortvalue_from_shape_and_type
    ortvalue_from_shape_and_onnx_type_for_memory_info = ortvalue_from_shape_and_type_for_memory_info

    @staticmethod
    def ort_value_from_sparse_tensor(sparse_tensor: SparseTensor) -> OrtValue:
        """A value that holds the sparse tensor."""
        return OrtValue._of(sparse_tensor._get_c_tensor()._to_zrt())

    def as_sparse_tensor(self) -> SparseTensor:
        """The sparse tensor in this value; raises `RuntimeError` if it is none."""
        if not self.is_sparse_tensor():
            raise RuntimeError("the OrtValue is no sparse tensor; data_type() tells its type")
        return SparseTensor._of(self._to_zrt())

    def update_inplace(self, data: np.ndarray[Any, Any] | OrtValue) -> None:
        """Writes the content of an array of numbers, or of another value, into this value's own memory."""
        if isinstance(data, OrtValue):
            self._copy_from(data)
        elif isinstance(data, np.ndarray):
            self._fill(data)
        else:
            raise TypeError(f"data must be a numpy.ndarray or an OrtValue, not {type(data).__name__}")

    def _copy_from(self, source: OrtValue) -> None:
        origin, target = source._tensor(), self._tensor()
        if origin.element_type is not target.element_type:
            raise RuntimeError(f"the OrtValues differ in type: {type_name(origin)} and {type_name(target)}")
        if math.prod(origin.shape) != math.prod(target.shape):
            raise RuntimeError(f"the OrtValues differ in size: {origin.shape} and {target.shape}")
        if origin.element_type is ElementType.STRING:
            raise RuntimeError("the content of an OrtValue of strings cannot be replaced")
        _copy(origin, target)

    def _fill(self, array: np.ndarray[Any, Any]) -> None:
        own = self._as_array()
        if own is not None and own.flags.writeable and (array.dtype, array.shape) == (own.dtype, own.shape):
            own[...] = array
            return
        target = self._tensor()
        if array.dtype.kind not in _NUMBERS or target.element_type is ElementType.STRING:
            raise RuntimeError(f"an array of {array.dtype} cannot be written into an OrtValue, {type_name(target)}")
        if array.size != math.prod(target.shape):
            raise RuntimeError(f"the array has {array.size} elements, the OrtValue {math.prod(target.shape)}")
        if array.dtype.itemsize != (target.element_type.bits + 7) // 8:
            raise RuntimeError(
                f"Inplace update copies bytes: the elements of the array have {array.dtype.itemsize}, those of the "
                f"OrtValue, {type_name(target)}, {(target.element_type.bits + 7) // 8}"
            )
        _copy(_over_bytes(array.reshape(target.shape), target.element_type), target)

    def _replace(self, source: OrtValue) -> None:
        """Takes the place of an earlier value: in its memory, if it has any."""
        if source._value is None or self._value is None:
            self._content, self._array = source._content, source._array
            return
        with errors.translated(code=2):
            copy.copy(source._to_zrt(), self._to_zrt())

    def data_ptr(self) -> int:
        """The address of the tensor's first element, on its own device."""
        return self._tensor().address

    def _placed(self) -> Value:
        value = self._value
        if value is None or value.kind not in (ValueKind.TENSOR, ValueKind.SPARSE_TENSOR):
            raise RuntimeError("the OrtValue is neither a tensor nor a sparse tensor")
        return value

    def device_name(self) -> str:
        """The name of the device with the content, in lower case: "cpu", "cuda"."""
        return device_name(self._placed())

    def shape(self) -> list[int]:
        """The shape; of a sparse tensor the dense one."""
        return list((self._placed() if self._array is None else self._array).shape)

    def data_type(self) -> str:
        """The type, for example "tensor(int64)"."""
        return type_name(self._to_zrt())

    def element_type(self) -> int:
        """The ONNX number of the element type of a tensor, or of the tensors in a sequence."""
        value = self._to_zrt()
        if value.key_type is not ElementType.UNDEFINED:
            raise RuntimeError(f"a value of the type {type_name(value)} has no element type")
        return value.element_type.onnx_code

    def tensor_size_in_bytes(self) -> int:
        """The size of the tensor's memory in bytes; a string counts as the object that C++ has for it."""
        value = self._tensor()
        if value.element_type is ElementType.STRING:
            return _STRING_SIZE * math.prod(value.shape)
        return value.nbytes

    def has_value(self) -> bool:
        """Whether there is content; an optional value may have none."""
        return self._array is not None or self._content is not None

    def is_tensor(self) -> bool:
        """Whether it is a dense tensor."""
        return self._array is not None or (self._content is not None and self._content.is_tensor)

    def is_sparse_tensor(self) -> bool:
        """Whether it is a sparse tensor."""
        return self._content is not None and self._content.kind is ValueKind.SPARSE_TENSOR

    def is_tensor_sequence(self) -> bool:
        """Whether it is a sequence of tensors."""
        value = self._content
        return value is not None and value.kind is ValueKind.SEQUENCE and value.key_type is ElementType.UNDEFINED

    def numpy(self) -> np.ndarray[Any, Any]:
        """The tensor as an array: of numbers over its memory, which the array keeps alive; of strings a copy.

        Raises `RuntimeError` for a value that is no tensor, and for types that numpy lacks.
        """
        array = self._as_array()
        if array is not None:
            return array[...]
        value = self._tensor()
        if value.element_type not in (*_ARRAY_TYPES, AS_BYTES, ElementType.STRING):
            raise RuntimeError(f"numpy has no type for {type_name(value)}")
        array = on_host(value).numpy()
        return array.view(np.uint8) if value.element_type is AS_BYTES else array

    def __array__(self, dtype: np.typing.DTypeLike | None = None, copy: bool | None = None) -> np.ndarray[Any, Any]:
        return np.array(self.numpy(), dtype=dtype, copy=copy)

    def to_dlpack(self) -> Any:
        """A DLPack capsule over the tensor's memory, which the capsule keeps alive; before 1.32 bool becomes uint8."""
        return self.__dlpack__()

    def __dlpack__(self, *, stream: Any = None, **keywords: Any) -> Any:
        # Read-only memory needs `max_version`, by which a library says that it knows read-only tensors.
        array = self._as_array()
        if array is not None:
            return (array.view(np.uint8) if array.dtype == bool and minor() < 32 else array).__dlpack__(**keywords)
        value = self._tensor()
        if value.element_type in _NO_DLPACK:
            raise RuntimeError(f"a value of the type {type_name(value)} is not exported by DLPack")
        return value.__dlpack__(**keywords)

    def __dlpack_device__(self) -> tuple[int, int]:
        value = self._tensor()
        return (1, 0) if value.memory.is_host else value.__dlpack_device__()

    @staticmethod
    def from_dlpack(data: Any, is_bool_tensor: bool = False) -> OrtValue:
        """A value over the memory of another library's tensor, or of a DLPack capsule.

        bool is told from uint8 by the `dtype` of `data`, so a capsule alone gives uint8 unless `is_bool_tensor`.
        """
        if isinstance(data, OrtValue):
            is_bool_tensor = data.data_type() == "tensor(bool)"
        elif not is_bool_tensor:
            dtype = getattr(data, "dtype", None)
            is_bool_tensor = str(getattr(dtype, "name", dtype)) in ("bool", "bool_", "torch.bool")
        # The other library's errors are raised as they are.
        capsule = data.__dlpack__() if hasattr(data, "__dlpack__") else data
        with errors.as_runtime_error():
            value = dlpack.adopt(capsule, False, "tensor")
        if is_bool_tensor and value.element_type is ElementType.UINT8 and value.memory.is_host:
            value = Value.from_array(value.numpy().view(np.bool_))
        return OrtValue._of(value)


class OrtValueVector(NotPickled):
    """A list of values."""

    def __init__(self) -> None:
        self._values: list[OrtValue] = []

    @classmethod
    def _of(cls, values: list[OrtValue]) -> OrtValueVector:
        vector = cls()
        vector._values = values
        return vector

    def push_back(self, dlpack_tensor: Any, is_bool_tensor: bool = False) -> None:
        """Appends an `OrtValue`, or a value from a DLPack capsule and whether its uint8 is bool."""
        value = dlpack_tensor
        self._values.append(value if isinstance(value, OrtValue) else OrtValue.from_dlpack(value, is_bool_tensor))

    def push_back_batch(
        self,
        owners: Sequence[object],
        addresses: Sequence[int],
        types: Sequence[np.typing.DTypeLike],
        shapes: Sequence[Sequence[int]],
        devices: Sequence[OrtDevice],
        /,
    ) -> None:
        """Appends tensors over the memory of others: the owners, addresses, numpy types, shapes and devices."""
        places = conversions.integers(addresses, "addresses")
        sizes = conversions.elements(shapes, "shapes", conversions.integers)
        lying = conversions.instances(devices, OrtDevice, "devices")
        if not len(owners) == len(places) == len(types) == len(sizes) == len(lying):
            raise IndexError("the owners, addresses, types, shapes and devices are not of equal number")
        self._values += [
            over_address(place, shape, element_type(kind), device, owner)
            for owner, place, kind, shape, device in zip(owners, places, types, sizes, lying, strict=True)
        ]

    def reserve(self, count: int, /) -> None:
        """Does nothing but check its argument: Python's lists grow by themselves."""
        if conversions.integer(count, "count", conversions.UINT64) >= 1 << 59:
            raise ValueError(f"no vector has {count} values")

    def shrink_to_fit(self) -> None:
        """Does nothing: Python's lists shrink by themselves."""

    def __len__(self) -> int:
        return len(self._values)

    def __iter__(self) -> Iterator[OrtValue]:
        return iter(self._values)

    def __getitem__(self, index: int) -> OrtValue:
        place = conversions.integer(index, "index", conversions.UINT64)
        if place >= len(self._values):
            raise IndexError(f"the index {place} is beyond the last of {len(self._values)} values")
        return self._values[place]

    def bool_tensor_indices(self) -> list[int]:
        """The places of the tensors of bool, which `to_dlpacks` exports as uint8."""
        return [place for place, value in enumerate(self._values) if value.data_type() == "tensor(bool)"]

    def dlpack_at(self, index: int) -> Any:
        """The DLPack capsule of one tensor."""
        return self[index].to_dlpack()

    def element_type_at(self, idx: int) -> int:
        """The ONNX number of one value's element type."""
        return self[idx].element_type()

    def to_dlpacks(self, to_tensor: Callable[[Any], Any] | None) -> list[Any]:
        """The DLPack capsules of all tensors, each passed through `to_tensor` unless that is None."""
        capsules = [value.to_dlpack() for value in self._values]
        if to_tensor is None:
            return capsules
        try:
            return [to_tensor(capsule) for capsule in capsules]
        except Exception as error:
            raise RuntimeError(f"to_tensor failed: {error}") from error


def on_host(value: Value) -> Value:
    """A tensor itself, or a copy of one that lies on a device."""
    if value.memory.is_host:
        return value
    target = Value.allocate(value.shape, value.element_type)
    _copy(value, target)
    return target


def _copy(source: Value, target: Value) -> None:
    """Copies a tensor's bytes into another of the same type and size."""
    with errors.as_runtime_error():
        if not (source.memory.is_host and target.memory.is_host):
            copy.copy(source, target)
            return
        origin, place = source.numpy(), target.numpy()
    if not place.flags.writeable:
        raise RuntimeError("Inplace update: the OrtValue is over a read-only array")
    place.reshape(-1).view(np.uint8)[...] = origin.reshape(-1).view(np.uint8)


def over_address(
    address: int, shape: list[int], element: ElementType, device: OrtDevice, owner: object = None
) -> OrtValue:
    """A value over memory at an address, which is the caller's to keep alive, or `owner`'s.

    Raises `RuntimeError` for a shape or an address that no tensor can have.
    """
    memory = device._memory()
    if memory is None:
        raise RuntimeError(f"no provider has memory on the device {device._numbers}")
    with errors.as_runtime_error():
        # It refuses negative sizes, and strings.
        size = nbytes(element, shape)
    if size >= 1 << 62:
        raise RuntimeError(f"a tensor of shape {shape} is too large")
    if size and not 0 < address < (1 << 64) - size:
        raise RuntimeError(f"a tensor of {size} bytes cannot be at the address {address}")
    width = max(element.bits // 8, 1)
    if size and address % width:
        raise RuntimeError(f"the address {address:#x} is no multiple of {width} bytes, the size of an element")
    return OrtValue._of(at_address(address, tuple(shape), element, memory, owner))


def copy_tensors(src: Sequence[OrtValue], dst: Sequence[OrtValue], stream: OrtSyncStream | None = None) -> None:
    """Copies each tensor of `src` into the one at the same place of `dst`, on a device's `stream` or with None."""
    sources, targets = ([value._get_c_value()._tensor() for value in values] for values in (src, dst))
    if not sources or len(sources) != len(targets):
        raise RuntimeError(f"copy_tensors: there are {len(sources)} sources and {len(targets)} targets")
    if stream is not None and not isinstance(stream, OrtSyncStream):
        raise RuntimeError(f"copy_tensors: the stream is no OrtSyncStream but of the type {type(stream).__name__}")
    with errors.as_runtime_error():
        copy.copy_all(list(zip(sources, targets, strict=True)), None if stream is None else stream._to_zrt())


def is_dlpack_uint8_tensor(capsule: Any) -> bool:
    """Whether a DLPack capsule holds a tensor of uint8, as which tensors of bool are exported too."""
    try:
        return dlpack.element_type_in(capsule) is ElementType.UINT8
    except DLPackError as error:
        raise TypeError(f"is_dlpack_uint8_tensor: {error}") from error
