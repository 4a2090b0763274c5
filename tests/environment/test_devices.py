"""`HardwareDevice` and `EpDevice`: their fields, memory on devices, and captured graphs."""

import copy
import dataclasses
import pickle

import numpy as np
import pytest

import zrt
from tests.support.arrays import on_host
from tests.support.lanes import run_on
from zrt.environment import devices
from zrt.errors import ArgumentError, DTypeError, NotCopyableError

CPU = "CPUExecutionProvider"


class TestListings:
    def test_cpu_is_listed(self):
        assert zrt.HardwareType.CPU in [device.type for device in zrt.hardware_devices()]
        (device,) = (device for device in zrt.ep_devices() if device.provider == CPU)
        assert device.vendor == "Microsoft"
        assert device.hardware.type is zrt.HardwareType.CPU
        assert device.hardware in zrt.hardware_devices()
        assert device.metadata["version"] == device.metadata["version"].strip()
        assert (device.memory, device.host_memory, device.library) == (None, None, None)
        assert CPU in str(device)

    def test_fields_of_hardware_have_plain_types(self):
        for device in zrt.hardware_devices():
            assert isinstance(device.vendor, str)
            assert 0 <= device.vendor_id < 2**32
            assert 0 <= device.device_id < 2**32

    def test_fields_of_a_library_s_devices(self, plugin):
        own = plugin.own
        assert (own.provider, own.vendor, own.library) == ("ZrtTestProvider", "the tests", "tests")
        assert own.metadata["flavour"] == "test"
        assert own.metadata["version"] == "1.2.3"
        assert own.options == {"claim": "1"}
        assert own.hardware in zrt.hardware_devices()
        npu = plugin.npu.hardware
        assert (npu.type, npu.vendor, npu.vendor_id, npu.device_id) == (zrt.HardwareType.NPU, "the tests", 0x5A52, 3)
        assert npu not in zrt.hardware_devices()
        assert str(plugin.npu) == "ZrtTestProvider on NPU the tests 5a52:0003"

    def test_memories_of_a_device(self, plugin):
        own = plugin.own
        assert (own.memory.name, own.memory.device_id, own.memory.is_host) == ("ZrtTest", 0, False)
        assert (own.host_memory.name, own.host_memory.is_host) == ("ZrtTestHost", True)
        assert (plugin.npu.memory, plugin.npu.host_memory) == (None, None)

    def test_memory_equals_that_of_a_value_on_it(self, plugin, negate):
        value = zrt.Value.allocate((2,), "float32", negate().allocator(plugin.own.memory))
        assert value.memory == plugin.own.memory
        assert plugin.own.memory == value.memory
        assert hash(plugin.own.memory) == hash(value.memory)
        assert plugin.own.memory != zrt.MemoryInfo.cpu()
        assert plugin.own.memory != plugin.own.host_memory

    def test_same_device_is_equal_in_each_listing(self, plugin):
        assert zrt.hardware_devices() == zrt.hardware_devices()
        assert len(set(zrt.hardware_devices()) | set(zrt.hardware_devices())) == len(zrt.hardware_devices())
        assert plugin.own in zrt.ep_devices()
        assert plugin.own != plugin.npu
        assert {plugin.own: 1}[next(device for device in zrt.ep_devices() if device == plugin.own)] == 1

    def test_fields_are_read_only(self, plugin):
        for device in (plugin.own, plugin.own.hardware):
            with pytest.raises(dataclasses.FrozenInstanceError):
                device.vendor = "other"
        for pairs in (plugin.own.metadata, plugin.own.options, plugin.own.hardware.metadata):
            with pytest.raises(TypeError):
                pairs["key"] = "value"

    @pytest.mark.parametrize("attempt", [copy.copy, copy.deepcopy, pickle.dumps])
    def test_copies_of_devices_are_refused(self, attempt):
        for device in (*zrt.ep_devices(), *zrt.hardware_devices()):
            words = f"^each {type(device).__name__} stands for one thing in ONNX Runtime"
            with pytest.raises(NotCopyableError, match=words):
                attempt(device)

    def test_devices_of_a_library_have_no_pickle(self, plugin):
        for device in (plugin.own, plugin.npu.hardware):
            with pytest.raises(NotCopyableError, match=f"^each {type(device).__name__} stands for one thing"):
                pickle.dumps(device)
        with pytest.raises(NotCopyableError, match="each DevicePointer stands for one thing in ONNX Runtime"):
            pickle.dumps(plugin.own.memory)

    def test_devices_made_by_users_are_refused(self, plugin):
        """An object without a device of ONNX Runtime is refused where it is used."""
        hardware = devices.HardwareDevice(zrt.HardwareType.GPU, "v", 1, 2, {}, 0)
        device = devices.EpDevice("p", "v", {}, {}, hardware, None, None, None, "source")
        with pytest.raises(DTypeError, match="users make none"):
            zrt.Session(b"any", providers=[device])
        with pytest.raises(DTypeError, match="users make none"):
            hardware.incompatibility(CPU)
        with pytest.raises(DTypeError, match="users make none"):
            devices.DeviceMemory("ZrtTest").handle()


