"""DLPack, the importing half: tensors of other libraries as values over the same memory.

A capsule may be released before or after the value made from it. Not tested on hardware: tensors on ROCm devices.
"""

from __future__ import annotations

from contextlib import suppress
from typing import Any, Final

from zrt._common.arguments import require_type, shown, wrong_type
from zrt._common.public import public
from zrt._native import ffi, lib, status
from zrt._native.cdata import NULL, address_of, numbers, pointer_to
from zrt._native.handle import Handle
from zrt.errors import DLPackError, DTypeError, Error, ShapeError
from zrt.memory import arrays
from zrt.memory.allocators import CPU, MOST_DEVICE_ID, MemoryInfo
from zrt.types import ElementType, MemType, as_shape, nbytes, require_tensors
from zrt.values.dlpack_export import CODES, DEVICE_OF_MEMORY, VERSION, Device, check_stream, device_for, pair
from zrt.values.value import Value, over

_ELEMENT_TYPES: Final = {(code, element_type.bits): element_type for element_type, code in CODES.items()}

_MEMORY_OF_DEVICE: Final = {device: name for name, device in DEVICE_OF_MEMORY.items()} | {Device.CUDA_MANAGED: "Cuda"}

_give_back = ffi.addressof(lib, "zrt_dlpack_give_back")


@public
def from_dlpack(
    thing: Any,
    *,
    device: MemoryInfo | None = None,
    copy: bool | None = None,
    stream: int | None = None,
    subject: str = "tensor",
) -> Value:
    """A value over the memory of another library's tensor, without a copy; `thing` is any object with ``__dlpack__``.

    The value lies where the tensor does (on the host, CUDA or ROCm) and keeps its memory alive. Each side sees what
    the other writes; `Value.writeable` says whether the other library allows writes.

    `copy` means what it means in the array API's function of this name: with None nothing is copied here; False
    forbids the other library to copy as well; True makes a copy on the host, or asks the other library for a copy on
    a device. `device` asks the other library for the tensor on that device, which is a copy if the tensor lies
    elsewhere; the library may refuse. `stream` is the number of the CUDA or ROCm stream that will read the memory:
    the other library makes that stream wait for its own pending writes. None is the device's default stream.
    `subject` names the tensor in error messages.

    Raises `DLPackError` for a tensor that cannot be used in place (strides, a device that ONNX Runtime has no memory
    for, unpacked 4- or 2-bit elements) or that the other library does not export, `DTypeError` for elements without
    an ONNX type, and `UnsupportedError` for complex numbers.

    Not tested on hardware: ROCm.
    """
    require_type(copy, bool | None, "copy", "True, False or None")
    require_type(device, MemoryInfo | None, "device", "a MemoryInfo")
    return adopt(_exported(thing, device, copy, stream, subject), copy is True, subject)


def _exported(thing: Any, device: MemoryInfo | None, copy: bool | None, stream: int | None, subject: str) -> Any:
    """The capsule that the other library makes; the arguments are those of `from_dlpack`."""
    if not hasattr(type(thing), "__dlpack__") or not hasattr(type(thing), "__dlpack_device__"):
        raise wrong_type(subject, "an object with __dlpack__", thing)
    arrays.check_unmasked(thing, subject)
    keywords: dict[str, Any] = {}
    try:
        kind, number = pair(thing.__dlpack_device__(), "__dlpack_device__")
        wanted = (kind, number) if device is None else device_for(device, "device")
        if wanted != (kind, number):
            keywords["dl_device"] = wanted
        # A copy on the host is made here: older libraries do not know the keyword.
        if copy is not None and not (copy and wanted[0] == Device.CPU):
            keywords["copy"] = copy
        if stream is not None:
            check_stream(kind, stream)
            keywords["stream"] = stream
        return _capsule(thing, keywords)
    except Error as error:
        raise status.about(subject, error) from error
    except Exception as error:
        raise DLPackError(f"{subject}: {type(thing).__name__} does not export it: {error}") from error


def _capsule(thing: Any, keywords: dict[str, Any]) -> Any:
    try:
        return thing.__dlpack__(max_version=VERSION, **keywords)
    except TypeError:
        # Before DLPack 1.0 `stream` was the only keyword.
        if keywords.keys() - {"stream", "copy"} or keywords.get("copy"):
            raise
        return thing.__dlpack__(**{name: keywords[name] for name in keywords if name == "stream"})


def element_type_in(capsule: Any) -> ElementType | None:
    """The type of the elements in a capsule, which stays as it is; None where ONNX has none.

    Raises `DLPackError` for an object that is no capsule with a tensor.
    """
    tensor = ffi.new("zrt_dl_tensor *")
    if lib.zrt_dlpack_look(id(capsule), tensor):
        raise DLPackError(f"expected a capsule with a tensor, got {shown(capsule)}")
    return _known(tensor)


def _known(tensor: Any) -> ElementType | None:
    return _ELEMENT_TYPES.get((tensor.code, tensor.bits)) if tensor.lanes == 1 else None


def as_feed(thing: Any, subject: str) -> Any:
    """Another library's tensor as a feed: an array over its memory; a value on a device, and where numpy has no such
    array; or else `thing` itself where numpy can read it."""
    try:
        return _owned(_exported(thing, None, None, None, subject), False, subject, array=True)
    except Error:
        if not _readable(thing):
            raise
    # numpy reads it through __array__, and copies strided arrays.
    return thing


