"""The devices of this machine, as hardware (`HardwareDevice`) and as execution providers offer them (`EpDevice`)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import IntEnum, IntFlag
from types import MappingProxyType
from typing import Any, NoReturn

from zrt._common.arguments import text
from zrt._common.public import public
from zrt._native import ffi, status
from zrt._native.handle import Handle
from zrt._native.library import api
from zrt.environment import provider_libraries
from zrt.environment.environment import current
from zrt.errors import ArgumentError, DTypeError, Error, NotCopyableError
from zrt.memory.allocators import MemoryInfo, read_pairs


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


@dataclass(frozen=True, slots=True)
class Source:
    """A thing of ONNX Runtime's, by address, and the library that it goes with; for zrt alone to make."""

    address: int
    library: provider_libraries.Library | None

    @classmethod
    def of(cls, pointer: Any, library: provider_libraries.Library | None) -> Source:
        return cls(int(ffi.cast("uintptr_t", pointer)), library)

    def open(self, kind: str) -> Handle:
        """The pointer, with what keeps it valid; `ClosedError` where its library was unregistered."""
        return Handle(provider_libraries.hold([self.library]).reference, ffi.cast(kind, self.address))

    def __reduce_ex__(self, protocol: object) -> NoReturn:
        raise NotCopyableError("a device stands for one thing in ONNX Runtime: no copy, no pickle")


def _opened(source: Any, kind: str, subject: str) -> Handle:
    if not isinstance(source, Source):
        raise DTypeError(f"{subject}: zrt makes these, users make none; see zrt.ep_devices and zrt.hardware_devices")
    return source.open(kind)


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
    _source: Source = field(repr=False)

    @classmethod
    def read(cls, pointer: Any, library: provider_libraries.Library | None = None) -> HardwareDevice:
        """What a borrowed ``OrtHardwareDevice`` says."""
        table = api()
        return cls(
            HardwareType(int(table.HardwareDevice_Type(pointer))),
            status.string(table.HardwareDevice_Vendor(pointer)),
            table.HardwareDevice_VendorId(pointer),
            table.HardwareDevice_DeviceId(pointer),
            _pairs(table.HardwareDevice_Metadata(pointer)),
            Source.of(pointer, library),
        )

    def incompatibility(self, provider: str) -> Incompatibility:
        """What the provider, by its full name, says against this device; the answer is false where that is nothing.

        `ArgumentError` where no provider of that name has devices here (see `ep_devices`).
        """
        handle = _opened(self._source, "const OrtHardwareDevice *", "HardwareDevice")
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


@dataclass(frozen=True, slots=True, eq=False)
class DeviceMemory(MemoryInfo):
    """A memory of an `EpDevice`: a `MemoryInfo` for lanes, bindings and allocators, equal to any that says the same."""

    _source: Source | None = field(default=None, repr=False)
    _own: bool = field(default=True, repr=False)

    def _key(self) -> MemoryInfo:
        return MemoryInfo(self.name, self.device_id, self.allocator_type, self.mem_type, self.device_type)

    def __eq__(self, other: object) -> bool:
        return self._key() == (other._key() if isinstance(other, DeviceMemory) else other)

    def __hash__(self) -> int:
        return hash(self._key())

    def device(self) -> tuple[Handle, int]:
        """The ``OrtEpDevice``, with what keeps its library registered, and which of its memories this is."""
        return _opened(
            self._source, "const OrtEpDevice *", "DeviceMemory"
        ), provider_libraries.OWN if self._own else provider_libraries.HOST

    def handle(self) -> Handle:
        """The device's own ``OrtMemoryInfo``, which keeps the device's library registered."""
        device, kind = self.device()
        return Handle(device.reference, api().EpDevice_MemoryInfo(device.pointer, kind))


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
    _source: Source = field(repr=False)

    @classmethod
    def read(cls, pointer: Any) -> EpDevice:
        """What a borrowed ``OrtEpDevice`` says; to be called under `plugins.lock`."""
        table = api()
        library = provider_libraries.owner_of(pointer)
        source = Source.of(pointer, library)
        hardware = table.EpDevice_Device(pointer)
        return cls(
            status.string(table.EpDevice_EpName(pointer)),
            status.string(table.EpDevice_EpVendor(pointer)),
            _pairs(table.EpDevice_EpMetadata(pointer)),
            _pairs(table.EpDevice_EpOptions(pointer)),
            HardwareDevice.read(hardware, None if hardware in _machine() else library),
            _memory(pointer, source, own=True),
            _memory(pointer, source, own=False),
            None if library is None else library.name,
            source,
        )

    def _open(self) -> Handle:
        """The ``OrtEpDevice``, with what keeps its library registered; `ClosedError` where it was unregistered."""
        return _opened(self._source, "const OrtEpDevice *", "EpDevice")

    def __str__(self) -> str:
        where = self.hardware
        return f"{self.provider} on {where.type.name} {where.vendor} {where.vendor_id:04x}:{where.device_id:04x}"


def _pairs(pointer: Any) -> Mapping[str, str]:
    return MappingProxyType(read_pairs(pointer))


def _memory(pointer: Any, source: Source, own: bool) -> DeviceMemory | None:
    memory = api().EpDevice_MemoryInfo(pointer, provider_libraries.OWN if own else provider_libraries.HOST)
    if not memory:
        return None
    info = MemoryInfo.read(memory)
    return DeviceMemory(
        info.name, info.device_id, info.allocator_type, info.mem_type, info.device_type, _source=source, _own=own
    )


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
    """The device at a pointer that ONNX Runtime handed out, None where it is NULL; under `plugins.lock`."""
    return EpDevice.read(pointer) if pointer else None
