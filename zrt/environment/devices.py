"""Devices: the hardware (`HardwareDevice`), what execution providers offer (`EpDevice`), and their memory.

Objects of devices hold addresses that ONNX Runtime owns, and open them while the device's library is registered.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import IntEnum, IntFlag
from types import MappingProxyType
from typing import Any

from zrt._common.arguments import text
from zrt._common.public import public
from zrt._native import status
from zrt._native.cdata import address_of, new_array, pointer_to
from zrt._native.handle import Handle, NotCopyable
from zrt._native.library import api
from zrt.environment import provider_libraries
from zrt.environment.environment import current
from zrt.environment.provider_libraries import Library
from zrt.errors import ArgumentError, DTypeError
from zrt.memory.allocators import MemoryInfo, read_pairs
from zrt.types import DeviceMemType


@public
class HardwareType(IntEnum):
    """The kind of a device (``OrtHardwareDeviceType``)."""

    CPU = 0
    GPU = 1
    NPU = 2


@public
class IncompatibilityReason(IntFlag):
    """Why a provider cannot use a device (``OrtDeviceEpIncompatibilityReason``); reasons can be combined."""

    NONE = 0
    DRIVER_INCOMPATIBLE = 1
    DEVICE_INCOMPATIBLE = 2
    MISSING_DEPENDENCY = 4
    UNKNOWN = 1 << 31


@public
@dataclass(frozen=True, slots=True)
class Incompatibility:
    """A provider's reasons against a device; false if there are none."""

    reasons: IncompatibilityReason
    error_code: int
    """An error code of the provider's; 0 if it gives none."""
    notes: str

    def __bool__(self) -> bool:
        return bool(self.reasons)


@dataclass(frozen=True, slots=True)
class DevicePointer(NotCopyable):
    """The address of a device that ONNX Runtime owns, and the provider library that the device belongs to."""

    address: int
    library: Library | None


def opened(pointer: Any, ctype: str, subject: str) -> Handle:
    """The address as a pointer to a `ctype`, in a handle that keeps the device's library registered.

    Raises `ClosedError` if the library was unregistered, `DTypeError` if a user made the object `subject`, which
    then has no `DevicePointer`.
    """
    if not isinstance(pointer, DevicePointer):
        raise DTypeError(f"{subject}: zrt makes these, users make none; see zrt.ep_devices and zrt.hardware_devices")
    return Handle(provider_libraries.hold([pointer.library]).reference, pointer_to(pointer.address, ctype))


@dataclass(frozen=True, slots=True, eq=False)
class DeviceMemory(MemoryInfo):
    """A memory of an `EpDevice`: a `MemoryInfo` for lanes, bindings and allocators.

    It equals any `MemoryInfo` with the same fields.
    """

    _pointer: DevicePointer | None = field(default=None, repr=False)
    _kind: DeviceMemType = field(default=DeviceMemType.DEFAULT, repr=False)

    @classmethod
    def of_device(cls, device: Any, pointer: DevicePointer, kind: DeviceMemType) -> DeviceMemory | None:
        """The memory of that kind that a borrowed ``OrtEpDevice`` has; None if it has none."""
        memory = api().EpDevice_MemoryInfo(device, kind)
        if not memory:
            return None
        info = MemoryInfo._read(memory)
        fields = (info.name, info.device_id, info.allocator_type, info.mem_type, info.device_type)
        return cls(*fields, _pointer=pointer, _kind=kind)

    def _key(self) -> MemoryInfo:
        return MemoryInfo(self.name, self.device_id, self.allocator_type, self.mem_type, self.device_type)

    def __eq__(self, other: object) -> bool:
        return self._key() == (other._key() if isinstance(other, DeviceMemory) else other)

    def __hash__(self) -> int:
        return hash(self._key())

    def device(self) -> tuple[Handle, DeviceMemType]:
        """The ``OrtEpDevice``, in a handle that keeps its library registered, and which of its memories this is."""
        return opened(self._pointer, "const OrtEpDevice", "DeviceMemory"), self._kind

    def handle(self) -> Handle:
        """The device's ``OrtMemoryInfo``, in a handle that keeps the device's library registered."""
        device, kind = self.device()
        return Handle(device.reference, api().EpDevice_MemoryInfo(device.pointer, kind))


