"""Devices, memories and what execution providers offer."""

import copy
import os
import pickle
from typing import Any

import numpy as np
import pytest

from tests.onnxruntime.bindings import bound
from tests.onnxruntime.packages import ours
from tests.support import models, plugin
from zrt._native.library import library
from zrt.environment.environment import current

NVIDIA, MICROSOFT, HUAWEI, INTEL = 0x10DE, 0x1414, 0x19E5, 0x8086


def numbers(device: Any) -> tuple[int, int, int, int]:
    return device.device_type(), device.device_mem_type(), device.device_vendor_id(), device.device_id()


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (("cpu", 0), (0, 0, 0, 0)),
        (("cpu", 0, 5), (0, 0, 5, 0)),
        (("gpu", 2), (1, 0, 0, 2)),
        (("gpu", 1, NVIDIA), (1, 0, NVIDIA, 1)),
        (("cuda", 1), (1, 0, NVIDIA, 1)),
        (("webgpu", 0), (1, 0, 0, 0)),
        (("dml", 0), (1, 0, MICROSOFT, 0)),
        (("cann", 0), (3, 0, HUAWEI, 0)),
        (("npu", 0, INTEL), (3, 0, INTEL, 0)),
    ],
)
def test_device_has_the_numbers_of_its_name(ort, arguments, expected) -> None:
    assert numbers(ort.OrtDevice.make(*arguments)) == expected


def test_device_refuses_wrong_arguments(ort) -> None:
    for name in ("CPU", "fpga", "no such device"):
        with pytest.raises(Exception, match=f"Unsupported device type: {name}"):
            ort.OrtDevice.make(name, 0)
    for arguments in (("cpu", None), ("cpu", "0"), ("cpu", 1 << 15), (1, 0), ("cpu", 0, "x")):
        with pytest.raises(TypeError):
            ort.OrtDevice.make(*arguments)
    with pytest.raises(ValueError, match="OrtDevice"):
        ort.OrtDevice("cpu")


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ((1, 0, 3), (1, 0, 0, 3)),
        ((1, 0, NVIDIA, 3), (1, 0, NVIDIA, 3)),
        ((True, np.int64(0), -5), (1, 0, 0, -5)),
        ((4, 0, 0), (1, 0, MICROSOFT, 0)),
        ((0, 5, 0), (0, 5, 0, 0)),
    ],
)
def test_device_by_numbers(ort, state, given, expected) -> None:
    device = state.OrtDevice(*given)
    assert (device.device_type(), device.mem_type(), device.vendor_id(), device.device_id()) == expected
    assert numbers(ort.OrtDevice(device)) == expected


@pytest.mark.parametrize("numbers", [(0, 0), ("a", 0, 0), (1.0, 0, 0), (128, 0, 0), (0, 0, 1 << 15), (0, 0, -1, 0)])
def test_device_by_wrong_numbers_raises(state, numbers) -> None:
    with pytest.raises(TypeError):
        state.OrtDevice(*numbers)


def test_kinds_of_devices_have_numbers(state) -> None:
    names = ["cpu", "gpu", "fpga", "npu", "cuda", "cann", "dml", "webgpu", "default_memory"]
    assert [getattr(state.OrtDevice, name)() for name in names] == [0, 1, 2, 3, 1, 3, 4, 1, 0]


def test_vendors_have_their_pci_numbers(ort) -> None:
    assert {each.name: int(each) for each in ort.OrtDeviceVendorId} == {
        "NONE": 0,
        "AMD": 0x1002,
        "NVIDIA": NVIDIA,
        "ARM": 0x13B5,
        "MICROSOFT": MICROSOFT,
        "HUAWEI": HUAWEI,
        "QUALCOMM": 0x5143,
        "INTEL": INTEL,
    }


def described(memory: Any) -> tuple[Any, ...]:
    return (
        memory.name,
        memory.device_id,
        memory.mem_type.name,
        memory.allocator_type.name,
        memory.device_mem_type.name,
        memory.device_vendor_id,
    )