class TestIncompatibility:
    def test_no_reasons_against_a_device(self, plugin):
        answer = plugin.own.hardware.incompatibility("ZrtTestProvider")
        assert not answer
        assert answer == zrt.Incompatibility(zrt.IncompatibilityReason.NONE, 0, "")
        assert not plugin.own.hardware.incompatibility(CPU)

    def test_reasons_with_notes_and_a_code(self, plugin):
        answer = plugin.npu.hardware.incompatibility("ZrtTestProvider")
        reason = zrt.IncompatibilityReason
        assert answer
        assert answer.reasons == reason.DRIVER_INCOMPATIBLE | reason.MISSING_DEPENDENCY
        assert (answer.error_code, answer.notes) == (7, "the NPU is made up")


class TestMemoryOfTheDevice:
    """Values and lanes on a device, and copies to and from it."""

    @pytest.fixture
    def x(self):
        return np.array([-1, 2, 3], np.float32)

    def test_value_stays_on_the_device_until_it_is_copied(self, plugin, negate, x):
        session = negate()
        value = zrt.Value.allocate((3,), "float32", session.allocator(plugin.own.memory))
        with pytest.raises(zrt.errors.UnsupportedError, match=r"lies on ZrtTest:0; zrt\.copy brings it to the host"):
            value.numpy()
        zrt.copy(x, value)
        back, other = np.empty(3, np.float32), zrt.Value.allocate((3,), "float32", session.allocator(plugin.own.memory))
        zrt.copy_all([(value, back), (value, other)])
        again = zrt.Buffer((3,), np.float32)
        zrt.copy(other, again)
        assert back.tolist() == again.array.tolist() == x.tolist()
        assert session.run({"x": value})[0].tolist() == [1, -2, -3]

    def test_lane_with_both_ends_on_the_device_copies_nothing(self, plugin, negate, x):
        memory = zrt.LaneMemory.allocated(plugin.own.memory)
        lane = negate().lane({"x": (3,)}, inputs=memory, outputs=memory)
        assert isinstance(lane.inputs["x"], zrt.Value)
        lane.audit().require_zero_copy()
        assert (lane.rebound, lane.synchronize) == (frozenset(), True)
        for step in range(3):
            zrt.copy(x + step, lane.inputs["x"])
            lane.run()
            assert on_host(lane.outputs["y"]) == (-x - step).tolist()

    def test_lane_with_both_ends_on_the_host_sees_every_write(self, plugin, negate, x):
        lane = negate().lane({"x": (3,)})
        assert lane.rebound == {"x"}
        copies = lane.audit().copies
        assert len(copies) == 2
        assert all("ZrtTest" in sentence for sentence in copies)
        for step in range(3):
            assert run_on(lane, x=x + step)["y"].tolist() == (-x - step).tolist()

    def test_host_memory_of_the_device_has_views(self, plugin, negate, x):
        memory = zrt.LaneMemory.allocated(plugin.own.host_memory)
        lane = negate().lane({"x": (3,)}, inputs=memory, outputs=memory)
        assert run_on(lane, x=x)["y"].tolist() == [1, -2, -3]

    def test_output_that_onnx_runtime_allocates_on_the_device(self, plugin, negate, x):
        lane = negate().lane({"x": (3,)}, outputs=zrt.LaneMemory.left(plugin.own.memory))
        first = run_on(lane, x=x)["y"]
        assert first.memory == plugin.own.memory
        lane.run()
        assert on_host(first) == [1, -2, -3]

    def test_session_on_the_cpu_has_no_device_memory(self, plugin, relu):
        with pytest.raises(ArgumentError, match="no allocator for 'ZrtTest'"):
            relu.allocator(plugin.own.memory)
        with pytest.raises(ArgumentError, match="outputs: this session has no allocator for 'ZrtTest'"):
            relu.lane({"x": (3,)}, outputs=zrt.LaneMemory.allocated(plugin.own.memory))


class TestDynamicOptions:
    def test_provider_takes_or_refuses_options(self, negate):
        session = negate()
        session.set_dynamic_options({"ep.dynamic.capture": "0"})
        with pytest.raises(zrt.errors.InvalidArgumentError, match=r"knows ep\.dynamic\.capture alone"):
            session.set_dynamic_options({"ep.dynamic.other": "1"})

    def test_cpu_ignores_options(self, relu):
        relu.set_dynamic_options({"ep.dynamic.workload_type": "Efficient"})
        assert relu.run([np.ones(1, np.float32)])[0].tolist() == [1]


