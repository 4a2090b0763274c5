"""DLPack: tensors to and from other libraries without a copy, in capsules that either side may let go first."""

from __future__ import annotations

from enum import IntEnum
from typing import Any, Final

from zrt._common.arguments import integer, shown, wrong_type
from zrt._common.public import public
from zrt._native import ffi, lib, status
from zrt._native.handle import Handle
from zrt.errors import AllocationError, ArgumentError, DLPackError, DTypeError, Error, UnsupportedError
from zrt.memory import arrays
from zrt.memory.allocators import CPU, MemoryInfo
from zrt.types import DeviceType, ElementType, MemType, nbytes
from zrt.values.copy import copy as copy_tensor
from zrt.values.value import MOST_DIMENSIONS, Value, over

VERSION: Final = (1, 1)
"""The DLPack that is spoken here: the first with float8, float4, and a word on how small elements are packed."""


class Device(IntEnum):
    """DLPack's kinds of devices, those of them that ONNX Runtime 1.27 has a memory for."""

    CPU = 1
    CUDA = 2
    CUDA_HOST = 3
    ROCM = 10
    ROCM_HOST = 11
    CUDA_MANAGED = 13


_BY_MEMORY: Final = {
    "Cuda": Device.CUDA,
    "CudaPinned": Device.CUDA_HOST,
    "Hip": Device.ROCM,
    "HipPinned": Device.ROCM_HOST,
}

# DLPack's code for the kind of number; the bits are the element type's own.
_CODES: Final = {
    ElementType.INT2: 0,
    ElementType.INT4: 0,
    ElementType.INT8: 0,
    ElementType.INT16: 0,
    ElementType.INT32: 0,
    ElementType.INT64: 0,
    ElementType.UINT2: 1,
    ElementType.UINT4: 1,
    ElementType.UINT8: 1,
    ElementType.UINT16: 1,
    ElementType.UINT32: 1,
    ElementType.UINT64: 1,
    ElementType.FLOAT16: 2,
    ElementType.FLOAT: 2,
    ElementType.DOUBLE: 2,
    ElementType.BFLOAT16: 4,
    ElementType.COMPLEX64: 5,
    ElementType.COMPLEX128: 5,
    ElementType.BOOL: 6,
    ElementType.FLOAT8E4M3FN: 10,
    ElementType.FLOAT8E4M3FNUZ: 11,
    ElementType.FLOAT8E5M2: 12,
    ElementType.FLOAT8E5M2FNUZ: 13,
    ElementType.FLOAT8E8M0: 14,
    ElementType.FLOAT4E2M1: 17,
}
_BY_CODE: Final = {(code, kind.bits): kind for kind, code in _CODES.items()}

# Streams that CUDA and ROCm give other meanings: which of the small numbers are none there.
_NO_STREAM: Final = {Device.CUDA: (0,), Device.CUDA_MANAGED: (0,), Device.ROCM: (1, 2)}

_give_back = ffi.addressof(lib, "zrt_dlpack_give_back")


def device_of(value: Value) -> tuple[int, int]:
    """What `Value.__dlpack_device__` says."""
    value._open()
    if not value.is_tensor or value.element_type is ElementType.STRING:
        raise DLPackError(f"{value!r}: DLPack carries tensors of numbers")
    where = value.memory
    device = _BY_MEMORY.get(where.name, Device.CPU if where.is_host else None)
    if device is None:
        raise DLPackError(f"this value lies on {where.name}:{where.device_id}, which DLPack has no word for")
    return int(device), 0 if device is Device.CPU else where.device_id


