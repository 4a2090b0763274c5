from __future__ import annotations

import shutil

import numpy as np
import pytest

import zrt
from tests.support import plugin as source
from zrt.errors import (
    ArgumentError,
    BusyError,
    ClosedError,
    DTypeError,
    ProviderError,
    ProviderNotFoundError,
    UnknownNameError,
)

PROLOGUE = (
    "import numpy as np, onnx, zrt; environment = zrt.Environment(); model = onnx.parser.parse_model("
    """'<ir_version: 10, opset_import: ["" : 21]> t (float[n] x) => (float[n] y) { y = Neg(x) }')"""
)


def test_a_library_comes_and_goes(environment):
    before = zrt.ep_devices()
    environment.register_provider_library("mine", source.path())
    assert environment.provider_libraries == {"mine": str(source.path())}
    assert [device.library for device in zrt.ep_devices()] == [*(device.library for device in before), "mine", "mine"]
    environment.unregister_provider_library("mine")
    assert environment.provider_libraries == {}
    assert zrt.ep_devices() == before


def test_a_name_is_free_again(environment):
    for _ in range(3):
        environment.register_provider_library("mine", source.path())
        own, _ = source.devices("mine")
        environment.unregister_provider_library("mine")
        with pytest.raises(ClosedError, match="'mine' was unregistered"):
            own._open()


def test_one_file_under_two_names(environment, tmp_path):
    environment.register_provider_library("one", source.path())
    environment.register_provider_library("two", shutil.copy(source.path(), tmp_path / "other.so"))
    assert source.devices("one") != source.devices("two")
    environment.unregister_provider_library("one")
    assert source.devices("two")[0].provider == source.PROVIDER


def test_a_relative_path_is_relative_to_where_we_are(environment, monkeypatch):
    monkeypatch.chdir(source.path().parent)
    environment.register_provider_library("mine", source.path().name)
    assert environment.provider_libraries == {"mine": str(source.path())}


class TestRefused:
    def test_a_missing_file(self, environment, tmp_path):
        with pytest.raises(ProviderNotFoundError, match=r"'mine': .*none\.so': there is no such file") as caught:
            environment.register_provider_library("mine", tmp_path / "none.so")
        assert isinstance(caught.value, FileNotFoundError)

    def test_a_folder(self, environment, tmp_path):
        with pytest.raises(ProviderError, match="is not a file"):
            environment.register_provider_library("mine", tmp_path)

    def test_what_is_no_library(self, environment, tmp_path):
        file = tmp_path / "text.so"
        file.write_text("no library" * 99)
        with pytest.raises(ProviderError, match=r"'mine': .*text\.so.*"):
            environment.register_provider_library("mine", file)

    def test_a_library_without_a_provider(self, environment, tmp_path):
        file = source.compile_to(tmp_path / "empty.so", "-DCreateEpFactories=other")
        with pytest.raises(ProviderError, match="CreateEpFactories"):
            environment.register_provider_library("mine", file)

    def test_a_library_that_refuses(self, environment):
        with pytest.raises(ProviderError, match="was told to refuse"):
            environment.register_provider_library("refused", source.path())

    def test_a_name_that_is_taken(self, environment):
        environment.register_provider_library("mine", source.path())
        with pytest.raises(ArgumentError, match="'mine' is registered already, from"):
            environment.register_provider_library("mine", source.path())

    def test_the_name_of_one_of_onnx_runtime_s_own(self, environment):
        with pytest.raises(ProviderError):
            environment.register_provider_library("CPUExecutionProvider", source.path())
        with pytest.raises(UnknownNameError, match="'CPUExecutionProvider'"):
            environment.unregister_provider_library("CPUExecutionProvider")

    def test_names_that_are_none(self, environment):
        with pytest.raises(ArgumentError, match="empty"):
            environment.register_provider_library("", source.path())
        with pytest.raises(DTypeError):
            environment.register_provider_library(5, source.path())
        with pytest.raises(DTypeError):
            environment.register_provider_library("mine", 5)
        with pytest.raises(UnknownNameError, match="no provider library is registered as 'mine'; there are none"):
            environment.unregister_provider_library("mine")

    def test_none_of_these_leaves_anything_behind(self, environment):
        assert [device.provider for device in zrt.ep_devices()] == ["CPUExecutionProvider"]


