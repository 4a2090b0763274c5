"""Devices as numbers (`OrtDevice`), their memory, and the devices that execution providers offer."""

from __future__ import annotations

import os
from enum import IntEnum
from functools import lru_cache
from typing import Any, Final

from zrt._native.library import library
from zrt.environment import devices as listing
from zrt.environment.environment import current
from zrt.environment.streams import SyncStream
from zrt.memory.allocators import CPU, MemoryInfo
from zrt.onnxruntime import conversions, errors
from zrt.onnxruntime.enums import (
    OrtAllocatorType,
    OrtCompiledModelCompatibility,
    OrtDeviceMemoryType,
    OrtHardwareDeviceType,
    OrtMemoryInfoDeviceType,
    OrtMemType,
)
from zrt.onnxruntime.wrapper import NotPickled, Unique, Wrapper, attribute, itself
from zrt.session import compatibility
from zrt.types import AllocatorType, DeviceMemType, DeviceType, MemType

_CPU, _GPU, _FPGA, _NPU, _DML = 0, 1, 2, 3, 4

_MEMORY_TYPES = int(DeviceMemType.DEFAULT), int(DeviceMemType.HOST_ACCESSIBLE)


class OrtDeviceVendorId(IntEnum):
    """The PCI numbers of the vendors of devices."""

    NONE = 0x0000
    AMD = 0x1002
    NVIDIA = 0x10DE
    ARM = 0x13B5
    MICROSOFT = 0x1414
    HUAWEI = 0x19E5
    QUALCOMM = 0x5143
    INTEL = 0x8086


_TYPES = {"cpu": _CPU, "gpu": _GPU, "cuda": _GPU, "webgpu": _GPU, "npu": _NPU, "cann": _NPU, "dml": _DML}
_VENDORS = {"cuda": OrtDeviceVendorId.NVIDIA, "dml": OrtDeviceVendorId.MICROSOFT, "cann": OrtDeviceVendorId.HUAWEI}


def get_ort_device_type(device_type: str) -> int:
    """The number of a type of device, by its name; raises `Exception` for an unknown name."""
    try:
        return _TYPES[device_type]
    except (KeyError, TypeError):
        raise Exception("Unsupported device type: " + device_type) from None


def get_vendor_id_for_device_type(device_type: str) -> OrtDeviceVendorId | None:
    """The vendor that a name such as "cuda" implies, None if it implies none."""
    return _VENDORS.get(device_type)