@pytest.mark.parametrize(
    ("name", "device_id", "use", "expected"),
    [
        ("Cpu", 0, "DEFAULT", ("Cpu", 0, "DEFAULT", "ORT_DEVICE_ALLOCATOR", "DEFAULT", 0)),
        ("Cpu", 3, "CPU_INPUT", ("Cpu", 0, "CPU_INPUT", "ORT_DEVICE_ALLOCATOR", "DEFAULT", 0)),
        ("Cuda", 3, "DEFAULT", ("Cuda", 3, "DEFAULT", "ORT_DEVICE_ALLOCATOR", "DEFAULT", NVIDIA)),
        (
            "CudaPinned",
            1,
            "CPU_OUTPUT",
            ("CudaPinned", 1, "CPU_OUTPUT", "ORT_DEVICE_ALLOCATOR", "HOST_ACCESSIBLE", NVIDIA),
        ),
        ("DML", 0, "DEFAULT", ("DML", 0, "DEFAULT", "ORT_DEVICE_ALLOCATOR", "DEFAULT", MICROSOFT)),
    ],
)
def test_memory_info_has_what_follows_from_its_name(ort, name, device_id, use, expected) -> None:
    allocator = ort.OrtAllocatorType.ORT_DEVICE_ALLOCATOR
    assert described(ort.OrtMemoryInfo(name, allocator, device_id, getattr(ort.OrtMemType, use))) == expected


def test_memory_info_of_any_device(ort) -> None:
    kinds, memories = ort.OrtMemoryInfoDeviceType, ort.OrtDeviceMemoryType
    allocator = ort.OrtAllocatorType.ORT_DEVICE_ALLOCATOR
    info = ort.OrtMemoryInfo.create_v2("Mine", kinds.GPU, NVIDIA, 1, memories.DEFAULT, 16, allocator)
    assert described(info) == ("Mine", 1, "DEFAULT", "ORT_DEVICE_ALLOCATOR", "DEFAULT", NVIDIA)
    info = ort.OrtMemoryInfo.create_v2("Mine", kinds.NPU, 0, 0, memories.HOST_ACCESSIBLE, 0, allocator)
    assert described(info) == ("Mine", 0, "CPU_OUTPUT", "ORT_DEVICE_ALLOCATOR", "HOST_ACCESSIBLE", 0)


def test_memory_info_refuses_wrong_arguments(ort, refused) -> None:
    allocator, use = ort.OrtAllocatorType.ORT_DEVICE_ALLOCATOR, ort.OrtMemType.DEFAULT
    with refused(RuntimeError, "no such allocator"):
        ort.OrtMemoryInfo("no such allocator", allocator, 0, use)
    for arguments in [("Cpu", 1, 0, use), ("Cpu", allocator, "0", use), ("Cpu", allocator, 0)]:
        with pytest.raises(TypeError):
            ort.OrtMemoryInfo(*arguments)
    with pytest.raises(AttributeError):
        ort.OrtMemoryInfo("Cpu", allocator, 0, use).name = "Cuda"


def test_ep_devices_offer_the_cpu(ort, state) -> None:
    device, again = (
        next(each for each in ort.get_ep_devices() if each.ep_name == "CPUExecutionProvider") for _ in range(2)
    )
    assert again is device
    assert again.device is device.device
    assert device.ep_vendor == "Microsoft"
    assert device.ep_metadata["version"]
    assert device.ep_options == {}
    assert device.device.type == ort.OrtHardwareDeviceType.CPU
    assert (device.device.vendor_id, device.device.vendor) in {
        (each.vendor_id, each.vendor) for each in state.get_hardware_devices()
    }
    assert isinstance(device.device.device_id, int)
    assert isinstance(device.device.metadata, dict)
    assert device.memory_info(ort.OrtDeviceMemoryType.DEFAULT) is None
    assert device.memory_info(ort.OrtDeviceMemoryType.HOST_ACCESSIBLE) is None
    with pytest.raises(RuntimeError):
        device.create_sync_stream()
    with pytest.raises(TypeError):
        device.memory_info(0)


def test_devices_are_neither_made_nor_pickled(ort, state) -> None:
    for name in ("OrtEpDevice", "OrtHardwareDevice", "OrtSyncStream", "OrtValue", "SparseTensor"):
        with pytest.raises(TypeError):
            getattr(state, name)()
    device = state.OrtDevice(0, 0, 0)
    assert copy.copy(ort.OrtDevice.make("cpu", 0)).device_id() == 0
    for work in (copy.deepcopy, pickle.dumps):
        with pytest.raises(TypeError, match="cannot pickle"):
            work(device)