def _readable(thing: Any) -> bool:
    """Whether it lies on the host and numpy can read it through ``__array__``."""
    try:
        return hasattr(type(thing), "__array__") and bool(thing.__dlpack_device__()[0] == Device.CPU)
    except Exception:
        return False


def adopt(capsule: Any, copy: bool, subject: str) -> Value:
    """A value over a capsule's tensor. The capsule is consumed, also where this raises."""
    value: Value = _owned(capsule, copy, subject)
    return value


def _owned(capsule: Any, copy: bool, subject: str, array: bool = False) -> Any:
    """`adopt`; with `array` an array in the place of a value on the host, where numpy has one."""
    # The handle exists before it owns the tensor, so that an interrupt in between leaks nothing.
    handle = Handle.own(NULL, _give_back)
    kind = lib.zrt_dlpack_take(id(capsule), handle.reference)
    if not kind:
        raise DLPackError(f"{subject}: expected a capsule with a tensor, got {shown(capsule)}")
    handle.pointer = handle.reference.pointer
    if kind == lib.ZRT_DL_VERSIONED:
        managed = pointer_to(handle.pointer, "zrt_dl_versioned")
        if managed.major != VERSION[0]:
            raise DLPackError(f"{subject}: expected DLPack {VERSION[0]}.x, got DLPack {managed.major}.{managed.minor}")
        flags = managed.flags
    else:
        managed = pointer_to(handle.pointer, "zrt_dl_plain")
        flags = 0
    return _over(managed.tensor, flags, handle, copy, subject, array)


def _over(tensor: Any, flags: int, handle: Handle, copy: bool, subject: str, array: bool) -> Any:
    element_type = _element_type(tensor, flags, subject)
    memory = _memory(tensor, subject)
    rank = tensor.ndim
    if not 0 <= rank <= arrays.MOST_DIMENSIONS or (rank and not tensor.shape):
        raise DLPackError(f"{subject}: it claims to have {rank} dimensions")
    shape = as_shape(numbers(tensor.shape, rank), subject)
    size = nbytes(element_type, shape)
    if size >= 1 << 63 or (size and not tensor.data):
        raise DLPackError(f"{subject}: it claims to have {size} bytes at {tensor.data}")
    address = address_of(tensor.data) + tensor.byte_offset if size else 0
    writeable = not flags & lib.ZRT_DL_READ_ONLY
    strides = numbers(tensor.strides, rank) if rank and tensor.strides else None
    reason = _needs_copy(shape, strides, address, element_type)
    if copy and memory.is_host:
        return _copied(handle, address, shape, strides, element_type, reason, subject)
    if reason:
        hint = "; zrt.from_dlpack(tensor, copy=True) makes one" if memory.is_host and not element_type.packed else ""
        raise DLPackError(f"{subject}: {reason}, and is to be used without a copy{hint}")
    if array and memory.is_host and not element_type.packed:
        with suppress(ShapeError):
            return arrays.view(handle, address, shape, element_type, writeable)
    value = over(pointer_to(address), size, shape, element_type, [handle], subject, memory)
    return Value(value, writeable)


def _element_type(tensor: Any, flags: int, subject: str) -> ElementType:
    known = _known(tensor)
    if known is None:
        raise DTypeError(
            f"{subject}: ONNX has no element type for DLPack's (code {tensor.code}, {tensor.bits} bits, "
            f"{tensor.lanes} lanes)"
        )
    require_tensors(known, subject)
    if known.packed and flags & lib.ZRT_DL_PADDED:
        raise DLPackError(f"{subject}: {known.name} with a byte for each element, where ONNX Runtime needs packed ones")
    return known


def _memory(tensor: Any, subject: str) -> MemoryInfo:
    device, number = tensor.device_type, tensor.device_id
    if device == Device.CPU:
        return CPU
    if not 0 <= number <= MOST_DEVICE_ID:
        raise DLPackError(f"{subject}: it claims to lie on device {number}")
    if device not in _MEMORY_OF_DEVICE:
        raise DLPackError(f"{subject}: DLPack's device type {device} has no memory in ONNX Runtime")
    name = _MEMORY_OF_DEVICE[device]
    return MemoryInfo(name, number, mem_type=MemType.CPU_OUTPUT if name.endswith("Pinned") else MemType.DEFAULT)


def _needs_copy(
    shape: tuple[int, ...], strides: tuple[int, ...] | None, address: int, element_type: ElementType
) -> str | None:
    """Why ONNX Runtime cannot use the tensor in place, or None if it can."""
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
    """A value over a copy in numpy's memory, independent of the other library's."""
    if element_type.packed:
        if reason:
            raise DLPackError(f"{subject}: {reason}, and packed elements are copied only as they lie")
        try:
            packed = arrays.view(handle, address, shape, element_type).copy()
        except MemoryError as error:
            raise status.no_memory(subject, error) from error
        return Value.from_packed(packed, element_type, shape, subject)
    width = element_type.bits // 8
    steps = None
    if strides is not None:
        # That of a size of 1 may be any number.
        steps = tuple(step * width if size > 1 else width for size, step in zip(shape, strides, strict=True))
    try:
        copied = arrays.strided(handle, address, shape, steps, width).copy(order="C")
    except MemoryError as error:
        raise status.no_memory(subject, error) from error
    except (ValueError, OverflowError) as error:
        raise DLPackError(f"{subject}: numpy has no array of shape {shape}, strides {strides}: {error}") from error
    return Value.from_array(copied.view(element_type.dtype), subject)
