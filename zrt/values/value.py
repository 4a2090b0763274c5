"""`Value`: a tensor or another kind of value of ONNX Runtime's, over a caller's memory or over memory of ORT's.

Functions here import `containers` and `dlpack_export`, which make values themselves: the cycle has no other cut.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from zrt._common.arguments import shown, wrong_type
from zrt._common.public import public
from zrt._native import status
from zrt._native.cdata import address_of, from_buffer, numbers, pointer_to, sizeof
from zrt._native.handle import Handle, Owner
from zrt._native.library import api
from zrt.errors import AllocationError, ArgumentError, ClosedError, DTypeError, Error, ShapeError, UnsupportedError
from zrt.memory import arrays
from zrt.memory.allocators import CPU, Allocator, MemoryInfo, handle_of
from zrt.memory.buffers import Buffer
from zrt.types import ElementType, ValueKind, as_shape, nbytes, new_tensor, require_tensors
from zrt.types import unpack as unpack_bytes
from zrt.values import sparse, strings
from zrt.values.type_info import ValueInfo, format_type, phrase, read_type

if TYPE_CHECKING:
    from zrt.values.sparse import SparseTensor


def over(
    address: Any,
    size: int,
    shape: tuple[int, ...],
    element_type: ElementType,
    parents: Sequence[Handle],
    subject: str,
    memory: MemoryInfo = CPU,
) -> Handle:
    """A tensor over existing memory, by default the host's."""
    require_tensors(element_type, subject)
    where = handle_of(memory)
    try:
        place = (where.pointer, address, size)
        return new_tensor(api().CreateTensorWithDataAsOrtValue, place, shape, element_type, parents)
    except Error as error:
        raise status.about(subject, error) from error


def at_address(
    address: int, shape: tuple[int, ...], element_type: ElementType, memory: MemoryInfo = CPU, owner: object = None
) -> Value:
    """A tensor over the memory at an address of a device, which the caller keeps alive, or `owner` if it is given.

    The address must be right: nothing can check it.
    """
    parents = [] if owner is None else [Handle.pin(owner)]
    size = nbytes(element_type, shape)
    handle = over(pointer_to(address), size, shape, element_type, parents, f"memory at {address:#x}", memory)
    return Value(handle, memory=memory)


def as_output(value: Value) -> Value:
    """The value as ONNX Runtime can write an output into it: CUDA's pinned memory as the host memory that it is.

    ONNX Runtime 1.27 fails to copy an output into a tensor that it knows to lie in pinned memory.
    """
    if value.memory.name != MemoryInfo.cuda_pinned().name:
        return value
    return at_address(value.address, value.shape, value.element_type, owner=value._open())


Made = TypeVar("Made")


def _made(make: Callable[..., Made], *arguments: Any) -> Made:
    """Calls `make`; a lack of memory becomes an `AllocationError` about its last argument, the subject."""
    try:
        return make(*arguments)
    except Error:
        raise
    except MemoryError as error:
        raise status.no_memory(arguments[-1], error) from error


def _usable(array: np.ndarray[Any, Any], subject: str) -> np.ndarray[Any, Any]:
    """A plain array for one that may be of a subclass, which may override attributes; it must need no copy."""
    array = arrays.plain(array, subject)
    reason = arrays.needs_copy(array)
    if reason:
        raise ArgumentError(f"{subject}: {reason}, and is to be used without a copy")
    return array