def export(value: Value, stream: Any, max_version: Any, dl_device: Any, copy: Any) -> Any:
    """The capsule of `Value.__dlpack__`."""
    device = device_of(value)
    _check_stream(device[0], stream)
    version = _version(max_version)
    wanted = device if dl_device is None else _pair(dl_device, "dl_device")
    source = value
    if copy not in (None, True, False):
        raise wrong_type("copy", "True, False or None", copy)
    if copy or wanted != device:
        if copy is False:
            raise DLPackError(f"copy=False, and the value lies on device {device}, not on {wanted}")
        if wanted != (Device.CPU, 0):
            raise DLPackError(f"no copy of the value on device {device} can be made on {wanted}, only on the host")
        source = _copy_to_host(value)
    # What keeps the memory; taken before its address.
    owner = source._open()
    flags = (0 if source.writeable else lib.ZRT_DL_READ_ONLY) | (0 if source is value else lib.ZRT_DL_COPIED)
    if not version[0] and not source.writeable:
        raise DLPackError("the value is read-only, which DLPack can say only from max_version=(1, 0) on")
    shape = source.shape
    strides = [1] * len(shape)
    for axis in range(len(shape) - 1, 0, -1):
        strides[axis - 1] = strides[axis] * max(shape[axis], 1)
    tensor, dims, steps = ffi.new("zrt_dl_tensor *"), ffi.new("int64_t[]", shape), ffi.new("int64_t[]", strides)
    tensor.data = ffi.cast("void *", source.address) if source.nbytes else ffi.NULL
    tensor.device_type, tensor.device_id = device if source is value else wanted
    tensor.ndim, tensor.shape, tensor.strides = len(shape), dims, steps
    tensor.code, tensor.bits, tensor.lanes = _CODES[source.element_type], source.element_type.bits, 1
    box: list[Any] = []
    if lib.zrt_dlpack_export(id(box), owner.reference, tensor, *version, flags):
        raise AllocationError("no memory for a capsule")
    return box[0]


def _check_stream(device: int, stream: Any) -> None:
    """Nothing is waited for: whoever has a value has it after the run, or the copy, that wrote it."""
    if stream is None:
        return
    number = integer(stream, "stream", -1, 2**64 - 1)
    if device not in _NO_STREAM:
        if number != -1:
            raise ArgumentError(f"stream: the host has none, got {number}")
    elif number in _NO_STREAM[Device(device)]:
        raise ArgumentError(f"stream: {number} stands for none on device type {device}")


def _version(max_version: Any) -> tuple[int, int]:
    return (0, 0) if max_version is None else min(_pair(max_version, "max_version"), VERSION)


def _pair(pair: Any, subject: str) -> tuple[int, int]:
    try:
        first, second = pair
    except (TypeError, ValueError):
        raise wrong_type(subject, "two ints", pair) from None
    return integer(int(first) if isinstance(first, IntEnum) else first, subject), integer(second, subject)


def _copy_to_host(value: Value) -> Value:
    made = Value.allocate(value.shape, value.element_type)
    copy_tensor(value, made)
    return made


@public
def from_dlpack(
    thing: Any,
    *,
    device: MemoryInfo | None = None,
    copy: bool | None = None,
    stream: int | None = None,
    subject: str = "tensor",
) -> Value:
    """A tensor over the memory of another library's, without a copy: of anything that has ``__dlpack__``.

    It lies where the other library's does, on the host, CUDA or ROCm, and keeps it alive; what either side writes
    the other sees, and `Value.writeable` is what the other says.

    `copy` as in the array API's function of this name: None and False copy nothing, and False forbids the other
    library to do so too; True makes a copy on the host, or asks the other library for one on a device. `device` asks
    it for a tensor there, which is a copy if its own is elsewhere; it may refuse. `stream` is the number of the CUDA
    or ROCm stream that will read the memory, for the other library to have it wait for what still writes there; None
    is the device's default stream.

    Raises `DLPackError` for what cannot be taken as it lies (strides, a device that ONNX Runtime has no memory for,
    packed elements in bytes of their own) or is not given, `DTypeError` for elements without an ONNX type, and
    `UnsupportedError` for complex numbers.
    """
    if not hasattr(type(thing), "__dlpack__") or not hasattr(type(thing), "__dlpack_device__"):
        raise wrong_type(subject, "an object with __dlpack__", thing)
    if copy not in (None, True, False):
        raise wrong_type("copy", "True, False or None", copy)
    keywords: dict[str, Any] = {}
    try:
        kind, number = _pair(thing.__dlpack_device__(), "__dlpack_device__")
        wanted = (kind, number) if device is None else _device_for(device)
        if wanted != (kind, number):
            keywords["dl_device"] = wanted
        # A copy on the host is made here, once, whatever the other side knows of copies.
        if copy is not None and not (copy and wanted[0] == Device.CPU):
            keywords["copy"] = copy
        if stream is not None:
            _check_stream(kind, stream)
            keywords["stream"] = stream
        capsule = _capsule(thing, keywords)
    except Error as error:
        raise status.about(subject, error) from error
    except Exception as error:
        raise DLPackError(f"{subject}: the {type(thing).__name__} is not given away: {error}") from error
    return _adopt(capsule, copy is True, subject)


