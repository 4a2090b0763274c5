"""The devices of this machine, as hardware (`HardwareDevice`) and as execution providers offer them (`EpDevice`)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import IntEnum, IntFlag
from types import MappingProxyType
from typing import Any

from zrt._common.arguments import text
from zrt._common.public import public
from zrt._native import ffi, status
from zrt._native.handle import Handle
from zrt._native.library import api
from zrt.environment import provider_libraries
from zrt.environment.device_memory import DeviceMemory, DevicePointer, opened
from zrt.environment.environment import current
from zrt.environment.provider_libraries import Library
from zrt.errors import ArgumentError, Error
from zrt.memory.allocators import read_pairs
from zrt.types import DeviceMemType


@public
class HardwareType(IntEnum):
    """What a device is (``OrtHardwareDeviceType``)."""

    CPU = 0
    GPU = 1
    NPU = 2


@public
class IncompatibilityReason(IntFlag):
    """Why a provider cannot use a device (``OrtDeviceEpIncompatibilityReason``); several may hold."""

    NONE = 0
    DRIVER_INCOMPATIBLE = 1
    DEVICE_INCOMPATIBLE = 2
    MISSING_DEPENDENCY = 4
    UNKNOWN = 1 << 31


@public
@dataclass(frozen=True, slots=True)
class Incompatibility:
    """What a provider says against a device; it is false where that is nothing."""

    reasons: IncompatibilityReason
    error_code: int
    """A number of the provider's own; 0 where there is none."""
    notes: str

    def __bool__(self) -> bool:
        return bool(self.reasons)


@public
@dataclass(frozen=True, slots=True)
class HardwareDevice:
    """A processor, GPU or NPU (``OrtHardwareDevice``), as `hardware_devices` or an `EpDevice` names it."""

    type: HardwareType = field(compare=False)
    vendor: str = field(compare=False)
    vendor_id: int = field(compare=False)
    """The vendor's number on the PCI bus; 0 where there is none."""
    device_id: int = field(compare=False)
    """The device's number among the vendor's models: two alike have the same."""
    metadata: Mapping[str, str] = field(compare=False)
    _pointer: DevicePointer = field(repr=False)

    @classmethod
    def read(cls, pointer: Any, library: Library | None = None) -> HardwareDevice:
        """What a borrowed ``OrtHardwareDevice`` says."""
        table = api()
        return cls(
            HardwareType(int(table.HardwareDevice_Type(pointer))),
            status.string(table.HardwareDevice_Vendor(pointer)),
            table.HardwareDevice_VendorId(pointer),
            table.HardwareDevice_DeviceId(pointer),
            _pairs(table.HardwareDevice_Metadata(pointer)),
            DevicePointer.of(pointer, library),
        )

    def incompatibility(self, provider: str) -> Incompatibility:
        """What the provider, by its full name, says against this device; the answer is false where that is nothing.

        `ArgumentError` where no provider of that name has devices here (see `ep_devices`).
        """
        handle = opened(self._pointer, "const OrtHardwareDevice *", "HardwareDevice")
        table = api()
        name = text(provider, "provider")
        try:
            details = Handle.make(
                table.ReleaseDeviceEpIncompatibilityDetails,
                [],
                table.GetHardwareDeviceEpIncompatibilityDetails,
                "OrtDeviceEpIncompatibilityDetails",
                current().pointer,
                name,
                handle.pointer,
            )
        except Error as error:
            raise ArgumentError(f"provider {provider!r}: {error}") from error
        notes = status.fetch(table.DeviceEpIncompatibilityDetails_GetNotes, "const char *", details.pointer)
        return Incompatibility(
            IncompatibilityReason(
                status.fetch(table.DeviceEpIncompatibilityDetails_GetReasonsBitmask, "uint32_t", details.pointer)
            ),
            status.fetch(table.DeviceEpIncompatibilityDetails_GetErrorCode, "int32_t", details.pointer),
            status.string(notes) if notes else "",
        )


@public
@dataclass(frozen=True, slots=True)
class EpDevice:
    """A device that an execution provider offers to run on (``OrtEpDevice``); `Session` takes it in `providers`.

    It is valid until its library is unregistered; used later it is a `ClosedError`.
    """

    provider: str = field(compare=False)
    """The provider's name."""
    vendor: str = field(compare=False)
    """Who made the provider."""
    metadata: Mapping[str, str] = field(compare=False)
    """What the provider says of itself and the device: its version, its library's path, ..."""
    options: Mapping[str, str] = field(compare=False)
    """The provider's options that are the default for this device."""
    hardware: HardwareDevice = field(compare=False)
    memory: DeviceMemory | None = field(compare=False)
    """The device's own memory; None where it computes in the host's."""
    host_memory: DeviceMemory | None = field(compare=False)
    """Memory of the host that the device reaches; None where there is none of its own."""
    library: str | None = field(compare=False)
    """The name that its library was registered under; None for providers inside ONNX Runtime."""
    _pointer: DevicePointer = field(repr=False)

    @classmethod
    def read(cls, pointer: Any) -> EpDevice:
        """What a borrowed ``OrtEpDevice`` says; to be called under `provider_libraries.lock`."""
        table = api()
        library = provider_libraries.owner_of(pointer)
        source = DevicePointer.of(pointer, library)
        hardware = table.EpDevice_Device(pointer)
        return cls(
            status.string(table.EpDevice_EpName(pointer)),
            status.string(table.EpDevice_EpVendor(pointer)),
            _pairs(table.EpDevice_EpMetadata(pointer)),
            _pairs(table.EpDevice_EpOptions(pointer)),
            HardwareDevice.read(hardware, None if hardware in _machine() else library),
            DeviceMemory.of_device(pointer, source, DeviceMemType.DEFAULT),
            DeviceMemory.of_device(pointer, source, DeviceMemType.HOST_ACCESSIBLE),
            None if library is None else library.name,
            source,
        )

    def _open(self) -> Handle:
        """The ``OrtEpDevice``, with what keeps its library registered; `ClosedError` where it was unregistered."""
        return opened(self._pointer, "const OrtEpDevice *", "EpDevice")

    def __str__(self) -> str:
        where = self.hardware
        return f"{self.provider} on {where.type.name} {where.vendor} {where.vendor_id:04x}:{where.device_id:04x}"


def _pairs(pointer: Any) -> Mapping[str, str]:
    return MappingProxyType(read_pairs(pointer))


@public
def ep_devices() -> tuple[EpDevice, ...]:
    """The devices that execution providers offer, those of ONNX Runtime first.

    Providers inside ONNX Runtime are listed as far as they take part in this (the processor's does); those of a
    provider library after `Environment.register_provider_library`.
    """
    environment = current().pointer
    with provider_libraries.lock:
        return tuple(EpDevice.read(pointer) for pointer in provider_libraries.device_pointers(environment))


@public
def hardware_devices() -> tuple[HardwareDevice, ...]:
    """The devices that ONNX Runtime found on this machine, whether or not a provider can use them."""
    return tuple(HardwareDevice.read(pointer) for pointer in _machine())


def _machine() -> list[Any]:
    """The devices that ONNX Runtime itself found, which stay to the end of the process."""
    table = api()
    environment = current().pointer
    count = status.fetch(table.GetNumHardwareDevices, "size_t", environment)
    places = ffi.new("const OrtHardwareDevice *[]", count)
    status.check(table.GetHardwareDevices(environment, places, count))
    return list(places)


def device_at(pointer: Any) -> EpDevice | None:
    """The device at a pointer that ONNX Runtime handed out, None where it is NULL; under `provider_libraries.lock`."""
    return EpDevice.read(pointer) if pointer else None
