"""The environment's allocators for devices' memory, with the tests' own provider library."""

from __future__ import annotations

import contextlib
import gc
import shutil

import numpy as np
import pytest

import zrt
from tests.support import plugin as source
from zrt.errors import ArgumentError, BusyError, ClosedError, DTypeError, InvalidArgumentError, UnsupportedError

NEGATE = "(float[n] x) => (float[n] y) { y = Neg(x) }"


@pytest.fixture
def own(environment):
    """A device with memory of its own."""
    environment.register_provider_library("mine", source.path())
    return source.devices("mine")[0]


SHARING = zrt.SessionOptions(use_env_allocators=True, intra_op_num_threads=1, log_severity_level="FATAL")


def session(build, providers=None):
    return zrt.Session(build(NEGATE), SHARING, providers)


def built(_build):
    graph = zrt.Graph()
    graph.output(graph.op("Neg", graph.input("x", "float32", ("n",)), outputs="y"), "float32", ("n",))
    assert graph.engine.name == "editor"
    return graph.session(SHARING)


def edited(build):
    with zrt.edit(build(NEGATE), SHARING) as edit:
        edit.output(edit.op("Abs", edit.value("x"), outputs="z"), "float32", ("n",))
        assert edit.engine.name == "editor"
        return edit.finalize()


def roundtrip(allocator):
    """Through the memory of an allocator and back."""
    value = zrt.Value.allocate((3,), np.float32, allocator)
    assert value.memory == allocator.memory
    back = np.empty(3, np.float32)
    zrt.copy(np.array([1, 2, 3], np.float32), value)
    zrt.copy(value, back)
    return back.tolist()


class TestFound:
    def test_a_library_brings_one_for_each_memory(self, environment, own):
        there = environment.shared_allocator(own.memory)
        assert there.memory == own.memory
        assert environment.shared_allocator(own.host_memory).memory == own.host_memory
        assert roundtrip(there) == [1, 2, 3]

    def test_by_any_memory_of_that_place(self, environment, own):
        same = zrt.MemoryInfo.of("other name", "GPU", 0, vendor_id=0x5A52)
        assert environment.shared_allocator(same).memory == own.memory

    def test_the_host_has_a_plain_one_which_is_in_nobody_s_way(self, environment, own):
        plain = environment.shared_allocator(zrt.MemoryInfo.cpu())
        plain.allocate(8).numpy()[:] = 1
        environment.register_allocator()
        environment.unregister_allocator()
        environment.unregister_provider_library("mine")

    def test_there_is_none_for_other_memory(self, environment):
        assert environment.shared_allocator(zrt.MemoryInfo.of("mine", "NPU", 7)) is None
        assert environment.shared_allocator(zrt.MemoryInfo.cuda(9)) is None

    def test_counters_where_it_keeps_some(self, environment, own):
        counting = environment.shared_allocator(own.memory)
        before = counting.stats()
        held = counting.allocate(16)
        assert (counting.stats() - before).num_allocs == 1
        silent = environment.shared_allocator(own.host_memory)
        held = silent.allocate(16)
        assert held.nbytes == 16
        assert silent.stats() == zrt.AllocatorStats()


