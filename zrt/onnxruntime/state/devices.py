"""Devices as numbers (`OrtDevice`), their memory, and the devices that execution providers offer."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, ClassVar
from weakref import WeakValueDictionary

from zrt.environment.environment import current
from zrt.errors import Error, OrtError
from zrt.memory.allocators import CPU as HOST
from zrt.memory.allocators import MemoryInfo
from zrt.onnxruntime import errors
from zrt.onnxruntime.enums import (
    OrtAllocatorType,
    OrtCompiledModelCompatibility,
    OrtDeviceMemoryType,
    OrtHardwareDeviceType,
    OrtMemoryInfoDeviceType,
    OrtMemType,
)
from zrt.onnxruntime.state.arguments import (
    BUFFER,
    INT8,
    INT16,
    INT32,
    PATH,
    TEXT,
    UINT32,
    UINT64,
    instance,
    no_constructor,
    sequence,
    take,
)
from zrt.types import AllocatorType, DeviceMemType, DeviceType, MemType

if TYPE_CHECKING:
    from zrt.environment.streams import SyncStream

CPU, GPU, FPGA, NPU, DML = 0, 1, 2, 3, 4

_NVIDIA, _MICROSOFT = 0x10DE, 0x1414
_MEMORY_TYPES = int(DeviceMemType.DEFAULT), int(DeviceMemType.HOST_ACCESSIBLE)


def runtime_error(error: Error) -> RuntimeError:
    """The error of a function that reports ONNX Runtime's own words alone, as a `RuntimeError`."""
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, OrtError) and not isinstance(cause.__cause__, OrtError):
            return RuntimeError(str(cause))
        cause = cause.__cause__
    return RuntimeError(str(error))


class NotPickled:
    """Base of objects that stand for one thing in ONNX Runtime, of which there is no copy and no pickle."""

    __slots__ = ("__weakref__",)

    def __reduce_ex__(self, protocol: object) -> Any:
        kind = type(self)
        raise TypeError(f"cannot pickle '{kind.__module__}.{kind.__qualname__}' object")


class OrtDevice(NotPickled):
    """A device by numbers: its type, its kind of memory, the vendor's PCI number and the device's number."""

    __slots__ = ("_numbers",)

    _numbers: tuple[int, int, int, int]

    _FORMS: ClassVar = {"with_vendor": (INT8, INT8, UINT32, INT16), "plain": (INT8, INT8, INT16)}

    def __init__(self, *numbers: Any) -> None:
        form, (device_type, memory_type, *others) = take("__init__", self._FORMS, numbers)
        vendor_id, device_id = others if form == "with_vendor" else (0, *others)
        if device_type == DML:
            # An old number: a GPU of Microsoft's provider.
            device_type, vendor_id = GPU, _MICROSOFT
        if memory_type not in _MEMORY_TYPES:
            raise RuntimeError(f"Invalid memory type: {memory_type}")
        self._numbers = (device_type, memory_type, vendor_id, device_id)

    def device_type(self) -> int:
        """The type: 0 is the CPU, 1 a GPU, 2 an FPGA, 3 an NPU, 4 a device of DirectML."""
        return self._numbers[0]

    def mem_type(self) -> int:
        """The kind of memory: 0 is the device's own, 5 memory that the host can access."""
        return self._numbers[1]

    def vendor_id(self) -> int:
        """The vendor's PCI number, 0 for none."""
        return self._numbers[2]

    def device_id(self) -> int:
        """The number of the device."""
        return self._numbers[3]

    cpu = staticmethod(lambda: CPU)
    gpu = staticmethod(lambda: GPU)
    npu = staticmethod(lambda: NPU)
    cuda = staticmethod(lambda: GPU)
    cann = staticmethod(lambda: NPU)
    dml = staticmethod(lambda: DML)
    fpga = staticmethod(lambda: FPGA)
    webgpu = staticmethod(lambda: GPU)
    default_memory = staticmethod(lambda: _MEMORY_TYPES[0])


