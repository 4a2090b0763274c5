"""The environment's allocators for devices' memory, with the tests' own provider library (tests/support/plugin.c)."""

import contextlib
import shutil

import numpy as np
import pytest

import zrt
from tests.support import plugin as source
from tests.support.arrays import f32, on_host
from zrt import ArenaConfig
from zrt.errors import AllocationError, ArgumentError, BusyError, InvalidArgumentError, ProviderError
from zrt.providers import usable

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


def check(session):
    assert session.run([np.ones(2, np.float32)])[0].tolist() == [-1, -1]


def roundtrip(allocator):
    """Copies numbers to memory of the allocator and back."""
    value = zrt.Value.allocate((3,), np.float32, allocator)
    assert value.memory == allocator.memory
    zrt.copy(f32(1, 2, 3), value)
    return on_host(value)


class TestFind:
    def test_library_brings_one_for_each_memory(self, environment, own):
        there = environment.shared_allocator(own.memory)
        assert there.memory == own.memory
        assert environment.shared_allocator(own.host_memory).memory == own.host_memory
        assert roundtrip(there) == [1, 2, 3]

    def test_memory_info_with_another_name_finds_it(self, environment, own):
        same = zrt.MemoryInfo.of("other name", "GPU", 0, vendor_id=0x5A52)
        assert environment.shared_allocator(same).memory == own.memory

    def test_host_allocator_keeps_nothing_busy(self, environment, own):
        plain = environment.shared_allocator(zrt.MemoryInfo.cpu())
        plain.allocate(8).numpy()[:] = 1
        environment.register_allocator()
        environment.unregister_allocator()
        environment.unregister_provider_library("mine")

    def test_other_memory_has_none(self, environment):
        assert environment.shared_allocator(zrt.MemoryInfo.of("mine", "NPU", 7)) is None
        assert environment.shared_allocator(zrt.MemoryInfo.cuda(9)) is None

    def test_stats_are_zero_if_the_allocator_counts_nothing(self, environment, own):
        counting = environment.shared_allocator(own.memory)
        before = counting.stats()
        held = counting.allocate(16)
        assert (counting.stats() - before).num_allocs == 1
        silent = environment.shared_allocator(own.host_memory)
        held = silent.allocate(16)
        assert held.nbytes == 16
        assert silent.stats() == zrt.AllocatorStats()


class TestCreateAndRelease:
    def test_new_allocator_replaces_the_old_one(self, environment, own):
        environment.shared_allocator(own.memory).allocate(8).close()
        assert environment.shared_allocator(own.memory).stats().num_allocs == 1
        allocator = environment.create_shared_allocator(own.memory, {"any": "option"})
        assert allocator.stats().num_allocs == 0
        assert roundtrip(allocator) == [1, 2, 3]
        assert environment.shared_allocator(own.memory).stats() == allocator.stats()

    def test_refused_allocator_leaves_none(self, environment, own):
        with pytest.raises(InvalidArgumentError, match=r"shared allocator of 'ZrtTest': .*told to refuse"):
            environment.create_shared_allocator(own.memory, {"refuse": "1"})
        assert environment.shared_allocator(own.memory) is None
        assert roundtrip(environment.create_shared_allocator(own.memory)) == [1, 2, 3]

    def test_released_allocator_is_gone(self, environment, own):
        environment.release_shared_allocator(own.memory)
        assert environment.shared_allocator(own.memory) is None
        assert environment.shared_allocator(own.host_memory) is not None
        with pytest.raises(ArgumentError, match=r"'ZrtTest': No allocator"):
            environment.release_shared_allocator(own.memory)


class TestInUse:
    """ONNX Runtime would free an allocator that zrt handed out."""

    def refused(self, environment, own):
        for call, subject in (
            (lambda: environment.create_shared_allocator(own.memory), "shared allocator of 'ZrtTest'"),
            (lambda: environment.release_shared_allocator(own.memory), "shared allocator of 'ZrtTest'"),
            (lambda: environment.unregister_allocator(own.memory), "memory 'ZrtTest'"),
            (lambda: environment.unregister_provider_library("mine"), "provider library 'mine' is in use"),
        ):
            with pytest.raises(BusyError, match=f"{subject}: an allocator of its memory, or an allocation of that one"):
                call()

    @pytest.mark.parametrize("last", ["allocator", "allocation", "value"])
    def test_allocator_and_allocations_keep_it_busy(self, environment, own, last):
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

    def test_created_allocator_keeps_it_busy(self, environment, own):
        with environment.create_shared_allocator(own.memory):
            self.refused(environment, own)
        environment.create_shared_allocator(own.memory)
        environment.unregister_allocator(own.memory)
        assert environment.shared_allocator(own.memory) is None

    @pytest.mark.usefixtures("collector_off")
    def test_unreachable_allocation_is_collected(self, environment, own):
        cycle = [environment.shared_allocator(own.memory).allocate(8)]
        cycle.append(cycle)
        del cycle
        environment.release_shared_allocator(own.memory)

    def test_other_memory_is_not_busy(self, environment, own):
        held = environment.shared_allocator(own.host_memory)
        environment.create_shared_allocator(own.memory)
        held.allocate(8).numpy()[:] = 1