class TestMade:
    def test_another_takes_its_place(self, environment, own):
        environment.shared_allocator(own.memory).allocate(8).close()
        assert environment.shared_allocator(own.memory).stats().num_allocs == 1
        made = environment.create_shared_allocator(own.memory, {"any": "option"})
        assert made.stats().num_allocs == 0
        assert roundtrip(made) == [1, 2, 3]
        assert environment.shared_allocator(own.memory).stats() == made.stats()

    def test_where_the_provider_refuses_there_is_none_any_more(self, environment, own):
        with pytest.raises(InvalidArgumentError, match=r"shared allocator of 'ZrtTest': .*told to refuse"):
            environment.create_shared_allocator(own.memory, {"refuse": "1"})
        assert environment.shared_allocator(own.memory) is None
        assert roundtrip(environment.create_shared_allocator(own.memory)) == [1, 2, 3]

    def test_released(self, environment, own):
        environment.release_shared_allocator(own.memory)
        assert environment.shared_allocator(own.memory) is None
        assert environment.shared_allocator(own.host_memory) is not None
        with pytest.raises(ArgumentError, match=r"'ZrtTest': No allocator"):
            environment.release_shared_allocator(own.memory)

    def test_only_by_a_device(self, environment, own):
        for call in (environment.create_shared_allocator, environment.release_shared_allocator):
            with pytest.raises(UnsupportedError, match="computes in the host's memory"):
                call(zrt.ep_devices()[0].memory)
            with pytest.raises(UnsupportedError, match="'Cpu': a device makes the allocator"):
                call(zrt.MemoryInfo.cpu())
            with pytest.raises(DTypeError, match="memory of an EpDevice, got EpDevice"):
                call(own)
        environment.unregister_provider_library("mine")
        with pytest.raises(ClosedError, match="'mine' was unregistered"):
            environment.create_shared_allocator(own.memory)


class TestInUse:
    """ONNX Runtime would free what was handed out."""

    def refused(self, environment, own):
        for call, subject in (
            (lambda: environment.create_shared_allocator(own.memory), "shared allocator of 'ZrtTest'"),
            (lambda: environment.release_shared_allocator(own.memory), "shared allocator of 'ZrtTest'"),
            (lambda: environment.unregister_allocator(own.memory), "memory 'ZrtTest'"),
            (lambda: environment.unregister_provider_library("mine"), "provider library 'mine' is in use"),
        ):
            with pytest.raises(BusyError, match=f"{subject}: an allocator of its memory, or what that allocated"):
                call()

    @pytest.mark.parametrize("last", ["allocator", "allocation", "value"])
    def test_by_the_allocator_and_what_it_allocated(self, environment, own, last):
        allocator = environment.shared_allocator(own.memory)
        things = {
            "allocator": allocator,
            "allocation": allocator.allocate(8),
            "value": zrt.Value.allocate((2,), np.float32, allocator),
        }
        del allocator
        for name in [name for name in things if name != last]:
            things.pop(name).close()
        self.refused(environment, own)
        things.pop(last).close()
        environment.create_shared_allocator(own.memory).close()
        environment.release_shared_allocator(own.memory)
        environment.unregister_provider_library("mine")

    def test_by_one_that_was_made(self, environment, own):
        with environment.create_shared_allocator(own.memory):
            self.refused(environment, own)
        environment.create_shared_allocator(own.memory)
        environment.unregister_allocator(own.memory)
        assert environment.shared_allocator(own.memory) is None

    def test_not_by_what_nobody_can_reach(self, environment, own):
        gc.disable()
        try:
            cycle = [environment.shared_allocator(own.memory).allocate(8)]
            cycle.append(cycle)
            del cycle
            environment.release_shared_allocator(own.memory)
        finally:
            gc.enable()

    def test_not_by_other_memory(self, environment, own):
        held = environment.shared_allocator(own.host_memory)
        environment.create_shared_allocator(own.memory)
        held.allocate(8).numpy()[:] = 1


class TestTwoLibraries:
    """With memory of the same place, for which there is one allocator."""

    def test_either_would_take_it_away(self, environment, own, tmp_path):
        allocator = environment.create_shared_allocator(own.memory)
        environment.register_provider_library("two", shutil.copy(source.path(), tmp_path / "two.so"))
        for name in ("mine", "two"):
            with pytest.raises(BusyError, match=f"'{name}' is in use"):
                environment.unregister_provider_library(name)
        assert roundtrip(allocator) == [1, 2, 3]
        allocator.close()

    def test_under_another_name(self, environment, own, tmp_path):
        environment.register_provider_library("two", source.compile_to(tmp_path / "two.so", '-DMEMORY="Other"'))
        other, _ = source.devices("two")
        with environment.shared_allocator(other.memory) as there:
            assert there.memory.name == "ZrtTest"
        with environment.create_shared_allocator(other.memory) as made:
            assert made.memory.name == "Other"
        with environment.shared_allocator(own.memory) as there:
            assert there.memory.name == "Other"
        environment.unregister_provider_library("two")
        assert environment.shared_allocator(own.memory) is None
        assert roundtrip(environment.create_shared_allocator(own.memory)) == [1, 2, 3]