@public
@dataclass(frozen=True, slots=True)
class HardwareDevice(NotCopyable):
    """A CPU, GPU or NPU (``OrtHardwareDevice``), as `hardware_devices` and `EpDevice.hardware` return it."""

    type: HardwareType = field(compare=False)
    vendor: str = field(compare=False)
    vendor_id: int = field(compare=False)
    """The vendor's PCI number; 0 if there is none."""
    device_id: int = field(compare=False)
    """The vendor's number of the model: two devices of one model have the same."""
    metadata: Mapping[str, str] = field(compare=False)
    _pointer: DevicePointer = field(repr=False)

    @classmethod
    def _read(cls, pointer: Any, library: Library | None = None) -> HardwareDevice:
        """Reads a borrowed ``OrtHardwareDevice``."""
        table = api()
        return cls(
            HardwareType(int(table.HardwareDevice_Type(pointer))),
            status.string(table.HardwareDevice_Vendor(pointer)),
            table.HardwareDevice_VendorId(pointer),
            table.HardwareDevice_DeviceId(pointer),
            _pairs(table.HardwareDevice_Metadata(pointer)),
            DevicePointer(address_of(pointer), library),
        )

    def incompatibility(self, provider: str) -> Incompatibility:
        """The reasons for which a provider, named in full, cannot use this device; false if there are none.

        Raises `ArgumentError` if no provider of that name has devices here (see `ep_devices`).
        """
        handle = opened(self._pointer, "const OrtHardwareDevice", "HardwareDevice")
        table = api()
        name = text(provider, "provider")
        with status.named(f"provider {provider!r}", ArgumentError):
            find = table.GetHardwareDeviceEpIncompatibilityDetails
            arguments = ("OrtDeviceEpIncompatibilityDetails", current().pointer, name, handle.pointer)
            details = Handle.make(table.ReleaseDeviceEpIncompatibilityDetails, [], find, *arguments)
        reasons = status.fetch(table.DeviceEpIncompatibilityDetails_GetReasonsBitmask, "uint32_t", details.pointer)
        code = status.fetch(table.DeviceEpIncompatibilityDetails_GetErrorCode, "int32_t", details.pointer)
        notes = status.fetch(table.DeviceEpIncompatibilityDetails_GetNotes, "const char *", details.pointer)
        return Incompatibility(IncompatibilityReason(reasons), code, status.string(notes) if notes else "")


@public
@dataclass(frozen=True, slots=True)
class EpDevice(NotCopyable):
    """A device that an execution provider offers to run on (``OrtEpDevice``); `Session` takes it in `providers`.

    It is valid until its library is unregistered; later use raises `ClosedError`.
    """

    provider: str = field(compare=False)
    """The provider's name."""
    vendor: str = field(compare=False)
    """The vendor of the provider."""
    metadata: Mapping[str, str] = field(compare=False)
    """The provider's details about itself and the device: its version, its library's path, ..."""
    options: Mapping[str, str] = field(compare=False)
    """The provider's default options for this device."""
    hardware: HardwareDevice = field(compare=False)
    memory: MemoryInfo | None = field(compare=False)
    """The device's own memory; None if it computes in the host's."""
    host_memory: MemoryInfo | None = field(compare=False)
    """Host memory that the device can access; None if the provider has no special one."""
    library: str | None = field(compare=False)
    """The name that its library was registered under; None for providers inside ONNX Runtime."""
    _pointer: DevicePointer = field(repr=False)

    @classmethod
    def _read(cls, pointer: Any) -> EpDevice:
        """Reads a borrowed ``OrtEpDevice``. Call it under `provider_libraries.lock`."""
        table = api()
        library = provider_libraries.owner_of(pointer)
        owned = DevicePointer(address_of(pointer), library)
        hardware = table.EpDevice_Device(pointer)
        return cls(
            status.string(table.EpDevice_EpName(pointer)),
            status.string(table.EpDevice_EpVendor(pointer)),
            _pairs(table.EpDevice_EpMetadata(pointer)),
            _pairs(table.EpDevice_EpOptions(pointer)),
            HardwareDevice._read(hardware, None if hardware in _machine() else library),
            DeviceMemory.of_device(pointer, owned, DeviceMemType.DEFAULT),
            DeviceMemory.of_device(pointer, owned, DeviceMemType.HOST_ACCESSIBLE),
            None if library is None else library.name,
            owned,
        )

    def _open(self) -> Handle:
        """The ``OrtEpDevice``, in a handle that keeps its library registered."""
        return opened(self._pointer, "const OrtEpDevice", "EpDevice")

    def __str__(self) -> str:
        where = self.hardware
        return f"{self.provider} on {where.type.name} {where.vendor} {where.vendor_id:04x}:{where.device_id:04x}"


def _pairs(pointer: Any) -> Mapping[str, str]:
    return MappingProxyType(read_pairs(pointer))


@public
def ep_devices() -> tuple[EpDevice, ...]:
    """The devices that execution providers offer, those of ONNX Runtime's own providers first.

    Not all of ONNX Runtime's own providers list their devices; the CPU execution provider does. Providers of a library
    are listed after `Environment.register_provider_library`.
    """
    environment = current().pointer
    with provider_libraries.lock:
        return tuple(EpDevice._read(pointer) for pointer in provider_libraries.device_pointers(environment))


@public
def hardware_devices() -> tuple[HardwareDevice, ...]:
    """The devices that ONNX Runtime found on this machine, whether or not a provider can use them."""
    return tuple(HardwareDevice._read(pointer) for pointer in _machine())


def _machine() -> list[Any]:
    """The devices that ONNX Runtime itself found. It keeps them to the end of the process."""
    table = api()
    environment = current().pointer
    count = status.fetch(table.GetNumHardwareDevices, "size_t", environment)
    places = new_array("const OrtHardwareDevice *", count)
    status.check(table.GetHardwareDevices(environment, places, count))
    return list(places)