class OrtDevice(NotPickled):
    """A device: where a value lies. `make` makes one from a name; it never changes.

    It is also made from numbers: the type, the kind of memory, the vendor's PCI number, which may be left out, and the
    device's number; or from another `OrtDevice`.
    """

    _numbers: tuple[int, int, int, int]

    def __init__(self, c_ort_device: OrtDevice | int, *numbers: int) -> None:
        if not numbers:
            if not isinstance(c_ort_device, OrtDevice):
                raise ValueError(f"OrtDevice: expected an OrtDevice or three numbers, got {c_ort_device!r}")
            self._numbers = c_ort_device._numbers
            return
        if len(numbers) not in (2, 3):
            raise TypeError(f"OrtDevice: expected 3 or 4 numbers, got {1 + len(numbers)}")
        kind = conversions.integer(c_ort_device, "OrtDevice: the type", conversions.INT8)
        memory = conversions.integer(numbers[0], "OrtDevice: the kind of memory", conversions.INT8)
        vendor = conversions.integer(numbers[1], "OrtDevice: the vendor", conversions.UINT32) if numbers[2:] else 0
        number = conversions.integer(numbers[-1], "OrtDevice: the number", conversions.INT16)
        if kind == _DML:
            # An old number: a GPU of Microsoft's provider.
            kind, vendor = _GPU, int(OrtDeviceVendorId.MICROSOFT)
        if memory not in _MEMORY_TYPES:
            raise RuntimeError(f"OrtDevice: {memory} is no kind of memory")
        self._numbers = (kind, memory, vendor, number)

    @staticmethod
    @lru_cache(maxsize=64, typed=True)
    def make(ort_device_name: str, device_id: int, vendor_id: int | OrtDeviceVendorId = -1) -> OrtDevice:
        """The device of a name ("cpu", "cuda", "gpu", "npu", "dml", "cann", "webgpu") and a number.

        `vendor_id` is the vendor's PCI number, for a "gpu" or "npu"; with -1 it follows from the name.
        """
        vendor = vendor_id if vendor_id >= 0 else get_vendor_id_for_device_type(ort_device_name) or 0
        return OrtDevice(get_ort_device_type(ort_device_name), _MEMORY_TYPES[0], int(vendor), device_id)

    @classmethod
    def _from(cls, device_type: Any, device_id: int = 0, vendor_id: int = -1) -> OrtDevice:
        """The device of the arguments that many functions take: a name and numbers, or an `OrtDevice` for all."""
        return device_type if isinstance(device_type, cls) else cls.make(device_type, device_id, vendor_id)

    _get_c_device = itself
    __copy__ = itself

    @property
    def _is_cpu(self) -> bool:
        return self._numbers[0] == _CPU

    def _memory(self) -> MemoryInfo | None:
        """The device's memory: one that a provider offers, the host's, or CUDA's; None for any other."""
        kind, memory_type, vendor_id, number = self._numbers
        if self._is_cpu:
            return CPU
        for offered in listing.ep_devices():
            for memory in (offered.memory, offered.host_memory):
                if memory is None:
                    continue
                place = memory._resolved()
                numbers = (place.device_type, place.device_mem_type, place.vendor_id or 0, place.device_id)
                if numbers == self._numbers:
                    return memory
        if kind == _GPU and vendor_id in (0, OrtDeviceVendorId.NVIDIA):
            pinned = memory_type == DeviceMemType.HOST_ACCESSIBLE
            return MemoryInfo.cuda_pinned(number) if pinned else MemoryInfo.cuda(number)
        return None

    def device_type(self) -> int:
        """The type: 0 is the CPU, 1 a GPU, 2 an FPGA, 3 an NPU."""
        return self._numbers[0]

    def device_mem_type(self) -> int:
        """The kind of memory: 0 is the device's own, 5 memory that the host can access."""
        return self._numbers[1]

    def device_vendor_id(self) -> int:
        """The vendor's PCI number, 0 for none."""
        return self._numbers[2]

    def device_id(self) -> int:
        """The number of the device."""
        return self._numbers[3]

    mem_type = device_mem_type
    vendor_id = device_vendor_id
    cpu: staticmethod[[], int] = staticmethod(lambda: _CPU)
    gpu: staticmethod[[], int] = staticmethod(lambda: _GPU)
    cuda: staticmethod[[], int] = gpu
    webgpu: staticmethod[[], int] = gpu
    npu: staticmethod[[], int] = staticmethod(lambda: _NPU)
    cann: staticmethod[[], int] = npu
    dml: staticmethod[[], int] = staticmethod(lambda: _DML)
    fpga: staticmethod[[], int] = staticmethod(lambda: _FPGA)
    default_memory: staticmethod[[], int] = staticmethod(lambda: _MEMORY_TYPES[0])


def _resolved(memory: MemoryInfo) -> MemoryInfo:
    with errors.as_runtime_error():
        return memory._resolved()