def test_incompatibility_of_a_device_with_a_provider(state) -> None:
    device = state.get_hardware_devices()[0]
    details = state.get_hardware_device_ep_incompatibility_details("CPUExecutionProvider", device)
    assert details == {"reasons_bitmask": 0, "notes": None, "error_code": 0}
    with pytest.raises(state.InvalidArgument, match="No valid factory found for execution provider 'Nope'"):
        state.get_hardware_device_ep_incompatibility_details("Nope", device)
    with pytest.raises(TypeError):
        state.get_hardware_device_ep_incompatibility_details("Nope", 3)


def test_compatibility_of_a_model(ort, state, tmp_path, refused) -> None:
    devices = [each for each in ort.get_ep_devices() if each.ep_name == "CPUExecutionProvider"]
    verdict = state.get_model_compatibility_for_ep_devices(devices, "made elsewhere")
    assert verdict == state.OrtCompiledModelCompatibility.EP_NOT_APPLICABLE
    with refused(RuntimeError, "no device"):
        state.get_model_compatibility_for_ep_devices([], "made elsewhere")
    model = models.add()
    path = tmp_path / "model.onnx"
    path.write_bytes(model)
    assert state.get_compatibility_info_from_model(str(path), "CPUExecutionProvider") is None
    for data in (model, bytearray(model), memoryview(model)):
        assert state.get_compatibility_info_from_model_bytes(data, "CPUExecutionProvider") is None
    with refused(RuntimeError, "none.onnx"):
        state.get_compatibility_info_from_model(str(tmp_path / "none.onnx"), "CPUExecutionProvider")
    for data, provider in [(b"", "CPUExecutionProvider"), (model, "")]:
        with refused(RuntimeError, "get_compatibility_info_from_model_bytes"):
            state.get_compatibility_info_from_model_bytes(data, provider)
    with pytest.raises(RuntimeError, match="Protobuf parsing failed"):
        state.get_compatibility_info_from_model_bytes(b"no model", "CPUExecutionProvider")


def test_missing_provider_library_raises_fail(ort, state, tmp_path, refused) -> None:
    with refused(state.Fail, "none.so"):
        ort.register_execution_provider_library("mine", str(tmp_path / "none.so"))
    with refused(state.Fail, "mine"):
        ort.unregister_execution_provider_library("mine")
    with pytest.raises(TypeError):
        ort.register_execution_provider_library("mine", 3)


@ours
def test_relative_path_of_a_provider_library_begins_beside_onnxruntime(ort, tmp_path, monkeypatch) -> None:
    # So deep that the steps up from the library do not lead to the root from here.
    deep = tmp_path.joinpath(*["deep"] * 20)
    deep.mkdir(parents=True)
    monkeypatch.chdir(deep)
    # A library inside zrt has no folder: then the path begins here.
    path = os.path.relpath(plugin.path(), os.path.dirname(library().path or ""))
    ort.register_execution_provider_library("beside", path)
    ort.unregister_execution_provider_library("beside")


@pytest.fixture
def offered(ort):
    """A device with memory of its own, of the provider library that tests compile."""
    ort.register_execution_provider_library("test_devices", str(plugin.path()))
    own, _ = plugin.devices("test_devices")
    yield next(each for each in ort.get_ep_devices() if each._to_zrt() == own)
    current().unregister_provider_library("test_devices")


@ours
def test_device_of_a_library_has_memory_and_streams(ort, offered) -> None:
    memory = offered.memory_info(ort.OrtDeviceMemoryType.DEFAULT)
    assert memory.name == offered._to_zrt().memory.name
    stream = offered.create_sync_stream()
    assert isinstance(stream.get_handle(), int)


@ours
def test_value_lies_on_the_device_of_a_library(ort, offered) -> None:
    place = offered._to_zrt().memory._resolved()
    arguments = ("npu" if place.device_type == 3 else "gpu", place.device_id, place.vendor_id)
    array = np.arange(4, dtype=np.float32)
    value = ort.OrtValue.ortvalue_from_numpy(array, *arguments)
    assert value.device_name() == place.name.lower()
    assert value.numpy().tolist() == [0, 1, 2, 3]
    array[:] = 9
    assert value.numpy().tolist() == [0, 1, 2, 3]
    value.update_inplace(array)
    assert value.numpy().tolist() == [9, 9, 9, 9]
    empty = ort.OrtValue.ortvalue_from_shape_and_type([4], np.float32, *arguments)
    ort.copy_tensors([value], [empty], offered.create_sync_stream())
    assert empty.numpy().tolist() == [9, 9, 9, 9]
    del value, empty


