"""DLPack, the exporting half: values as capsules, from which other libraries take tensors without a copy.

Not tested on hardware: tensors on ROCm devices.
"""

from __future__ import annotations

from enum import IntEnum
from typing import Any, Final

from zrt._common.arguments import integer, require_type, wrong_type
from zrt._native import ffi, lib
from zrt._native.cdata import NULL, new_array, pointer_to
from zrt.errors import AllocationError, ArgumentError, DLPackError
from zrt.memory.allocators import MemoryInfo
from zrt.types import ElementType
from zrt.values.copy import copy as copy_tensor
from zrt.values.value import Value

VERSION: Final = (1, 1)
"""The DLPack version of this module: the first with float8, float4 and a flag for unpacked small elements."""


class Device(IntEnum):
    """DLPack's device types, as far as ONNX Runtime 1.27 has a memory for them."""

    CPU = 1
    CUDA = 2
    CUDA_HOST = 3
    ROCM = 10
    ROCM_HOST = 11
    CUDA_MANAGED = 13


DEVICE_OF_MEMORY: Final = {
    "Cuda": Device.CUDA,
    "CudaPinned": Device.CUDA_HOST,
    "Hip": Device.ROCM,
    "HipPinned": Device.ROCM_HOST,
}
"""The device type of each memory of ONNX Runtime, by its name."""

CODES: Final = {
    ElementType[name]: code
    for code, names in {
        0: "INT2 INT4 INT8 INT16 INT32 INT64",
        1: "UINT2 UINT4 UINT8 UINT16 UINT32 UINT64",
        2: "FLOAT16 FLOAT DOUBLE",
        4: "BFLOAT16",
        5: "COMPLEX64 COMPLEX128",
        6: "BOOL",
        10: "FLOAT8E4M3FN",
        11: "FLOAT8E4M3FNUZ",
        12: "FLOAT8E5M2",
        13: "FLOAT8E5M2FNUZ",
        14: "FLOAT8E8M0",
        17: "FLOAT4E2M1",
    }.items()
    for name in names.split()
}
"""DLPack's type code of each element type; the code and the number of bits identify a type."""

# Stream numbers that the DLPack protocol disallows, by device type.
_DISALLOWED_STREAMS: Final = {Device.CUDA: (0,), Device.CUDA_MANAGED: (0,), Device.ROCM: (1, 2)}


def device_of(value: Value) -> tuple[int, int]:
    """See `Value.__dlpack_device__`."""
    value._open()
    if not value.is_tensor or value.element_type is ElementType.STRING:
        raise DLPackError(f"{value!r}: DLPack carries tensors of numbers")
    device, number = device_for(value.memory, "value")
    return device, 0 if device == Device.CPU else number


def device_for(memory: MemoryInfo, subject: str) -> tuple[int, int]:
    """The device of a memory in DLPack's numbers."""
    device = DEVICE_OF_MEMORY.get(memory.name, Device.CPU if memory.is_host else None)
    if device is None:
        raise DLPackError(f"{subject}: memory {memory.name!r} has no DLPack device type")
    return int(device), memory.device_id


def export(value: Value, stream: Any, max_version: Any, dl_device: Any, copy: Any) -> Any:
    """The capsule of `Value.__dlpack__`."""
    device = device_of(value)
    check_stream(device[0], stream)
    version = (0, 0) if max_version is None else min(pair(max_version, "max_version"), VERSION)
    wanted = device if dl_device is None else pair(dl_device, "dl_device")
    source = value
    require_type(copy, bool | None, "copy", "True, False or None")
    if copy or wanted != device:
        if copy is False:
            raise DLPackError(f"copy=False, and the value lies on device {device}, not on {wanted}")
        if wanted != (Device.CPU, 0):
            raise DLPackError(f"no copy of the value on device {device} can be made on {wanted}, only on the host")
        source = Value.allocate(value.shape, value.element_type)
        copy_tensor(value, source)
    # Take the owner before the address: another thread may close the value.
    owner = source._open()
    flags = (0 if source.writeable else lib.ZRT_DL_READ_ONLY) | (0 if source is value else lib.ZRT_DL_COPIED)
    if not version[0] and not source.writeable:
        raise DLPackError("the value is read-only, which DLPack can express only from max_version=(1, 0) on")
    shape = source.shape
    strides = [1] * len(shape)
    for axis in range(len(shape) - 1, 0, -1):
        # Only the strides of an empty tensor can be too large for C, and nobody uses them.
        strides[axis - 1] = min(strides[axis] * max(shape[axis], 1), 2**63 - 1)
    tensor, dims, steps = ffi.new("zrt_dl_tensor *"), new_array("int64_t", shape), new_array("int64_t", strides)
    tensor.data = pointer_to(source.address) if source.nbytes else NULL
    tensor.device_type, tensor.device_id = device if source is value else wanted
    tensor.ndim, tensor.shape, tensor.strides = len(shape), dims, steps
    tensor.code, tensor.bits, tensor.lanes = CODES[source.element_type], source.element_type.bits, 1
    box: list[Any] = []
    if lib.zrt_dlpack_export(id(box), owner.reference, tensor, *version, flags):
        raise AllocationError("no memory for a capsule")
    return box[0]


def check_stream(device: int, stream: Any) -> None:
    """Checks a stream's number. No call waits for the stream: a `Value` is complete when it is returned."""
    if stream is None:
        return
    number = integer(stream, "stream", -1, 2**64 - 1)
    if device not in _DISALLOWED_STREAMS:
        if number != -1:
            raise ArgumentError(f"stream: the host has none, got {number}")
    elif number in _DISALLOWED_STREAMS[Device(device)]:
        raise ArgumentError(f"stream: DLPack does not allow {number} on device type {device}")


def pair(thing: Any, subject: str) -> tuple[int, int]:
    """Two ints: a version, or a device type and number."""
    try:
        first, second = thing
    except (TypeError, ValueError):
        raise wrong_type(subject, "two ints", thing) from None
    return integer(int(first) if isinstance(first, IntEnum) else first, subject), integer(second, subject)