class OrtMemoryInfo(Wrapper):
    """A kind of memory: the allocator's name, its type, the device's number and the use."""

    def __init__(self, name: str, allocator: OrtAllocatorType, device_id: int, use: OrtMemType, /) -> None:
        memory = MemoryInfo(
            conversions.string(name, "OrtMemoryInfo: the name"),
            conversions.integer(device_id, "OrtMemoryInfo: the device"),
            AllocatorType(int(conversions.instance(allocator, OrtAllocatorType, "OrtMemoryInfo"))),
            MemType(int(conversions.instance(use, OrtMemType, "OrtMemoryInfo"))),
        )
        self._wrapped = _resolved(memory)

    @staticmethod
    def create_v2(
        name: str,
        device: OrtMemoryInfoDeviceType,
        vendor_id: int,
        device_id: int,
        kind: OrtDeviceMemoryType,
        alignment: int,
        allocator: OrtAllocatorType,
        /,
    ) -> OrtMemoryInfo:
        """Memory of any device: name, device type, vendor, device number, kind of memory, alignment, allocator."""
        subject = "OrtMemoryInfo.create_v2"
        host = int(conversions.instance(kind, OrtDeviceMemoryType, subject)) == DeviceMemType.HOST_ACCESSIBLE
        memory = MemoryInfo(
            conversions.string(name, subject),
            conversions.integer(device_id, subject),
            AllocatorType(int(conversions.instance(allocator, OrtAllocatorType, subject))),
            MemType.CPU if host else MemType.DEFAULT,
            DeviceType(int(conversions.instance(device, OrtMemoryInfoDeviceType, subject))),
            DeviceMemType(int(kind)),
            conversions.integer(vendor_id, subject, conversions.UINT32),
            conversions.integer(alignment, subject, conversions.UINT64),
        )
        return OrtMemoryInfo._of(_resolved(memory))

    name: Final[str] = attribute("name", "The name of the allocator.")
    device_id: Final[int] = attribute("device_id", "The number of the device.")
    mem_type: Final[OrtMemType] = attribute("mem_type", "The use of the memory.", OrtMemType)
    allocator_type: Final[OrtAllocatorType] = attribute(
        "allocator_type", "How the allocator gets its memory.", OrtAllocatorType
    )
    device_mem_type: Final[OrtDeviceMemoryType] = attribute(
        "device_mem_type", "Whether it is the device's own memory, or the host can access it.", OrtDeviceMemoryType
    )
    device_vendor_id: Final[int] = attribute(
        "vendor_id", "The PCI number of the device's vendor, 0 for none.", lambda id: id or 0
    )


class OrtHardwareDevice(Unique):
    """A CPU, GPU or NPU of this machine."""

    type: Final[OrtHardwareDeviceType] = attribute("type", "The kind of the device.", OrtHardwareDeviceType)
    vendor_id: Final[int] = attribute("vendor_id", "The vendor's PCI number, 0 for none.")
    vendor: Final[str] = attribute("vendor", "The vendor's name.")
    device_id: Final[int] = attribute("device_id", "The vendor's number of the model.")
    metadata: Final[dict[str, str]] = attribute("metadata", "More about the device, by key.", dict)


class OrtEpDevice(Unique):
    """A device that an execution provider offers to run on."""

    ep_name: Final[str] = attribute("provider", "The provider's name.")
    ep_vendor: Final[str] = attribute("vendor", "The name of the provider's vendor.")
    ep_metadata: Final[dict[str, str]] = attribute(
        "metadata", "The provider's details about itself and the device, by key.", dict
    )
    ep_options: Final[dict[str, str]] = attribute("options", "The provider's default options for the device.", dict)
    device: Final[OrtHardwareDevice] = attribute("hardware", "The hardware.", OrtHardwareDevice._of)

    def memory_info(self, kind: OrtDeviceMemoryType, /) -> OrtMemoryInfo | None:
        """The memory of that kind that the device has, None if it has none."""
        conversions.instance(kind, OrtDeviceMemoryType, "OrtEpDevice.memory_info")
        host = int(kind) == DeviceMemType.HOST_ACCESSIBLE
        memory = self._wrapped.host_memory if host else self._wrapped.memory
        return None if memory is None else OrtMemoryInfo._of(memory._resolved())

    def create_sync_stream(self) -> OrtSyncStream:
        """A stream of the device; raises for a device that computes in the host's memory."""
        memory = self._wrapped.memory
        if memory is None or memory.is_host:
            raise RuntimeError(f"{self.ep_name}: the device computes in the host's memory, and has no streams")
        with errors.as_runtime_error():
            return OrtSyncStream._of(SyncStream(self._wrapped))