class OrtMemoryInfo(NotPickled):
    """A kind of memory: the allocator's name, its type, the device's number and the use."""

    __slots__ = ("_memory",)

    _FORMS: ClassVar = {"": (TEXT, instance(OrtAllocatorType), INT32, instance(OrtMemType))}
    _V2_FORMS: ClassVar = {
        "": (
            TEXT,
            instance(OrtMemoryInfoDeviceType),
            UINT32,
            INT32,
            instance(OrtDeviceMemoryType),
            UINT64,
            instance(OrtAllocatorType),
        )
    }

    def __init__(self, *arguments: Any) -> None:
        _, (name, allocator, device_id, use) = take("__init__", self._FORMS, arguments)
        self._resolve(MemoryInfo(name, device_id, AllocatorType(int(allocator)), MemType(int(use))))

    @staticmethod
    def create_v2(*arguments: Any) -> OrtMemoryInfo:
        """Memory of any device: name, device type, vendor, device number, kind of memory, alignment, allocator."""
        _, (name, device, vendor_id, device_id, kind, alignment, allocator) = take(
            "create_v2", OrtMemoryInfo._V2_FORMS, arguments
        )
        host = int(kind) == DeviceMemType.HOST_ACCESSIBLE
        return OrtMemoryInfo._of(
            MemoryInfo(
                name,
                device_id,
                AllocatorType(int(allocator)),
                MemType.CPU if host else MemType.DEFAULT,
                DeviceType(int(device)),
                DeviceMemType(int(kind)),
                vendor_id,
                alignment,
            )
        )

    @classmethod
    def _of(cls, memory: MemoryInfo) -> OrtMemoryInfo:
        made = cls.__new__(cls)
        made._resolve(memory)
        return made

    def _resolve(self, memory: MemoryInfo) -> None:
        try:
            self._memory = memory._resolved()
        except Error as error:
            raise runtime_error(error) from error

    def _to_zrt(self) -> MemoryInfo:
        return self._memory

    @property
    def name(self) -> str:
        """The name of the allocator."""
        return self._memory.name

    @property
    def device_id(self) -> int:
        """The number of the device."""
        return self._memory.device_id

    @property
    def mem_type(self) -> OrtMemType:
        """The use of the memory."""
        return OrtMemType(int(self._memory.mem_type))

    @property
    def allocator_type(self) -> OrtAllocatorType:
        """How the allocator gets its memory."""
        return OrtAllocatorType(int(self._memory.allocator_type))

    @property
    def device_mem_type(self) -> OrtDeviceMemoryType:
        """Whether it is the device's own memory, or memory that the host can access."""
        return OrtDeviceMemoryType(int(self._memory.device_mem_type))

    @property
    def device_vendor_id(self) -> int:
        """The PCI number of the device's vendor, 0 for none."""
        return self._memory.vendor_id or 0


class _Device(NotPickled):
    """Base of the objects that ONNX Runtime lists: there is one for each device."""

    __slots__ = ("_device",)

    _device: Any

    def __init__(self) -> None:
        raise no_constructor(self)

    @classmethod
    def _of(cls, device: Any) -> Any:
        key = (cls, device)
        found = _listed.get(key)
        if found is None:
            found = cls.__new__(cls)
            found._device = device
            found = _listed.setdefault(key, found)
        return found

    def _to_zrt(self) -> Any:
        return self._device


_listed: WeakValueDictionary[Any, Any] = WeakValueDictionary()