class TestCapturedGraphs:
    """A captured graph replays a run over the same memory."""

    @pytest.fixture
    def lane(self, plugin, negate):
        session = negate([(plugin.own, {"enable_cuda_graph": "1"})])
        memory = zrt.LaneMemory.allocated(plugin.own.memory)
        return session.lane({"x": (2,)}, inputs=memory, outputs=memory)

    def run(self, lane, numbers, options):
        zrt.copy(np.array(numbers, np.float32), lane.inputs["x"])
        lane.run_with(options)
        return on_host(lane.outputs["y"])

    def test_graph_is_captured_replayed_and_released(self, lane):
        first, second = (zrt.RunOptions(gpu_graph_id=number) for number in (1, 2))
        for numbers in ([1, 2], [3, 4]):
            assert self.run(lane, numbers, first) == [-number for number in numbers]
        assert self.run(lane, [5, 6], second) == [-5, -6]
        lane.session.release_captured_graph(1)
        with pytest.raises(zrt.errors.NotFoundError, match="captured no such graph"):
            lane.session.release_captured_graph(1)
        assert self.run(lane, [7, 8], first) == [-7, -8]
        lane.session.release_captured_graph(1)
        lane.session.release_captured_graph(2)

    def test_lanes_have_graphs_of_their_own(self, plugin, lane):
        memory = zrt.LaneMemory.allocated(plugin.own.memory)
        lanes = [lane, lane.session.lane({"x": (2,)}, inputs=memory, outputs=memory)]
        for step in range(3):
            for number, each in enumerate(lanes):
                zrt.copy(np.array([step, number], np.float32), each.inputs["x"])
                each.run()
                assert on_host(each.outputs["y"]) == [-step, -number]

    def test_arguments_that_a_replay_ignores_are_refused(self, plugin, lane):
        session, x = lane.session, np.ones(2, np.float32)
        there = zrt.LaneMemory.allocated(plugin.own.memory)
        for do, error, words in (
            (lambda: session.run([x]), zrt.errors.UnsupportedError, "run it with lanes"),
            (lambda: session.run([x], options=zrt.RunOptions()), zrt.errors.UnsupportedError, "run it with lanes"),
            (lambda: session.prepare([x]), zrt.errors.UnsupportedError, "run it with lanes"),
            (lambda: session.lane({"x": (2,)}), ArgumentError, "'x': .* LaneMemory.allocated on ZrtTest"),
            (lambda: session.lane({"x": (2,)}, inputs=there), ArgumentError, "'y': .* on ZrtTest"),
            (
                lambda: session.lane({"x": (2,)}, inputs=there, outputs=zrt.LaneMemory.left(plugin.own.memory)),
                ArgumentError,
                "'y'",
            ),
            (lambda: lane.run_with(zrt.RunOptions()), ArgumentError, "give gpu_graph_id"),
        ):
            with pytest.raises(error, match=words):
                do()
        for _ in range(2):
            assert session.run([x], options=zrt.RunOptions(gpu_graph_id=-1))[0].tolist() == [-1, -1]
            with pytest.raises(zrt.errors.UnsupportedError):
                session.run([x])

    def test_capture_enabled_by_a_config_entry(self, plugin, negate):
        session = negate(config_entries={"ep.zrttestprovider.enable_cuda_graph": "1"})
        with pytest.raises(zrt.errors.UnsupportedError, match="captures graphs"):
            session.run([np.ones(2, np.float32)])

    def test_run_without_a_graph(self, lane):
        assert self.run(lane, [1, 2], zrt.RunOptions(gpu_graph_id=-1)) == [-1, -2]
        with pytest.raises(zrt.errors.NotFoundError):
            lane.session.release_captured_graph(0)

    def test_model_with_nodes_on_the_cpu_is_refused_at_load(self, plugin, build):
        model = build("(float[n] x) => (float[n] y) { a = Relu(x) y = Neg(a) }")
        options = zrt.SessionOptions(log_severity_level="FATAL")
        with pytest.raises(zrt.errors.FailError, match="graph capture"):
            zrt.Session(model, options, [(plugin.own, {"enable_cuda_graph": "1"})])

    def test_cpu_captures_no_graph(self, relu):
        with pytest.raises(zrt.errors.UnsupportedError, match="no graph is captured on CPUExecutionProvider"):
            relu.release_captured_graph(1)
        relu.run([np.ones(1, np.float32)], options=zrt.RunOptions(gpu_graph_id=3))

    @pytest.mark.gpu
    def test_cuda_graph(self, build):
        session = zrt.Session(
            build("(float[2] x) => (float[2] y) { y = Neg(x) }"),
            providers=[zrt.providers.CUDA(enable_cuda_graph=True), "cpu"],
        )
        memory = zrt.LaneMemory.allocated(zrt.MemoryInfo.cuda())
        lane = session.lane(inputs=memory, outputs=memory)
        options = zrt.RunOptions(gpu_graph_id=1)
        for numbers in ([1, 2], [3, 4], [5, 6]):
            assert self.run(lane, numbers, options) == [-number for number in numbers]
        session.release_captured_graph(1)
        assert self.run(lane, [7, 8], options) == [-7, -8]
