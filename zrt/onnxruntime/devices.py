"""`OrtDevice` as programs make it, by a name such as "cuda", and the vendors' numbers."""

from __future__ import annotations

from enum import IntEnum
from functools import lru_cache

from zrt.onnxruntime.state import devices as state
from zrt.onnxruntime.state.devices import (
    OrtEpDevice,
    OrtHardwareDevice,
    OrtMemoryInfo,
    OrtSyncStream,
    get_ep_devices,
    register_execution_provider_library,
    unregister_execution_provider_library,
)

__all__ = [
    "OrtDevice",
    "OrtDeviceVendorId",
    "OrtEpDevice",
    "OrtHardwareDevice",
    "OrtMemoryInfo",
    "OrtSyncStream",
    "get_ep_devices",
    "get_ort_device_type",
    "get_vendor_id_for_device_type",
    "register_execution_provider_library",
    "unregister_execution_provider_library",
]


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


_TYPES = {
    "cpu": state.CPU,
    "gpu": state.GPU,
    "cuda": state.GPU,
    "webgpu": state.GPU,
    "npu": state.NPU,
    "cann": state.NPU,
    "dml": state.DML,
}
_VENDORS = {
    "cuda": OrtDeviceVendorId.NVIDIA,
    "dml": OrtDeviceVendorId.MICROSOFT,
    "cann": OrtDeviceVendorId.HUAWEI,
}


def get_ort_device_type(device_type: str) -> int:
    """The number of a type of device, by its name; raises `Exception` for an unknown name."""
    try:
        return _TYPES[device_type]
    except (KeyError, TypeError):
        raise Exception("Unsupported device type: " + device_type) from None


def get_vendor_id_for_device_type(device_type: str) -> OrtDeviceVendorId | None:
    """The vendor that a name such as "cuda" implies, None if it implies none."""
    return _VENDORS.get(device_type)


@lru_cache(maxsize=64, typed=True)
def state_device(name: str, device_id: int, vendor_id: int = -1) -> state.OrtDevice:
    """The device of the layer below for the arguments of `OrtDevice.make`; it never changes, so a cache serves all."""
    vendor = int(vendor_id) if vendor_id >= 0 else get_vendor_id_for_device_type(name)
    numbers = (get_ort_device_type(name), state.OrtDevice.default_memory())
    if vendor is None:
        return state.OrtDevice(*numbers, device_id)
    return state.OrtDevice(*numbers, int(vendor), device_id)


class OrtDevice:
    """A device: where a value lies. `make` makes one from a name."""

    def __init__(self, c_ort_device: state.OrtDevice) -> None:
        if not isinstance(c_ort_device, state.OrtDevice):
            raise ValueError(
                "`Provided object` needs to be of type `onnxruntime.capi.onnxruntime_pybind11_state.OrtDevice`"
            )
        self._ort_device = c_ort_device

    def _get_c_device(self) -> state.OrtDevice:
        return self._ort_device

    @staticmethod
    def make(ort_device_name: str, device_id: int, vendor_id: int | OrtDeviceVendorId = -1) -> OrtDevice:
        """The device of a name ("cpu", "cuda", "gpu", "npu", "dml", "cann", "webgpu") and a number.

        `vendor_id` is the vendor's PCI number, for a "gpu" or "npu"; with -1 it follows from the name.
        """
        return OrtDevice(state_device(ort_device_name, device_id, vendor_id))

    def device_id(self) -> int:
        """The number of the device."""
        return self._ort_device.device_id()

    def device_type(self) -> int:
        """The type: 0 is the CPU, 1 a GPU, 2 an FPGA, 3 an NPU."""
        return self._ort_device.device_type()

    def device_vendor_id(self) -> int:
        """The vendor's PCI number, 0 for none."""
        return self._ort_device.vendor_id()

    def device_mem_type(self) -> int:
        """The kind of memory: 0 is the device's own, 5 memory that the host can access."""
        return self._ort_device.mem_type()