class OrtHardwareDevice(_Device):
    """A CPU, GPU or NPU of this machine."""

    __slots__ = ()

    @property
    def type(self) -> OrtHardwareDeviceType:
        """The kind of the device."""
        return OrtHardwareDeviceType(int(self._device.type))

    @property
    def vendor_id(self) -> int:
        """The vendor's PCI number, 0 for none."""
        return int(self._device.vendor_id)

    @property
    def vendor(self) -> str:
        """The vendor's name."""
        return str(self._device.vendor)

    @property
    def device_id(self) -> int:
        """The vendor's number of the model."""
        return int(self._device.device_id)

    @property
    def metadata(self) -> dict[str, str]:
        """More about the device, by key."""
        return dict(self._device.metadata)


class OrtEpDevice(_Device):
    """A device that an execution provider offers to run on."""

    __slots__ = ()

    @property
    def ep_name(self) -> str:
        """The provider's name."""
        return str(self._device.provider)

    @property
    def ep_vendor(self) -> str:
        """The name of the provider's vendor."""
        return str(self._device.vendor)

    @property
    def ep_metadata(self) -> dict[str, str]:
        """The provider's details about itself and the device, by key."""
        return dict(self._device.metadata)

    @property
    def ep_options(self) -> dict[str, str]:
        """The provider's default options for the device."""
        return dict(self._device.options)

    @property
    def device(self) -> OrtHardwareDevice:
        """The hardware."""
        hardware: OrtHardwareDevice = OrtHardwareDevice._of(self._device.hardware)
        return hardware

    def memory_info(self, *arguments: Any) -> OrtMemoryInfo | None:
        """The memory of that `OrtDeviceMemoryType` that the device has, None if it has none."""
        forms = {"": (instance(OrtDeviceMemoryType),)}
        _, (kind,) = take("memory_info", forms, arguments)
        host = int(kind) == DeviceMemType.HOST_ACCESSIBLE
        memory = self._device.host_memory if host else self._device.memory
        return None if memory is None else OrtMemoryInfo._of(memory)

    def create_sync_stream(self) -> OrtSyncStream:
        """A stream of the device; raises for a device that computes in the host's memory."""
        memory = self._device.memory
        if memory is None or memory.is_host:
            raise RuntimeError("ep_device does not use DEFAULT memory of a non-CPU device.")
        from zrt.environment.streams import SyncStream

        try:
            return OrtSyncStream._of(SyncStream(self._device))
        except Error as error:
            raise runtime_error(error) from error


class OrtSyncStream(NotPickled):
    """A queue of a device, on which copies and runs continue after the call returns."""

    __slots__ = ("_stream",)

    _stream: SyncStream

    def __init__(self) -> None:
        raise no_constructor(self)

    @classmethod
    def _of(cls, stream: SyncStream) -> OrtSyncStream:
        made = cls.__new__(cls)
        made._stream = stream
        return made

    def _to_zrt(self) -> SyncStream:
        return self._stream

    def get_handle(self) -> int:
        """The stream in the device's own library, as an address."""
        return self._stream.native_handle


def memory_of(device: OrtDevice) -> MemoryInfo | None:
    """The memory of a device: one that a provider offers, the host's, or CUDA's; None for any other."""
    kind, memory_type, vendor_id, number = device._numbers
    if kind == CPU:
        return HOST
    from zrt.environment.devices import ep_devices

    for offered in ep_devices():
        for memory in (offered.memory, offered.host_memory):
            if memory is None:
                continue
            place = memory._resolved()
            found = (place.device_type, place.device_mem_type, place.vendor_id or 0, place.device_id)
            if found == device._numbers:
                return memory
    if kind == GPU and vendor_id in (0, _NVIDIA):
        pinned = memory_type == DeviceMemType.HOST_ACCESSIBLE
        return MemoryInfo.cuda_pinned(number) if pinned else MemoryInfo.cuda(number)
    return None


def get_ep_devices() -> list[OrtEpDevice]:
    """The devices that execution providers offer in this process."""
    from zrt.environment.devices import ep_devices

    return [OrtEpDevice._of(device) for device in ep_devices()]