class TestRegistered:
    """Allocators of the host, and of CUDA, that `Environment.register_allocator` makes."""

    @pytest.fixture
    def environment(self, environment):
        yield environment
        with contextlib.suppress(ArgumentError):
            environment.unregister_allocator()

    def test_sessions_share_it(self, environment, build):
        environment.register_allocator(arena=ArenaConfig(max_mem=1 << 26, arena_extend_strategy="same_as_requested"))
        shared, own = [session(build) for _ in range(2)], zrt.Session(build(NEGATE))
        first, second = [each.allocator() for each in shared]
        assert first.stats().bytes_limit == 1 << 26
        before = second.stats()
        held = first.allocate(1 << 20)
        change = second.stats() - before
        assert (change.bytes_in_use, change.num_allocs, change.num_arena_extensions) == (held.nbytes, 1, 1)
        assert held.nbytes == 1 << 20
        assert own.allocator().stats().bytes_limit != 1 << 26
        for each in (*shared, own):
            check(each)

    def test_limit(self, environment, build):
        environment.register_allocator(arena=ArenaConfig(max_mem=1 << 20))
        allocator = session(build).allocator()
        too_large = "ONNX Runtime asks for 2,097,152 bytes more, and the limit of the arena leaves no room"
        with pytest.raises(AllocationError, match=f"^no memory for .*{too_large}"):
            allocator.allocate(1 << 21)
        held = allocator.allocate(1 << 18)
        with pytest.raises(AllocationError, match=r"^no memory for"):
            allocator.allocate(1 << 20)
        held.close()

    def test_replaced_and_unregistered(self, environment, build):
        none = "^memory 'Cpu': No allocator for this device has been registered"
        with pytest.raises(ArgumentError, match=none):
            environment.unregister_allocator()
        environment.register_allocator(arena=ArenaConfig(max_mem=1 << 25))
        first = session(build)
        environment.register_allocator(arena=ArenaConfig(max_mem=1 << 26))
        second = session(build)
        environment.unregister_allocator()
        with pytest.raises(ArgumentError, match=none):
            environment.unregister_allocator()
        sessions = [first, second, session(build)]
        limits = [each.allocator().stats().bytes_limit for each in sessions]
        assert limits[:2] == [1 << 25, 1 << 26]
        assert limits[2] not in limits[:2], limits
        for each in sessions:
            check(each)

    def test_without_an_arena(self, environment, build):
        environment.register_allocator()
        plain = session(build)
        check(plain)
        assert plain.allocator().stats().num_allocs == 0
        plain.allocator().allocate(100).numpy()[...] = 1

    def test_memory_of_cuda_needs_cuda(self, environment):
        if usable("CUDA") is None:
            pytest.skip("CUDA can be used here")
        with pytest.raises(ProviderError, match="'Cuda'"):
            environment.register_allocator(zrt.MemoryInfo.cuda())

    @pytest.mark.gpu
    def test_memory_of_cuda(self, build):
        # Other tests of this process may have registered CUDA's library.
        environment = zrt.Environment()
        environment.register_allocator(zrt.MemoryInfo.cuda(), ArenaConfig(max_mem=1 << 28))
        there = session(build, ["CUDA"])
        assert there.allocator(zrt.MemoryInfo.cuda()).stats().bytes_limit == 1 << 28
        check(there)
        environment.unregister_allocator(zrt.MemoryInfo.cuda())


class TestTwoLibraries:
    """Two libraries with memory of the same place share one allocator."""

    def test_neither_may_be_unregistered_while_it_is_in_use(self, environment, own, tmp_path):
        allocator = environment.create_shared_allocator(own.memory)
        environment.register_provider_library("two", shutil.copy(source.path(), tmp_path / "two.so"))
        for name in ("mine", "two"):
            with pytest.raises(BusyError, match=f"'{name}' is in use"):
                environment.unregister_provider_library(name)
        assert roundtrip(allocator) == [1, 2, 3]
        allocator.close()

    def test_memory_of_another_name(self, environment, own, tmp_path):
        environment.register_provider_library("two", source.compile_to(tmp_path / "two.so", '-DMEMORY="Other"'))
        other, _ = source.devices("two")
        with environment.shared_allocator(other.memory) as there:
            assert there.memory.name == "ZrtTest"
        with environment.create_shared_allocator(other.memory) as allocator:
            assert allocator.memory.name == "Other"
        with environment.shared_allocator(own.memory) as there:
            assert there.memory.name == "Other"
        environment.unregister_provider_library("two")
        assert environment.shared_allocator(own.memory) is None
        assert roundtrip(environment.create_shared_allocator(own.memory)) == [1, 2, 3]


class TestSessions:
    def test_take_memory_from_the_shared_allocator(self, environment, own, build):
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

    def test_keep_their_allocator_when_it_is_replaced(self, environment, own, build):
        first = session(build, [own])
        environment.create_shared_allocator(own.memory).allocate(8).close()
        second = session(build, [own])
        assert first.allocator(own.memory).stats() != second.allocator(own.memory).stats()
        environment.release_shared_allocator(own.memory)
        for each in (first, second):
            check(each)

    @pytest.mark.parametrize("make", [session, built, edited])
    def test_keep_every_library_registered(self, environment, own, build, make):
        """They use all of the environment's allocators, also where they run on the CPU alone."""
        on_the_cpu = make(build)
        with pytest.raises(BusyError, match="'mine' is in use"):
            environment.unregister_provider_library("mine")
        check(on_the_cpu)
        on_the_cpu.close()
        environment.unregister_provider_library("mine")

    def test_load_while_allocators_are_replaced(self, environment, own, build, background):
        def load():
            for _ in range(30):
                check(session(build))

        def change(call):
            # Fails while a session is being loaded, or after the other thread made the same change.
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


def test_process_exits_cleanly_with_allocations_alive(script):
    script("provider_library.py", "exit_with_allocations", source.path())