class TestSessions:
    def test_take_memory_from_it(self, environment, own, build):
        shared = environment.create_shared_allocator(own.memory)
        sessions = [session(build, [own]) for _ in range(2)]
        for each in sessions:
            before = shared.stats()
            lane = each.lane({"x": (3,)}, outputs=zrt.LaneMemory.left(own.memory))
            lane.inputs["x"][...] = [1, 2, 3]
            lane.run()
            assert (shared.stats() - before).num_allocs > 0
            held = each.allocator(own.memory).allocate(8)
            assert each.allocator(own.memory).stats() == shared.stats()
            held.close()

    def test_keep_it_when_another_comes(self, environment, own, build):
        first = session(build, [own])
        environment.create_shared_allocator(own.memory).allocate(8).close()
        second = session(build, [own])
        assert first.allocator(own.memory).stats() != second.allocator(own.memory).stats()
        environment.release_shared_allocator(own.memory)
        for each in (first, second):
            assert each.run([np.ones(2, np.float32)])[0].tolist() == [-1, -1]

    @pytest.mark.parametrize("make", [session, built, edited])
    def test_hold_every_library(self, environment, own, build, make):
        """They take all that the environment has, whatever they run on."""
        on_the_processor = make(build)
        with pytest.raises(BusyError, match="'mine' is in use"):
            environment.unregister_provider_library("mine")
        assert on_the_processor.run([np.ones(2, np.float32)])[0].tolist() == [-1, -1]
        on_the_processor.close()
        environment.unregister_provider_library("mine")

    def test_load_while_allocators_come_and_go(self, environment, own, build, background):
        def load():
            for _ in range(30):
                assert session(build).run([np.ones(2, np.float32)])[0].tolist() == [-1, -1]

        def change(call):
            # A session is being loaded, or the other thread holds it, or was quicker.
            with contextlib.suppress(BusyError, ArgumentError):
                call()

        def churn():
            while any(job.running for job in loads):
                change(lambda: environment.create_shared_allocator(own.memory).allocate(8).close())
                change(lambda: environment.release_shared_allocator(own.memory))
                change(environment.register_allocator)
                change(environment.unregister_allocator)

        loads = [background(load) for _ in range(2)]
        churns = [background(churn) for _ in range(2)]
        assert [job.result() for job in (*loads, *churns)] == [None] * 4


def test_the_process_ends_well_with_everything_in_use(python):
    script = f"""
        import zrt
        from tests.support import plugin
        environment = zrt.Environment()
        environment.register_provider_library("mine", {str(source.path())!r})
        own, npu = plugin.devices("mine")
        allocator = environment.create_shared_allocator(own.memory)
        cycle = [allocator.allocate(8), zrt.Value.allocate((2,), "float32", allocator)]
        cycle.append(cycle)
        print("done")
    """
    assert python(script).stdout == "done\n"


def test_after_a_registration_that_failed_half_way_none_is_looked_for(python):
    """What that left in ONNX Runtime's lists is gone, and it would look there."""
    script = f"""
        import zrt
        environment = zrt.Environment()
        for call in (
            lambda: environment.register_provider_library("spoiled", {str(source.path())!r}),
            lambda: environment.shared_allocator(zrt.MemoryInfo.cpu()),
        ):
            try:
                call()
            except zrt.Error as error:
                print(type(error).__name__, "'spoiled'" in str(error))
    """
    assert python(script).stdout.splitlines() == ["ProviderError True", "UnsupportedError True"]