def get_hardware_devices() -> list[OrtHardwareDevice]:
    """The devices that ONNX Runtime found on this machine."""
    from zrt.environment.devices import hardware_devices

    return [OrtHardwareDevice._of(device) for device in hardware_devices()]


def get_hardware_device_ep_incompatibility_details(*arguments: Any) -> dict[str, Any]:
    """The reasons for which a provider, by its name, cannot use an `OrtHardwareDevice`: bits, notes and error code."""
    forms = {"": (TEXT, instance(OrtHardwareDevice))}
    _, (provider, device) = take("get_hardware_device_ep_incompatibility_details", forms, arguments)
    with errors.translated():
        found = device._to_zrt().incompatibility(provider)
    return {"reasons_bitmask": int(found.reasons), "notes": found.notes or None, "error_code": found.error_code}


def get_model_compatibility_for_ep_devices(*arguments: Any) -> OrtCompiledModelCompatibility:
    """A provider's verdict on a compiled model, for some of its devices and the model's compatibility string."""
    from zrt.session.compatibility import verdict

    forms = {"": (sequence(instance(OrtEpDevice)), TEXT)}
    _, (devices, info) = take("get_model_compatibility_for_ep_devices", forms, arguments)
    if not devices:
        raise RuntimeError("Invalid argument provided to GetModelCompatibilityForEpDevices.")
    try:
        found = verdict(info, [device._to_zrt() for device in devices])
    except Error as error:
        raise runtime_error(error) from error
    return OrtCompiledModelCompatibility(int(found))


def get_compatibility_info_from_model(*arguments: Any) -> str | None:
    """The compatibility string that a provider wrote into the compiled model of a file; None without one."""
    _, (path, provider) = take("get_compatibility_info_from_model", {"": (PATH, TEXT)}, arguments)
    if not os.path.exists(path):
        raise RuntimeError(f"Load model {path} failed. File doesn't exist")
    return _compatibility_info(path, provider, "GetCompatibilityInfoFromModel")


def get_compatibility_info_from_model_bytes(*arguments: Any) -> str | None:
    """As `get_compatibility_info_from_model`, for a model in memory."""
    function = "get_compatibility_info_from_model_bytes"
    forms = {"": (BUFFER, TEXT)}
    _, (data, provider) = take(function, forms, arguments)
    if not data:
        raise RuntimeError("Invalid argument provided to GetCompatibilityInfoFromModelBytes.")
    return _compatibility_info(data, provider, "GetCompatibilityInfoFromModelBytes")


def _compatibility_info(model: str | bytes, provider: str, function: str) -> str | None:
    from zrt.session.compatibility import compatibility_info

    if not provider:
        raise RuntimeError(f"Invalid argument provided to {function}.")
    try:
        return compatibility_info(model, provider)
    except Error as error:
        raise runtime_error(error) from error


def register_execution_provider_library(*arguments: Any) -> None:
    """Loads a library with execution providers: its name of your choice, and its path."""
    _, (name, path) = take("register_execution_provider_library", {"": (TEXT, PATH)}, arguments)
    try:
        current().register_provider_library(name, path)
    except Error as error:
        raise _failed(error, "Failed to load library: ") from error


def unregister_execution_provider_library(*arguments: Any) -> None:
    """Unloads a library with execution providers, by its name."""
    _, (name,) = take("unregister_execution_provider_library", {"": (TEXT,)}, arguments)
    environment = current()
    if name not in environment.provider_libraries:
        message = f"[ONNXRuntimeError] : 1 : FAIL : Execution provider library: {name} was not registered."
        raise errors.Fail(message)
    try:
        environment.unregister_provider_library(name)
    except Error as error:
        raise _failed(error) from error


def _failed(error: Error, prefix: str = "") -> Exception:
    """ONNX Runtime's own error, or for one of zrt's the `Fail` that theirs would be."""
    translated = errors.translate(error)
    return errors.made(1, f"{prefix}{error}") if translated is error else translated