class TestInUse:
    """ONNX Runtime itself would unload the code of a library under its users."""

    @pytest.fixture
    def session(self, environment, build):
        environment.register_provider_library("mine", source.path())
        model = build("(float[n] x) => (float[n] y) { y = Neg(x) }")
        return zrt.Session(model, providers=[source.devices("mine")[0]])

    def refused(self, environment):
        with pytest.raises(BusyError, match="'mine' is in use"):
            environment.unregister_provider_library("mine")

    def test_by_a_session(self, environment, session):
        self.refused(environment)
        assert session.run({"x": np.ones(2, np.float32)})[0].tolist() == [-1, -1]
        session.close()
        environment.unregister_provider_library("mine")

    def test_by_a_lane_of_a_closed_session(self, environment, session):
        lane = session.lane({"x": (2,)})
        session.close()
        self.refused(environment)
        lane.run()
        lane.close()
        del lane
        environment.unregister_provider_library("mine")

    def test_by_a_value_on_the_device(self, environment, session):
        own, _ = source.devices("mine")
        value = zrt.Value.allocate((2,), np.float32, session.allocator(own.memory))
        session.close()
        self.refused(environment)
        value.close()
        environment.unregister_provider_library("mine")

    def test_by_what_a_run_left_on_the_device(self, environment, session, build):
        """Its memory is the session's provider's to free, so the session stays as well."""
        own, _ = source.devices("mine")
        model = build("(float[n] x) => (float[k] y) { i = NonZero(x) z = Gather(x, i) a = Squeeze(z) y = Neg(a) }")
        session.close()
        session = zrt.Session(model, zrt.SessionOptions(log_severity_level="FATAL"), [own])
        [result] = session.run({"x": np.array([0, 2, 3], np.float32)})
        assert result.tolist() == [-2, -3]
        binding = session.binding()
        binding.bind_input("x", np.ones(2, np.float32))
        binding.bind_output("y", own.memory)
        binding.run()
        lane = session.lane({"x": (3,)}, outputs=zrt.LaneMemory.left(own.memory))
        lane.inputs["x"][...] = 1
        lane.run()
        left = [binding.outputs()["y"], lane.outputs["y"]]
        for thing in (session, binding, lane):
            thing.close()
        del session, binding, lane, thing
        while left:
            assert left[-1].memory == own.memory
            self.refused(environment)
            back = np.empty(left[-1].shape, np.float32)
            zrt.copy(left.pop(), back)
            assert (back < 0).all()
        environment.unregister_provider_library("mine")

    def test_by_a_stream(self, environment, session):
        session.close()
        stream = zrt.SyncStream(source.devices("mine")[0])
        self.refused(environment)
        options = zrt.RunOptions(sync_stream=stream)
        stream.close()
        self.refused(environment)
        options.close()
        environment.unregister_provider_library("mine")

    def test_by_a_session_that_was_loaded_by_policy(self, environment, session, build):
        session.close()
        chosen = zrt.Session(build("(float[n] x) => (float[n] y) { y = Neg(x) }"), providers=zrt.DevicePolicy.DEFAULT)
        self.refused(environment)
        chosen.close()
        environment.unregister_provider_library("mine")

    def test_not_by_devices_alone(self, environment, session):
        session.close()
        own, npu = source.devices("mine")
        environment.unregister_provider_library("mine")
        for device in (own, npu):
            with pytest.raises(ClosedError, match="'mine' was unregistered, and its devices went with it"):
                zrt.Session(b"any", providers=[device])
        with pytest.raises(ClosedError, match="'mine'"):
            own.memory.handle()
        with pytest.raises(ClosedError, match="'mine'"):
            npu.hardware.incompatibility(source.PROVIDER)
        with pytest.raises(ClosedError, match="'mine'"):
            zrt.SyncStream(own)
        assert own.metadata["flavour"] == "test"


def test_several_threads_register_list_and_unregister(environment, background):
    path = source.path()

    def churn(name):
        for _ in range(20):
            environment.register_provider_library(name, path)
            assert len(source.devices(name)) == 2
            environment.unregister_provider_library(name)

    jobs = [background(lambda name=name: churn(name)) for name in ("one", "two", "three")]
    while any(job.running for job in jobs):
        assert all(device.vendor for device in zrt.ep_devices())
    assert [job.result() for job in jobs] == [None] * 3
    assert len(zrt.ep_devices()) == 1


def test_unreachable_sessions_are_collected_first(python):
    script = f"""
        {PROLOGUE}
        import gc
        gc.disable()
        environment.register_provider_library("mine", {str(source.path())!r})
        cycle = [zrt.Session(model, providers=[zrt.ep_devices()[-1]])]
        cycle.append(cycle)
        del cycle
        environment.unregister_provider_library("mine")
        print(environment.provider_libraries)
    """
    assert python(script).stdout == "{}\n"


def test_the_process_ends_well_with_everything_in_use(python):
    script = f"""
        {PROLOGUE}
        environment.register_provider_library("mine", {str(source.path())!r})
        device = next(each for each in zrt.ep_devices() if each.memory and not each.memory.is_host)
        session = zrt.Session(model, providers=[device])
        lane = session.lane({{"x": (3,)}}, outputs=zrt.LaneMemory.allocated(device.memory))
        stream = zrt.SyncStream(device)
        options = zrt.RunOptions(sync_stream=stream)
        lane.run_with(options)
        print("done")
    """
    assert python(script).stdout == "done\n"


def test_a_registration_that_fails_half_way_spoils_selection_and_nothing_else(python):
    """ONNX Runtime leaves devices in its list that are gone: whatever walks that list would read freed memory."""
    script = f"""
        {PROLOGUE}
        def refused(do):
            try:
                do()
            except zrt.Error as error:
                print(type(error).__name__, "told to have no memory" in str(error), "'spoiled'" in str(error))
        refused(lambda: environment.register_provider_library("spoiled", {str(source.path())!r}))
        print([device.provider for device in zrt.ep_devices()], environment.provider_libraries)
        refused(lambda: zrt.Session(model, providers=zrt.DevicePolicy.PREFER_CPU))
        placement = zrt.Session(model).placement()
        print(placement.inputs[0].device, placement.inputs[0].provider)
        environment.register_provider_library("mine", {str(source.path())!r})
        mine = (device for device in zrt.ep_devices() if device.library == "mine")
        own, npu = sorted(mine, key=lambda device: device.hardware.type is zrt.HardwareType.NPU)
        session = zrt.Session(model, providers=[own])
        options = zrt.RunOptions(sync_stream=zrt.SyncStream(own))
        refused(lambda: session.run([np.ones(1, "f")], options=options))
        print(session.providers)
        del session, options
        environment.unregister_provider_library("mine")
        print([device.provider for device in zrt.ep_devices()])
    """
    assert python(script).stdout.splitlines() == [
        "ProviderError True True",
        "['CPUExecutionProvider'] {}",
        "UnsupportedError False True",
        "None CPUExecutionProvider",
        "UnsupportedError False True",
        "('ZrtTestProvider', 'CPUExecutionProvider')",
        "['CPUExecutionProvider']",
    ]