def _capsule(thing: Any, keywords: dict[str, Any]) -> Any:
    try:
        return thing.__dlpack__(max_version=VERSION, **keywords)
    except TypeError:
        # Before 1.0 there was but `stream`.
        if keywords.keys() - {"stream", "copy"} or keywords.get("copy"):
            raise
        return thing.__dlpack__(**{name: keywords[name] for name in keywords if name == "stream"})


def _device_for(memory: MemoryInfo) -> tuple[int, int]:
    if not isinstance(memory, MemoryInfo):
        raise wrong_type("device", "a MemoryInfo", memory)
    if memory.is_host:
        return int(_BY_MEMORY.get(memory.name, Device.CPU)), memory.device_id
    if memory.name not in _BY_MEMORY:
        raise DLPackError(f"device: {memory.name!r} is none that DLPack has a word for")
    return int(_BY_MEMORY[memory.name]), memory.device_id


def as_feed(thing: Any, subject: str) -> Any:
    """What another library's tensor is as a feed: a value over its memory, or `thing` itself if numpy can read it."""
    try:
        return from_dlpack(thing, subject=subject)
    except Error:
        if not _readable(thing):
            raise
    # numpy asks in its own way, and copies what is strided.
    return thing


def _readable(thing: Any) -> bool:
    """Whether it lies on the host and numpy has a way of its own to it."""
    try:
        return hasattr(type(thing), "__array__") and bool(thing.__dlpack_device__()[0] == Device.CPU)
    except Exception:
        return False


def _adopt(capsule: Any, copy: bool, subject: str) -> Value:
    """A value over what a capsule holds, which is taken out of it whatever comes of it."""
    # There before it holds anything, so that no interrupt comes between.
    handle = Handle.own(ffi.NULL, _give_back)
    kind = lib.zrt_dlpack_take(id(capsule), handle.reference)
    if not kind:
        raise DLPackError(f"{subject}: expected a capsule with a tensor, got {shown(capsule)}")
    handle.pointer = handle.reference.pointer
    if kind == lib.ZRT_DL_VERSIONED:
        managed = ffi.cast("zrt_dl_versioned *", handle.pointer)
        if managed.major != VERSION[0]:
            raise DLPackError(f"{subject}: it comes in DLPack {managed.major}.{managed.minor}; {VERSION[0]}.x is known")
        flags = managed.flags
    else:
        managed = ffi.cast("zrt_dl_plain *", handle.pointer)
        flags = 0
    return _value(managed.tensor, flags, handle, copy, subject)