def negation_on(offered, ort, state) -> tuple:
    """A session that negates on a device, and the device's memory in the words of zrt and of the package."""
    options = ort.SessionOptions()
    options.add_provider_for_devices([offered], {})
    session = ort.InferenceSession(models.parse("(float[n] x) => (float[n] y) { y = Neg(x) }"), options)
    place = offered._to_zrt().memory._resolved()
    device = state.OrtDevice(int(place.device_type), int(place.device_mem_type), place.vendor_id, place.device_id)
    return session, place, device


@ours
def test_binding_on_the_device_of_a_library(ort, state, offered) -> None:
    session, place, device = negation_on(offered, ort, state)
    binding = session.io_binding()
    x = np.arange(4, dtype=np.float32)
    binding._iobinding.bind_output("y", device)
    for number in range(4):
        x[:] = number
        value = ort.OrtValue(state.OrtValue.ortvalue_from_numpy(x, device))
        binding.bind_ortvalue_input("x", value)
        session.run_with_iobinding(binding)
        binding.synchronize_outputs()
        assert binding.copy_outputs_to_cpu()[0].tolist() == [-number] * 4
        (output,) = binding.get_outputs()
        assert output.device_name() == place.name.lower()
        assert output.numpy().tolist() == [-number] * 4
        binding.bind_cpu_input("x", x)
        session.run_with_iobinding(binding)
        assert binding.copy_outputs_to_cpu()[0].tolist() == [-number] * 4
    target = ort.OrtValue(state.OrtValue.ortvalue_from_shape_and_type([4], np.float32, device))
    binding.bind_ortvalue_output("y", target)
    session.run_with_iobinding(binding)
    assert target.numpy().tolist() == [-3] * 4
    del session, binding, value, output, target


@ours
def test_memory_at_addresses_of_a_device(ort, state, offered) -> None:
    """Its data are read on the device, whatever lay there before: the host's memory takes turns with it."""
    session, place, device = negation_on(offered, ort, state)
    x, y = (state.OrtValue.ortvalue_from_shape_and_type([4], np.float32, device) for _ in range(2))
    host = np.empty(4, np.float32)
    binding = session.io_binding()
    for number in range(1, 4):
        x.update_inplace(np.full(4, number, np.float32))
        binding.bind_input("x", device, 0, np.float32, [4], x.data_ptr())
        binding.bind_output("y", device, 0, np.float32, [4], y.data_ptr())
        session.run_with_iobinding(binding)
        assert y.numpy().tolist() == [-number] * 4
        (output,) = binding.get_outputs()
        assert (output.device_name(), output.data_ptr()) == (place.name.lower(), y.data_ptr())
        assert binding.copy_outputs_to_cpu()[0].tolist() == [-number] * 4
        binding.bind_output("y", "cpu", 0, np.float32, [4], host.ctypes.data)
        session.run_with_iobinding(binding)
        assert host.tolist() == [-number] * 4
        (output,) = binding.get_outputs()
        assert (output.device_name(), output.data_ptr()) == ("cpu", host.ctypes.data)
        assert output.numpy().tolist() == [-number] * 4
    # The address of an output of this binding, which the next run must not write over.
    binding.bind_output("y", device)
    outputs = []
    for _ in range(3):
        session.run_with_iobinding(binding)
        outputs += binding.get_outputs()
        binding.bind_input("x", device, 0, np.float32, (4,), outputs[-1].data_ptr())
    assert [output.numpy()[0] for output in outputs] == [-3, 3, -3]
    del session, binding, x, y, output, outputs


@ours
def test_output_stays_where_it_is_while_memory_of_the_cpu_is_bound(state, session) -> None:
    x = np.arange(4, dtype=np.float32)
    device = state.OrtDevice(state.OrtDevice.cpu(), state.OrtDevice.default_memory(), 0)
    binding = bound(session)
    outputs = []
    for _ in range(3):
        binding.bind_input("x", device, 0, np.float32, [4], x.ctypes.data)
        session.run_with_iobinding(binding)
        outputs += binding.get_outputs()
    assert len({output.data_ptr() for output in outputs}) == 1
