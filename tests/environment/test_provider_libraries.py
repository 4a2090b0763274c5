"""Provider libraries: how they are registered and unregistered, and what keeps them in use."""

import shutil

import numpy as np
import pytest

import zrt
from tests.support import models
from tests.support import plugin as source
from tests.support.arrays import on_host
from tests.support.bindings import bind
from tests.support.compiler import cut_library
from tests.support.lanes import run_on
from zrt.errors import BusyError, ClosedError, ProviderError, ProviderNotFoundError, UnknownNameError

NEGATE = "(float[n] x) => (float[n] y) { y = Neg(x) }"


def test_library_is_registered_and_unregistered(environment):
    before = zrt.ep_devices()
    environment.register_provider_library("mine", source.path())
    assert environment.provider_libraries == {"mine": str(source.path())}
    assert [device.library for device in zrt.ep_devices()] == [*(device.library for device in before), "mine", "mine"]
    environment.unregister_provider_library("mine")
    assert environment.provider_libraries == {}
    assert zrt.ep_devices() == before


def test_name_of_its_provider_is_no_provider_of_the_core(environment):
    environment.register_provider_library("mine", source.path())
    with pytest.raises(ProviderError, match=r"not in this library.* A registered provider library has it: .*devices"):
        zrt.Session(models.add(), providers=[source.PROVIDER])
    with pytest.raises(ProviderError) as error:
        zrt.Session(models.add(), providers=["nonesuch"])
    assert "registered" not in str(error.value)


def test_name_can_be_registered_again(environment):
    for _ in range(3):
        environment.register_provider_library("mine", source.path())
        own, _ = source.devices("mine")
        environment.unregister_provider_library("mine")
        with pytest.raises(ClosedError, match="'mine' was unregistered"):
            own._open()


def test_name_may_be_an_odd_str(environment):
    class Odd(str):
        __slots__ = ()
        __hash__ = None

        def __eq__(self, other):
            return False

    environment.register_provider_library(Odd("mine"), source.path())
    assert list(environment.provider_libraries) == ["mine"]
    environment.unregister_provider_library(Odd("mine"))


def test_one_library_under_two_names(environment, tmp_path):
    environment.register_provider_library("one", source.path())
    environment.register_provider_library("two", shutil.copy(source.path(), tmp_path / "other.so"))
    assert source.devices("one") != source.devices("two")
    environment.unregister_provider_library("one")
    assert source.devices("two")[0].provider == source.PROVIDER


def test_relative_path_starts_at_the_working_directory(environment, monkeypatch):
    monkeypatch.chdir(source.path().parent)
    environment.register_provider_library("mine", source.path().name)
    assert environment.provider_libraries == {"mine": str(source.path())}


class TestRefused:
    def test_cut_library(self, environment, tmp_path):
        """The system's loader would end the process by SIGBUS."""
        with pytest.raises(ProviderError, match=r"'mine': .*cut\.so': it is cut off"):
            environment.register_provider_library("mine", cut_library(tmp_path / "cut.so"))

    def test_relative_path_in_a_folder_that_is_gone(self, environment, tmp_path, monkeypatch):
        monkeypatch.chdir(tmp_path)
        tmp_path.rmdir()
        with pytest.raises(ProviderNotFoundError, match=r"'mine': 'none\.so': there is no such file"):
            environment.register_provider_library("mine", "none.so")

    def test_failed_registrations_leave_no_device(self, environment, tmp_path):
        file = source.compile_to(tmp_path / "empty.so", "-DCreateEpFactories=other")
        for name, path, words in (("mine", file, "CreateEpFactories"), ("refused", source.path(), "told to refuse")):
            with pytest.raises(ProviderError, match=words):
                environment.register_provider_library(name, path)
        assert [device.provider for device in zrt.ep_devices()] == ["CPUExecutionProvider"]

    def test_name_of_a_built_in_provider(self, environment):
        with pytest.raises(ProviderError):
            environment.register_provider_library("CPUExecutionProvider", source.path())
        with pytest.raises(UnknownNameError, match="'CPUExecutionProvider'"):
            environment.unregister_provider_library("CPUExecutionProvider")


