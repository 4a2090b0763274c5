"""The memories of a device, and pointers to devices that ONNX Runtime owns."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, NoReturn

from zrt._native.cdata import address_of, pointer_to
from zrt._native.handle import Handle
from zrt._native.library import api
from zrt.environment import provider_libraries
from zrt.environment.provider_libraries import Library
from zrt.errors import DTypeError, NotCopyableError
from zrt.memory.allocators import MemoryInfo
from zrt.types import DeviceMemType


@dataclass(frozen=True, slots=True)
class DevicePointer:
    """The address of a device that ONNX Runtime owns, and the provider library that the device belongs to."""

    address: int
    library: Library | None

    @classmethod
    def of(cls, pointer: Any, library: Library | None) -> DevicePointer:
        return cls(address_of(pointer), library)

    def __reduce_ex__(self, protocol: object) -> NoReturn:
        raise NotCopyableError("a device stands for one thing in ONNX Runtime: no copy, no pickle")


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
        return cls(
            info.name,
            info.device_id,
            info.allocator_type,
            info.mem_type,
            info.device_type,
            _pointer=pointer,
            _kind=kind,
        )

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