class OrtSyncStream(Wrapper):
    """A queue of a device, on which copies and runs continue after the call returns."""

    def get_handle(self) -> int:
        """The stream in the device's own library, as an address."""
        return int(self._wrapped.native_handle)


@errors.translated(code=1)
def get_ep_devices() -> list[OrtEpDevice]:
    """The devices that execution providers offer in this process."""
    return [OrtEpDevice._of(device) for device in listing.ep_devices()]


@errors.translated(code=1)
def get_hardware_devices() -> list[OrtHardwareDevice]:
    """The devices that ONNX Runtime found on this machine."""
    return [OrtHardwareDevice._of(device) for device in listing.hardware_devices()]


def get_hardware_device_ep_incompatibility_details(provider: str, device: OrtHardwareDevice, /) -> dict[str, Any]:
    """The reasons for which a provider, by its name, cannot use a device: bits, notes and error code."""
    subject = "get_hardware_device_ep_incompatibility_details"
    name = conversions.string(provider, subject)
    hardware = conversions.instance(device, OrtHardwareDevice, subject)._to_zrt()
    with errors.translated():
        reasons = hardware.incompatibility(name)
    return {"reasons_bitmask": int(reasons.reasons), "notes": reasons.notes or None, "error_code": reasons.error_code}


def get_model_compatibility_for_ep_devices(devices: list[OrtEpDevice], info: str, /) -> OrtCompiledModelCompatibility:
    """A provider's verdict on a compiled model, for some of its devices and the model's compatibility string."""
    subject = "get_model_compatibility_for_ep_devices"
    offered = [device._to_zrt() for device in conversions.instances(devices, OrtEpDevice, subject)]
    text = conversions.string(info, subject)
    if not offered:
        raise RuntimeError(f"{subject}: there is no device")
    with errors.as_runtime_error():
        return OrtCompiledModelCompatibility(int(compatibility.verdict(text, offered)))


def get_compatibility_info_from_model(path: str | os.PathLike[str], provider: str, /) -> str | None:
    """The compatibility string that a provider wrote into the compiled model of a file; None without one."""
    file = conversions.path(path, "get_compatibility_info_from_model")
    return _compatibility_info(file, provider, "get_compatibility_info_from_model")


def get_compatibility_info_from_model_bytes(data: bytes, provider: str, /) -> str | None:
    """As `get_compatibility_info_from_model`, for a model in memory."""
    model = bytes(memoryview(data))
    if not model:
        raise RuntimeError("get_compatibility_info_from_model_bytes: the model has no bytes")
    return _compatibility_info(model, provider, "get_compatibility_info_from_model_bytes")


def _compatibility_info(model: str | bytes, provider: str, subject: str) -> str | None:
    if not conversions.string(provider, subject):
        raise RuntimeError(f"{subject}: the provider's name is empty")
    with errors.as_runtime_error():
        return compatibility.compatibility_info(model, provider)


def register_execution_provider_library(name: str, path: str | os.PathLike[str], /) -> None:
    """Loads a library with execution providers: its name of your choice, and its path.

    A relative path begins in the folder of the library of ONNX Runtime, if that is a file of its own.
    """
    subject = "register_execution_provider_library"
    text, file = conversions.string(name, subject), conversions.path(path, subject)
    with errors.translated(code=1):
        current().register_provider_library(text, os.path.join(os.path.dirname(library().path or ""), file))


def unregister_execution_provider_library(name: str, /) -> None:
    """Unloads a library with execution providers, by its name."""
    text = conversions.string(name, "unregister_execution_provider_library")
    with errors.translated(code=1):
        current().unregister_provider_library(text)