class TestInUse:
    """ONNX Runtime would unload the code of a library that objects still use."""

    @pytest.fixture
    def session(self, environment, build):
        environment.register_provider_library("mine", source.path())
        return zrt.Session(build(NEGATE), providers=[source.devices("mine")[0]])

    def refused(self, environment):
        with pytest.raises(BusyError, match="'mine' is in use"):
            environment.unregister_provider_library("mine")

    def test_session_keeps_it(self, environment, session):
        self.refused(environment)
        assert session.run({"x": np.ones(2, np.float32)})[0].tolist() == [-1, -1]
        session.close()
        environment.unregister_provider_library("mine")

    @pytest.mark.usefixtures("collector_off")
    def test_unreachable_session_is_collected(self, environment, session, build):
        session.close()
        cycle = [zrt.Session(build(NEGATE), providers=[source.devices("mine")[0]])]
        cycle.append(cycle)
        del cycle
        environment.unregister_provider_library("mine")

    def test_lane_of_a_closed_session_keeps_it(self, environment, session):
        lane = session.lane({"x": (2,)})
        session.close()
        self.refused(environment)
        lane.run()
        lane.close()
        del lane
        environment.unregister_provider_library("mine")

    def test_value_on_the_device_keeps_it(self, environment, session):
        own, _ = source.devices("mine")
        value = zrt.Value.allocate((2,), np.float32, session.allocator(own.memory))
        session.close()
        self.refused(environment)
        value.close()
        environment.unregister_provider_library("mine")

    def test_outputs_on_the_device_keep_it(self, environment, session, build):
        """The session's provider frees the outputs' memory, so they keep the session alive as well."""
        own, _ = source.devices("mine")
        model = build("(float[n] x) => (float[k] y) { i = NonZero(x) z = Gather(x, i) a = Squeeze(z) y = Neg(a) }")
        session.close()
        session = zrt.Session(model, zrt.SessionOptions(log_severity_level="FATAL"), [own])
        [result] = session.run({"x": np.array([0, 2, 3], np.float32)})
        assert result.tolist() == [-2, -3]
        binding = bind(session, {"x": np.ones(2, np.float32)}, y=own.memory)
        binding.run()
        lane = session.lane({"x": (3,)}, outputs=zrt.LaneMemory.left(own.memory))
        left = [binding.outputs()["y"], run_on(lane, x=1)["y"]]
        for thing in (session, binding, lane):
            thing.close()
        del session, binding, lane, thing
        while left:
            assert left[-1].memory == own.memory
            self.refused(environment)
            assert max(on_host(left.pop())) < 0
        environment.unregister_provider_library("mine")

    def test_stream_and_run_options_keep_it(self, environment, session):
        session.close()
        stream = zrt.SyncStream(source.devices("mine")[0])
        self.refused(environment)
        options = zrt.RunOptions(sync_stream=stream)
        stream.close()
        self.refused(environment)
        options.close()
        environment.unregister_provider_library("mine")

    def test_session_loaded_by_policy_keeps_it(self, environment, session, build):
        session.close()
        other = zrt.Session(build(NEGATE), providers=zrt.DevicePolicy.DEFAULT)
        self.refused(environment)
        other.close()
        environment.unregister_provider_library("mine")

    def test_devices_alone_do_not_keep_it(self, environment, session):
        session.close()
        own, npu = source.devices("mine")
        environment.unregister_provider_library("mine")
        for device in (own, npu):
            with pytest.raises(ClosedError, match="'mine' was unregistered, and its devices went with it"):
                zrt.Session(b"any", providers=[device])
        with pytest.raises(ClosedError, match="'mine'"):
            npu.hardware.incompatibility(source.PROVIDER)
        assert own.metadata["flavour"] == "test"


def test_threads_register_list_and_unregister(environment, background):
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


@pytest.mark.parametrize(
    "step",
    [
        "exit_with_a_session_and_a_stream",
        # Up to 1.30 ONNX Runtime keeps devices in its list that are gone: to walk that list would read freed memory.
        "failed_registration",
    ],
)
def test_step_of_a_process(script, step):
    script("provider_library.py", step, source.path())


def test_interrupted_registration_is_taken_back(script, tmp_path):
    interrupt = tmp_path / "interrupt.c"
    interrupt.write_text("#include <signal.h>\n__attribute__((constructor)) static void now(void) { raise(SIGINT); }\n")
    script("provider_library.py", "interrupted_registration", source.compile_to(tmp_path / "mine.so", str(interrupt)))


def test_fork_inside_a_load_leaves_both_processes_free(python):
    python("""
        import os
        import threading
        from zrt.environment import provider_libraries

        entered, leave = threading.Event(), threading.Event()

        def load():
            with provider_libraries.selecting():
                entered.set()
                leave.wait()

        other = threading.Thread(target=load)
        other.start()
        entered.wait()
        with provider_libraries.selecting():
            child = os.fork()
        # The other thread's load is none of the child's.
        assert bool(provider_libraries._selecting) == bool(child)
        if child == 0:
            os._exit(0)
        leave.set()
        other.join()
        assert not provider_libraries._selecting
        assert os.waitpid(child, 0)[1] == 0
    """)
