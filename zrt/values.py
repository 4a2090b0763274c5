"""`Value`: a tensor as ONNX Runtime holds it, over a caller's memory or its own, on the host or a device."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from zrt import arrays
from zrt._native import ffi, status
from zrt._native.handle import Handle, Owner
from zrt._native.library import api
from zrt.buffers import Buffer
from zrt.errors import AllocationError, ArgumentError, ClosedError, DTypeError, Error, ShapeError, UnsupportedError
from zrt.memory import CPU, Allocator, MemoryInfo
from zrt.types import ElementType, ValueKind, creation_code, nbytes
from zrt.types import unpack as unpack_bytes

# numpy's NPY_MAXDIMS, which it tells nobody.
MOST_DIMENSIONS = 64


def _dims(shape: tuple[int, ...]) -> Any:
    return ffi.new("int64_t[]", shape)


def _over(
    address: Any,
    size: int,
    shape: tuple[int, ...],
    element_type: ElementType,
    parents: Sequence[Handle],
    subject: str,
) -> Handle:
    """A tensor over memory of the host. ``OrtApi::CreateTensorWithDataAsOrtValue``."""
    if element_type.refused:
        raise UnsupportedError(f"{subject}: {element_type.name} tensors: {element_type.refused}")
    table = api()
    where = CPU.handle()
    try:
        pointer = status.make(
            table.CreateTensorWithDataAsOrtValue,
            "OrtValue",
            where.pointer,
            address,
            size,
            _dims(shape),
            len(shape),
            creation_code(element_type),
        )
    except Error as error:
        raise status.about(subject, error) from error
    return Handle.own(pointer, table.ReleaseValue, parents)


class Value(Owner):
    """An ``OrtValue``.

    Made over an array (`from_array`) or a `Buffer` (`from_buffer`) without a copy, or allocated by ORT
    (`allocate`). A value keeps alive what its memory belongs to, and outlives the session that made it.
    """

    __slots__ = ("_element_type", "_kind", "_memory", "_shape", "_writeable")

    def __init__(self, handle: Handle, writeable: bool = True) -> None:
        """Takes over the handle of an ``OrtValue``; the class methods are the ways in for users."""
        if not isinstance(handle, Handle):
            came = type(handle).__name__
            raise DTypeError(f"a Value is made by from_array, from_packed, from_buffer or allocate, not of a {came}")
        self._handle = handle
        self._writeable = writeable
        table = api()
        self._kind = ValueKind(status.fetch(table.GetValueType, "enum ONNXType", handle.pointer))
        self._element_type = ElementType.UNDEFINED
        self._shape: tuple[int, ...] = ()
        self._memory = CPU
        if self._kind is ValueKind.TENSOR:
            kind, dims, rank = (
                ffi.new("ONNXTensorElementDataType *"),
                ffi.new("const int64_t **"),
                ffi.new("size_t *"),
            )
            status.check(table.GetTensorElementTypeAndShapeDataReference(handle.pointer, kind, dims, rank))
            self._element_type = ElementType(kind[0])
            self._shape = tuple(ffi.unpack(dims[0], rank[0])) if rank[0] else ()
            self._memory = MemoryInfo.read(
                status.fetch(table.GetTensorMemoryInfo, "const OrtMemoryInfo *", handle.pointer)
            )

    @classmethod
    def own(cls, pointer: Any, parents: Sequence[Handle] = ()) -> Value:
        """Takes over an ``OrtValue`` that ORT handed out."""
        return cls(Handle.own(pointer, api().ReleaseValue, parents))

    @classmethod
    def from_array(cls, array: np.ndarray[Any, Any], subject: str = "array") -> Value:
        """A tensor over the array's own memory: later writes to the array are seen.

        An array that would need a copy (strided, in the other byte order) is refused with `ArgumentError`, one of
        a type without an ONNX counterpart with `DTypeError`; `subject` is what the message calls it.
        """
        if not isinstance(array, np.ndarray):
            raise DTypeError(f"{subject}: expected a numpy array, got {type(array).__name__}")
        # Of a subclass only what numpy itself knows counts; the object itself is kept, for what else it may hold.
        owner, array = array, np.asarray(array)
        reason = arrays.needs_copy(array)
        if reason:
            raise ArgumentError(f"{subject}: {reason}, and is to be used without a copy")
        element_type = arrays.element_type_of(array, subject)
        if element_type is ElementType.STRING:
            raise UnsupportedError(f"{subject}: a tensor of strings cannot be over numpy's memory")
        if element_type.packed:
            raise DTypeError(f"{subject}: ONNX Runtime packs {element_type.name}; give the packed bytes to from_packed")
        memory = arrays.from_buffer(array)
        handle = _over(memory, ffi.sizeof(memory), array.shape, element_type, [Handle.pin((memory, owner))], subject)
        return cls(handle, array.flags.writeable)

    @classmethod
    def from_packed(
        cls,
        packed: np.ndarray[Any, Any],
        element_type: ElementType,
        shape: tuple[int, ...],
        subject: str = "array",
    ) -> Value:
        """A tensor of a packed type over the uint8 array of its packed bytes; `shape` is the logical one."""
        element_type = ElementType.of(element_type)
        if not element_type.packed:
            raise DTypeError(f"{subject}: {element_type.name} is not a packed type")
        if not isinstance(packed, np.ndarray) or packed.dtype != np.uint8:
            raise DTypeError(f"{subject}: packed bytes are a uint8 array, not {getattr(packed, 'dtype', packed)!r}")
        owner, packed = packed, np.asarray(packed)
        reason = arrays.needs_copy(packed)
        if reason:
            raise ArgumentError(f"{subject}: {reason}, and is to be used without a copy")
        shape = arrays.check_dims(shape, subject)
        size = nbytes(element_type, shape)
        if packed.nbytes != size:
            raise ShapeError(
                f"{subject}: {element_type.name} of shape {shape} takes {size} bytes, the array has {packed.nbytes}"
            )
        memory = arrays.from_buffer(packed)
        handle = _over(memory, size, shape, element_type, [Handle.pin((memory, owner))], subject)
        return cls(handle, packed.flags.writeable)

    @classmethod
    def from_buffer(cls, buffer: Buffer, subject: str = "buffer") -> Value:
        """A tensor over a `Buffer`."""
        if not isinstance(buffer, Buffer):
            raise DTypeError(f"{subject}: expected a Buffer, got {type(buffer).__name__}")
        handle = buffer._open()
        address = ffi.cast("void *", buffer.address)
        return cls(_over(address, buffer.nbytes, buffer.shape, buffer.element_type, [handle], subject))

    @classmethod
    def allocate(
        cls, shape: tuple[int, ...], dtype: Any, allocator: Allocator | None = None, subject: str = "value"
    ) -> Value:
        """A tensor in memory that ORT allocates, its content undefined; without `allocator`, on the host.

        ``OrtApi::CreateTensorAsOrtValue``. `AllocationError` where there is not that much memory.
        """
        allocator = allocator or Allocator.default()
        if not isinstance(allocator, Allocator):
            raise DTypeError(f"{subject}: expected an Allocator, got {type(allocator).__name__}")
        element_type = ElementType.of(dtype)
        if element_type.refused:
            raise UnsupportedError(f"{subject}: {element_type.name} tensors: {element_type.refused}")
        shape = arrays.check_dims(shape, subject)
        if nbytes(element_type, shape) >= 1 << 63:
            raise AllocationError(f"{subject}: no memory for {element_type.name} of shape {shape}")
        source = allocator._open()
        table = api()
        try:
            pointer = status.make(
                table.CreateTensorAsOrtValue,
                "OrtValue",
                source.pointer,
                _dims(shape),
                len(shape),
                creation_code(element_type),
            )
        except Error as error:
            raise AllocationError(
                f"{subject}: {element_type.name} of shape {shape} on {allocator.memory.name}: {error}"
            ) from error
        return cls(Handle.own(pointer, table.ReleaseValue, [source]))

    @property
    def kind(self) -> ValueKind:
        """Tensor, sequence, map ... (``OrtApi::GetValueType``)."""
        return self._kind

    @property
    def is_tensor(self) -> bool:
        """Whether it is a dense tensor."""
        return self._kind is ValueKind.TENSOR

    @property
    def element_type(self) -> ElementType:
        """The type of a tensor's elements; UNDEFINED for what is no tensor."""
        return self._element_type

    @property
    def shape(self) -> tuple[int, ...]:
        """A tensor's shape, in elements; () for what is no tensor."""
        return self._shape

    @property
    def nbytes(self) -> int:
        """The bytes that a tensor's elements take."""
        return nbytes(self._element_type, self._shape) if self._kind is ValueKind.TENSOR else 0

    @property
    def memory(self) -> MemoryInfo:
        """Where the tensor lies."""
        return self._memory

    @property
    def writeable(self) -> bool:
        """Whether its memory may be written; not where it was made over a read-only array."""
        return self._writeable

    @property
    def address(self) -> int:
        """Where the tensor's memory begins, on its own device. ``OrtApi::GetTensorMutableData``."""
        handle = self._tensor()
        return int(ffi.cast("uintptr_t", status.fetch(api().GetTensorMutableData, "void *", handle.pointer)))

    def _tensor(self) -> Handle:
        handle = self._open()
        if self._kind is not ValueKind.TENSOR:
            raise UnsupportedError(f"this value is a {self._kind.name.lower()}, not a tensor")
        return handle

    def numpy(self) -> np.ndarray[Any, Any]:
        """A view on the tensor's memory, without a copy; it keeps the memory alive, and is read-only where it is.

        Packed types come as the uint8 array of the packed bytes (see `unpack`). `UnsupportedError` for memory of
        a device (`zrt.copy` brings it to the host) and for strings.
        """
        handle = self._tensor()
        if not self._memory.is_host:
            raise UnsupportedError(
                f"this value lies on {self._memory.name}:{self._memory.device_id}; zrt.copy brings it to the host"
            )
        if self._element_type is ElementType.STRING:
            raise UnsupportedError("a tensor of strings has no numpy view")
        if len(self._shape) > MOST_DIMENSIONS:
            raise UnsupportedError(f"numpy has no array of {len(self._shape)} dimensions")
        return arrays.view(handle, self.address, self._shape, self._element_type, self._writeable)

    def unpack(self) -> np.ndarray[Any, Any]:
        """A packed tensor's elements as a new ml_dtypes array of the logical shape."""
        return unpack_bytes(self.numpy(), self._element_type, self._shape)

    def __repr__(self) -> str:
        if self._handle is None:
            return "Value(closed)"
        if self._kind is not ValueKind.TENSOR:
            return f"Value({self._kind.name.lower()})"
        return f"Value({self._element_type.name.lower()}, shape={self._shape}, memory={self._memory.name})"


def as_value(thing: object, subject: str) -> Value:
    """A `Value` over an array, a `Buffer` or a `Value`, never with a copy."""
    try:
        if isinstance(thing, Value):
            thing._open()
            return thing
        if isinstance(thing, Buffer):
            return Value.from_buffer(thing, subject)
    except ClosedError as error:
        raise status.about(subject, error) from None
    if isinstance(thing, np.ndarray):
        return Value.from_array(thing, subject)
    raise DTypeError(f"{subject}: expected an array, a Value or a Buffer, got {type(thing).__name__}")