def _value(tensor: Any, flags: int, handle: Handle, copy: bool, subject: str) -> Value:
    element_type = _element_type(tensor, flags, subject)
    memory = _memory(tensor, subject)
    rank = tensor.ndim
    if not 0 <= rank <= MOST_DIMENSIONS or (rank and not tensor.shape):
        raise DLPackError(f"{subject}: it says that it has {rank} dimensions")
    shape = arrays.check_dims(ffi.unpack(tensor.shape, rank) if rank else (), subject)
    size = nbytes(element_type, shape)
    if size >= 1 << 63 or (size and not tensor.data):
        raise DLPackError(f"{subject}: it says that it has {size} bytes at {tensor.data}")
    address = int(ffi.cast("uintptr_t", tensor.data)) + tensor.byte_offset if size else 0
    writeable = not flags & lib.ZRT_DL_READ_ONLY
    strides = tuple(ffi.unpack(tensor.strides, rank)) if rank and tensor.strides else None
    reason = _needs_copy(shape, strides, address, element_type)
    if copy and memory.is_host:
        return _copied(handle, address, shape, strides, element_type, reason, subject)
    if reason:
        hint = "; copy=True makes one" if memory.is_host and not element_type.packed else ""
        raise DLPackError(f"{subject}: {reason}, and is to be used without a copy{hint}")
    made = over(ffi.cast("void *", address), size, shape, element_type, [handle], subject, memory)
    return Value(made, writeable)


def _element_type(tensor: Any, flags: int, subject: str) -> ElementType:
    known = _BY_CODE.get((tensor.code, tensor.bits)) if tensor.lanes == 1 else None
    if known is None:
        raise DTypeError(
            f"{subject}: ONNX has no element type for DLPack's (code {tensor.code}, {tensor.bits} bits, "
            f"{tensor.lanes} lanes)"
        )
    if known.refused:
        raise UnsupportedError(f"{subject}: {known.name} tensors: {known.refused}")
    if known.packed and flags & lib.ZRT_DL_PADDED:
        raise DLPackError(f"{subject}: {known.name} with a byte for each element; ONNX Runtime packs them")
    return known


def _memory(tensor: Any, subject: str) -> MemoryInfo:
    number = tensor.device_id
    match tensor.device_type:
        case Device.CPU:
            return CPU
        case Device.CUDA | Device.CUDA_MANAGED:
            return MemoryInfo.cuda(number)
        case Device.CUDA_HOST:
            return MemoryInfo.cuda_pinned(number)
        case Device.ROCM:
            return MemoryInfo("Hip", number, device_type=DeviceType.GPU)
        case Device.ROCM_HOST:
            return MemoryInfo("HipPinned", number, mem_type=MemType.CPU_OUTPUT)
        case other:
            raise DLPackError(f"{subject}: it lies on DLPack's device type {other}, for which there is no memory here")


def _needs_copy(
    shape: tuple[int, ...], strides: tuple[int, ...] | None, address: int, element_type: ElementType
) -> str | None:
    """Why ONNX Runtime cannot use it as it lies, or None."""
    if strides is not None and 0 not in shape:
        step = 1
        for size, stride in zip(reversed(shape), reversed(strides), strict=True):
            if size > 1 and stride != step:
                return f"is not C-contiguous (shape {shape}, strides {strides} in elements)"
            step *= size
    width = max(element_type.bits // 8, 1)
    return f"begins at {address:#x}, no multiple of its elements' {width} bytes" if address % width else None


def _copied(
    handle: Handle,
    address: int,
    shape: tuple[int, ...],
    strides: tuple[int, ...] | None,
    element_type: ElementType,
    reason: str | None,
    subject: str,
) -> Value:
    """A value over a copy in numpy's memory, which then has no more to do with the other library's."""
    if element_type.packed:
        if reason:
            raise DLPackError(f"{subject}: {element_type.name} that {reason}; packed elements are copied as they lie")
        packed = arrays.view(handle, address, shape, element_type).copy()
        return Value.from_packed(packed, element_type, shape, subject)
    width = element_type.bits // 8
    steps = None if strides is None else tuple(step * width for step in strides)
    try:
        copied = arrays.strided(handle, address, shape, steps, width).copy(order="C")
    except MemoryError as error:
        raise AllocationError(f"{subject}: {error}") from error
    return Value.from_array(copied.view(element_type.dtype), subject)