@public
class Value(Owner):
    """An ``OrtValue``.

    Tensors borrow the memory of an array (`from_array`, `from_packed`) or a `Buffer` (`from_buffer`), or ORT allocates
    them (`allocate`). Strings (`from_strings`), sparse tensors (`from_sparse`), sequences (`from_sequence`) and maps
    (`from_map`) are created from objects of Python, numpy and SciPy. A value keeps the owner of its memory alive, and
    may outlive the session that created it.
    """

    __slots__ = ("_element_type", "_key_type", "_kind", "_memory", "_nbytes", "_shape", "_writeable")

    def __init__(self, handle: Handle, writeable: bool = True, memory: MemoryInfo = CPU) -> None:
        """Takes over the handle of an ``OrtValue``. Users call the class methods.

        `memory` is the location of a value that is no tensor: ORT reports a memory location for tensors only.
        """
        if not isinstance(handle, Handle):
            came = type(handle).__name__
            raise DTypeError(f"a Value is made by from_array, from_packed, from_buffer or allocate, not of a {came}")
        self._handle = handle
        self._writeable = writeable
        description = status.describe(handle.pointer)
        self._kind = ValueKind(description.kind)
        self._element_type = self._key_type = ElementType.UNDEFINED
        self._shape: tuple[int, ...] = ()
        self._memory = memory
        self._nbytes: int | None = None
        if self._kind in (ValueKind.TENSOR, ValueKind.SPARSE_TENSOR):
            self._shape = numbers(description.dims, description.rank)
            self._element_type = ElementType(description.type)
        if self._kind is ValueKind.TENSOR:
            self._memory = MemoryInfo._read(description.memory)
            if self._element_type is ElementType.STRING:
                self._nbytes = strings.size(handle)
        elif self._kind is ValueKind.SPARSE_TENSOR:
            self._nbytes = sparse.size(handle, self._element_type)
        else:
            info = self._info()
            self._element_type, self._key_type, self._nbytes = info.element_type, info.key_type, 0

    def _info(self) -> ValueInfo:
        """Reads the type from ORT."""
        table = api()
        handle = self._open()
        info = Handle.make(table.ReleaseTypeInfo, [], table.GetTypeInfo, "OrtTypeInfo", handle.pointer)
        return read_type("", info.pointer)

    def _hold(self, session: Handle) -> None:
        """Keeps alive the session that created the value, if only its provider can free the value's memory."""
        handle = self._open()
        if self._kind is not ValueKind.TENSOR or self._memory.name != CPU.name:
            self._handle = handle.holding(session)

    @classmethod
    def from_array(cls, array: np.ndarray[Any, Any], subject: str = "array") -> Value:
        """A tensor that borrows the array's memory, so it shows later writes to the array.

        Raises `ArgumentError` for an array that would need a copy (strided, misaligned, in the other byte order), and
        `DTypeError` for a type without an ONNX counterpart. `subject` names the array in error messages.
        """
        if not isinstance(array, np.ndarray):
            raise wrong_type(subject, "a numpy array", array)
        owner, array = array, _usable(array, subject)
        element_type = arrays.element_type_of(array, subject)
        if element_type is ElementType.STRING:
            raise UnsupportedError(f"{subject}: a tensor of strings cannot be over numpy's memory; see from_strings")
        if element_type.packed:
            raise DTypeError(f"{subject}: ONNX Runtime packs {element_type.name}; give the packed bytes to from_packed")
        return cls._borrow(array, owner, array.shape, element_type, subject)

    @classmethod
    def from_packed(
        cls, packed: np.ndarray[Any, Any], element_type: ElementType, shape: tuple[int, ...], subject: str = "array"
    ) -> Value:
        """A tensor of a packed type that borrows the uint8 array of its packed bytes; `shape` is the logical one."""
        element_type = ElementType.of(element_type)
        if not element_type.packed:
            raise DTypeError(f"{subject}: {element_type.name} is not a packed type")
        if not isinstance(packed, np.ndarray) or packed.dtype != np.uint8:
            came = shown(getattr(packed, "dtype", packed))
            raise DTypeError(f"{subject}: packed bytes are a uint8 array, not {came}")
        owner, packed = packed, _usable(packed, subject)
        shape = as_shape(shape, subject)
        size = nbytes(element_type, shape)
        if packed.nbytes != size:
            raise ShapeError(
                f"{subject}: {element_type.name} of shape {shape} takes {size} bytes, the array has {packed.nbytes}"
            )
        return cls._borrow(packed, owner, shape, element_type, subject)

    @classmethod
    def _borrow(
        cls, array: np.ndarray[Any, Any], owner: object, shape: tuple[int, ...], element_type: ElementType, subject: str
    ) -> Value:
        """A tensor over the memory of an array, whose `owner` it keeps alive."""
        memory = from_buffer(array)
        handle = over(memory, sizeof(memory), shape, element_type, [Handle.pin((memory, owner))], subject)
        return cls(handle, array.flags.writeable)

    @classmethod
    def from_buffer(cls, buffer: Buffer, subject: str = "buffer") -> Value:
        """A tensor that borrows the memory of a `Buffer`."""
        if not isinstance(buffer, Buffer):
            raise wrong_type(subject, "a Buffer", buffer)
        handle = buffer._open()
        address = pointer_to(buffer.address)
        return cls(over(address, buffer.nbytes, buffer.shape, buffer.element_type, [handle], subject))

    @classmethod
    def allocate(
        cls, shape: tuple[int, ...], dtype: Any, allocator: Allocator | None = None, subject: str = "value"
    ) -> Value:
        """A tensor in memory that ORT allocates, with undefined content; without `allocator`, on the host.

        Raises `AllocationError` if the memory is not available.
        """
        allocator = Allocator.default() if allocator is None else allocator
        if not isinstance(allocator, Allocator):
            raise wrong_type(subject, "an Allocator", allocator)
        element_type = ElementType.of(dtype)
        require_tensors(element_type, subject)
        shape = as_shape(shape, subject)
        if nbytes(element_type, shape) >= 1 << 63:
            raise AllocationError(f"{subject}: no memory for {element_type.name} of shape {shape}")
        source = allocator._open()
        try:
            handle = new_tensor(api().CreateTensorAsOrtValue, (source.pointer,), shape, element_type, [source])
        except Error as error:
            raise AllocationError(
                f"{subject}: {element_type.name} of shape {shape} on {allocator.memory.name}: {error}"
            ) from error
        return cls(handle)

    @classmethod
    def from_strings(cls, texts: Any, shape: Any = None, subject: str = "strings") -> Value:
        """A tensor of strings, copied from an array, a nested list or a single `str` or UTF-8 `bytes`.

        Arrays may have numpy's own string types or objects; `shape`, if given, replaces theirs. Strings may be empty
        and contain NULs. A string that UTF-8 cannot encode (with a lone surrogate) raises `ArgumentError`, which
        names it.
        """
        return cls(_made(strings.tensor, texts, shape, subject))

    @classmethod
    def from_sparse(cls, matrix: Any, copy: bool = False, subject: str = "sparse tensor") -> Value:
        """A sparse tensor, from a `SparseTensor` or any of SciPy's sparse matrices and arrays.

        It borrows the values where it can, and then shows later writes to them; with `copy`, and for strings, ORT
        takes a copy. The indices are always checked and copied, because kernels trust them.
        """
        return cls(*_made(sparse.wrap, matrix, copy, subject))

    @classmethod
    def from_sequence(
        cls, elements: Sequence[Any], element_type: Any = None, key_type: Any = None, subject: str = "sequence"
    ) -> Value:
        """A sequence of tensors or of maps, all of one type.

        Elements are arrays, values, dicts, or (nested) lists of strings or numbers. The sequence borrows contiguous
        arrays and values, and keeps them alive. `element_type` is the type of the tensors' elements or of the maps'
        values, `key_type` that of the maps' keys; an empty sequence needs `element_type`, one of maps `key_type` as
        well.

        Raises `DTypeError` for elements of different types, `UnsupportedError` for types that ORT's sequences cannot
        hold.
        """
        from zrt.values import containers

        return _made(containers.sequence, elements, element_type, key_type, subject)

    @classmethod
    def from_map(
        cls, mapping: Mapping[Any, Any], key_type: Any = None, value_type: Any = None, subject: str = "map"
    ) -> Value:
        """A map, copied from a dict: keys are str or int64, values str, int64, float32 or float64.

        Without `key_type` and `value_type`, numpy determines the types (Python's floats are float64); an empty map
        needs both.

        Raises `UnsupportedError` for types that ORT's maps cannot hold, `DTypeError` for keys or values of a type
        other than the given one.
        """
        from zrt.values import containers

        return _made(containers.mapping, mapping, key_type, value_type, subject)

    @property
    def kind(self) -> ValueKind:
        """Tensor, sequence, map ..."""
        return self._kind

    @property
    def is_tensor(self) -> bool:
        """Whether it is a dense tensor."""
        return self._kind is ValueKind.TENSOR

    @property
    def element_type(self) -> ElementType:
        """The element type of a tensor or of the tensors in a sequence, or the type of a map's values."""
        return self._element_type

    @property
    def key_type(self) -> ElementType:
        """The key type of a map or of the maps in a sequence, else UNDEFINED."""
        return self._key_type

    @property
    def shape(self) -> tuple[int, ...]:
        """A tensor's shape in elements, for a sparse tensor the dense shape; () for other kinds of values."""
        return self._shape

    @property
    def nbytes(self) -> int:
        """The size of a tensor in bytes: of strings their UTF-8, of a sparse tensor its values and indices.

        0 for sequences and maps, whose size ORT does not report.
        """
        return nbytes(self._element_type, self._shape) if self._nbytes is None else self._nbytes

    @property
    def memory(self) -> MemoryInfo:
        """The location: the kind of memory, the device and its number."""
        return self._memory

    @property
    def writeable(self) -> bool:
        """Whether its memory may be written; False for a value that borrows a read-only array."""
        return self._writeable

    @property
    def address(self) -> int:
        """The address of the tensor's first element, on its own device."""
        handle = self._tensor()
        return address_of(status.fetch(api().GetTensorMutableData, "void *", handle.pointer))

    def _tensor(self) -> Handle:
        return self._open() if self._kind is ValueKind.TENSOR else self._of(ValueKind.TENSOR)

    def _of(self, *kinds: ValueKind) -> Handle:
        """The handle, if the value is of one of these kinds; else raises `UnsupportedError`."""
        handle = self._open()
        if self._kind not in kinds:
            wanted = " or ".join(map(phrase, kinds))
            raise UnsupportedError(f"this value is {phrase(self._kind)}, not {wanted}")
        return handle

    def _on_host(self) -> None:
        if not self._memory.is_host:
            way = "zrt.copy brings it to the host" if self.is_tensor else "bind it on the host to read it"
            raise UnsupportedError(f"this value lies on {self._memory.name}:{self._memory.device_id}; {way}")

    def numpy(self) -> np.ndarray[Any, Any]:
        """A view of the tensor's memory, without a copy. It keeps the memory alive; it is read-only if the value is.

        Packed types give the uint8 array of the packed bytes (see `unpack`), strings a new array of objects (see
        `strings`). Raises `UnsupportedError` for memory of a device (`zrt.copy` copies it to the host).
        """
        handle = self._tensor()
        self._on_host()
        if len(self._shape) > arrays.MOST_DIMENSIONS:
            raise UnsupportedError(f"numpy has no array of {len(self._shape)} dimensions")
        if self._element_type is ElementType.STRING:
            return strings.read(handle, self._shape)
        return arrays.view(handle, self.address, self._shape, self._element_type, self._writeable)

    def __dlpack_device__(self) -> tuple[int, int]:
        """The device in DLPack's numbers: (1, 0) is the host, (2, n) CUDA device n."""
        from zrt.values import dlpack_export

        return dlpack_export.device_of(self)

    def __dlpack__(
        self,
        *,
        stream: int | None = None,
        max_version: tuple[int, int] | None = None,
        dl_device: tuple[int, int] | None = None,
        copy: bool | None = None,
    ) -> Any:
        """A capsule through which another library uses the tensor without a copy, and keeps its memory alive.

        The library's ``from_dlpack`` calls this, as the array API describes it. `stream` is checked, but nothing
        waits for it: a value is complete when the call that made it has returned. `dl_device` and `copy` can ask for
        a copy on the host. Raises `DLPackError`, which is a `BufferError`, for a value that DLPack cannot describe.

        Not tested on hardware: ROCm.
        """
        from zrt.values import dlpack_export

        return dlpack_export.export(self, stream, max_version, dl_device, copy)

    def unpack(self) -> np.ndarray[Any, Any]:
        """A packed tensor's elements as a new ml_dtypes array of the logical shape."""
        return unpack_bytes(self.numpy(), self._element_type, self._shape)

    def strings(self) -> list[str]:
        """The elements of a tensor of strings, in order.

        Bytes that are no UTF-8, which a model may output, are decoded as Python's surrogate escapes.
        """
        handle = self._tensor()
        if self._element_type is not ElementType.STRING:
            raise DTypeError(f"this tensor is of {self._element_type.name}, not of strings")
        texts: list[str] = strings.read(handle, (math.prod(self._shape),)).tolist()
        return texts

    def sparse(self) -> SparseTensor:
        """A sparse tensor's values, indices and format, as views of its memory that keep it alive.

        The indices are read-only; strings are a new array.
        """
        handle = self._of(ValueKind.SPARSE_TENSOR)
        self._on_host()
        return sparse.read(handle, self._element_type, self._shape, self._writeable)

    def elements(self) -> list[Value]:
        """Copies of a sequence's elements, or of a map's keys and values, each independent of this value."""
        from zrt.values import containers

        return containers.elements(self)

    def to_list(self) -> list[Any]:
        """A sequence as a list of arrays or dicts, which are copies."""
        from zrt.values import containers

        return containers.to_list(self)

    def to_dict(self) -> dict[Any, Any]:
        """A map as a dict of `str` or `int` to `str`, `int` or `float`."""
        from zrt.values import containers

        return containers.to_dict(self)

    def __repr__(self) -> str:
        if self._handle is None:
            return "Value(closed)"
        if self._kind is ValueKind.TENSOR:
            return f"Value({self._element_type.name.lower()}, shape={self._shape}, memory={self._memory.name})"
        if self._kind is ValueKind.SPARSE_TENSOR:
            form = sparse.form(self._open()).name.lower()
            return f"Value(sparse {self._element_type.name.lower()}, shape={self._shape}, format={form})"
        return f"Value({format_type(self._info())})"


def as_value(thing: object, subject: str) -> Value:
    """A `Value` over an array or a `Buffer`, or the `Value` itself, never with a copy."""
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
    raise no_memory(subject, "an array, a Value or a Buffer", thing)


def no_memory(subject: str, wanted: str, thing: object) -> DTypeError:
    """The error for a thing that is no memory. A tensor of another library's has to become a `Value` first."""
    error = wrong_type(subject, wanted, thing)
    return DTypeError(f"{error}; zrt.from_dlpack makes a Value of it") if hasattr(type(thing), "__dlpack__") else error
