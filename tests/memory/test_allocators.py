"""`MemoryInfo`, `Allocator`, `Allocation`, `ArenaConfig` and `AllocatorStats`."""

import dataclasses
import gc
import pickle

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support import models, ort
from zrt import Allocator, AllocatorStats, ArenaConfig, MemoryInfo, Session, SessionOptions, Value
from zrt.errors import AllocationError, ArgumentError, DTypeError, UnsupportedError
from zrt.memory.allocators import CPU, NAMED, read_pairs, write_pairs
from zrt.types import AllocatorType, DeviceMemType, DeviceType, MemType

TEXTS = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"))


@pytest.fixture(scope="module")
def session() -> Session:
    return Session(models.add())


def through_ort(memory: MemoryInfo) -> MemoryInfo:
    """`memory`, written to an OrtMemoryInfo and read back from it."""
    handle = memory.handle()
    return MemoryInfo._read(handle.pointer)


class TestMemoryInfo:
    def test_constructors_describe_known_memories(self):
        assert MemoryInfo.cpu() == CPU == MemoryInfo("Cpu", 0, AllocatorType.DEVICE, MemType.DEFAULT)
        assert MemoryInfo.cuda(2) == MemoryInfo("Cuda", 2)
        assert MemoryInfo.cuda().device_type is DeviceType.GPU
        assert MemoryInfo.cuda_pinned(1) == MemoryInfo("CudaPinned", 1, mem_type=MemType.CPU_OUTPUT)

    @pytest.mark.parametrize(
        "memory",
        [CPU, MemoryInfo("Cpu", allocator_type=AllocatorType.ARENA), MemoryInfo.cuda(3), MemoryInfo.cuda_pinned(1)],
    )
    def test_known_memory_survives_the_round_trip(self, memory):
        handle = memory.handle()
        read = MemoryInfo._read(handle.pointer)
        assert read == memory
        assert read.is_host is memory.is_host

    def test_is_host_where_the_cpu_can_read(self):
        assert CPU.is_host
        assert MemoryInfo.cuda_pinned().is_host
        assert not MemoryInfo.cuda().is_host
        assert MemoryInfo("Cuda", 0, mem_type=MemType.CPU_INPUT, device_type=DeviceType.GPU).is_host

    @pytest.mark.parametrize("name", NAMED)
    def test_device_follows_from_a_known_name(self, name):
        memory, read = MemoryInfo(name), through_ort(MemoryInfo(name))
        pinned = name.endswith("Pinned")
        assert memory.device_type == (DeviceType.CPU if pinned else read.device_type)
        assert memory.is_host == (pinned or read.is_host)

    def test_beside_compares_devices(self):
        host, pinned, first, second = CPU, MemoryInfo.cuda_pinned(), MemoryInfo.cuda(0), MemoryInfo.cuda(1)
        assert host._beside(pinned)
        assert pinned._beside(host)
        assert first._beside(MemoryInfo("Cuda", 0, AllocatorType.ARENA, device_type=DeviceType.GPU))
        for one, other in ((host, first), (first, pinned), (first, second)):
            assert not one._beside(other)
            assert not other._beside(one)

    @pytest.mark.parametrize("field", ["vendor_id", "alignment"])
    @pytest.mark.parametrize("value", [-1, 3 << 40, True, "64", 64.0, np.zeros(2)])
    def test_wrong_number_is_refused_by_name(self, field, value):
        with pytest.raises((ArgumentError, DTypeError), match=f"MemoryInfo.{field}: "):
            MemoryInfo("Mine", **{"vendor_id": 0, field: value})

    def test_of_describes_other_devices(self):
        npu = MemoryInfo.of("MyNpu", "npu", 3, vendor_id=0xFFFFFFFF, host_accessible=True, alignment=64)
        read = through_ort(npu)
        assert read == npu
        assert (read.device_type, read.device_id, read.vendor_id) == (DeviceType.NPU, 3, 0xFFFFFFFF)
        assert read.device_mem_type is DeviceMemType.HOST_ACCESSIBLE
        assert read.is_host
        assert not MemoryInfo.of("MyNpu", DeviceType.NPU).is_host

    @given(
        name=TEXTS.filter(lambda name: name not in NAMED),
        device_type=st.sampled_from(DeviceType),
        device_id=st.integers(0, 2**15 - 1),
        vendor_id=st.integers(0, 2**32 - 1),
        host_accessible=st.booleans(),
        allocator_type=st.sampled_from([AllocatorType.DEVICE, AllocatorType.ARENA, AllocatorType.READ_ONLY]),
    )
    def test_any_device_survives_the_round_trip(self, **fields):
        memory = MemoryInfo.of(**fields)
        read = through_ort(memory)
        assert dataclasses.astuple(read) == dataclasses.astuple(memory)
        # The result of reading can be written again.
        assert read.same(memory)

    def test_vendor_follows_from_a_known_name(self):
        vendors = {"Cpu": 0, "Cuda": 0x10DE, "CudaPinned": 0x10DE, "Hip": 0x1002, "QnnHtpShared": 0x5143}
        for name, vendor in vendors.items():
            read = through_ort(MemoryInfo(name))
            assert read.vendor_id == vendor
            assert read.same(MemoryInfo(name))
        pinned = through_ort(MemoryInfo.cuda_pinned())
        assert pinned.device_mem_type is DeviceMemType.HOST_ACCESSIBLE
        # ONNX Runtime 1.27 accepts each of these names.
        for name in NAMED:
            assert through_ort(MemoryInfo(name)).name == name

    def test_same_compares_as_ort_does(self):
        assert CPU.same(MemoryInfo("Cpu"))
        assert not CPU.same(MemoryInfo("Cpu", allocator_type=AllocatorType.ARENA))
        assert not MemoryInfo.cuda(0).same(MemoryInfo.cuda(1))
        aligned, plain = (MemoryInfo.of("Cpu", "CPU", alignment=alignment) for alignment in (4096, 0))
        assert aligned == plain == CPU
        assert plain.same(CPU)
        assert not aligned.same(plain)

    @pytest.mark.parametrize("number", [2**15, 2**16, -(2**15) - 1, 2**40])
    def test_number_that_ort_cannot_keep_is_refused(self, number):
        for make in (lambda id: MemoryInfo("Cuda", id), MemoryInfo.cuda, MemoryInfo.cuda_pinned):
            with pytest.raises(ArgumentError, match=f"device_id: {number} is not between"):
                make(number)

    def test_largest_number_survives_the_round_trip(self):
        for memory in (MemoryInfo.cuda(2**15 - 1), MemoryInfo("Hip", -1)):
            assert through_ort(memory).device_id == memory.device_id

    def test_no_device_of_cuda_has_a_number_below_0(self):
        for make in (MemoryInfo.cuda, MemoryInfo.cuda_pinned):
            with pytest.raises(ArgumentError, match="device_id: -1 is not between 0 and 32767"):
                make(-1)

    def test_kinds_may_be_names_and_nothing_else(self):
        assert MemoryInfo("Cpu", 0, "arena", device_type="cpu") == MemoryInfo("Cpu", 0, AllocatorType.ARENA)
        for field in ("allocator_type", "mem_type", "device_type", "device_mem_type"):
            for wrong in ("swap", 99, None):
                with pytest.raises(ArgumentError, match=f"MemoryInfo.{field}: {wrong!r} is none of"):
                    MemoryInfo("Cpu", **{field: wrong})

    def test_is_frozen_hashable_and_picklable(self):
        assert pickle.loads(pickle.dumps(MemoryInfo.cuda(1))) == MemoryInfo.cuda(1)
        assert len({MemoryInfo.cuda(), MemoryInfo("Cuda", 0, device_type=DeviceType.GPU), CPU}) == 2
        with pytest.raises(dataclasses.FrozenInstanceError):
            CPU.name = "Cuda"


class TestAllocator:
    def test_session_s_allocator_allocates_values(self, session):
        for allocator in (session.allocator(), Allocator(session), Allocator._of(session._open())):
            assert allocator.memory.name == "Cpu"
            value = Value.allocate((2, 3), np.float32, allocator)
            value.numpy()[...] = 1
            assert value.memory.name == "Cpu"

    def test_default_allocator_allocates_values_and_memory(self):
        allocator = Allocator.default()
        allocation = allocator.allocate(100)
        allocation.numpy()[...] = 1
        assert allocation.memory == allocator.memory == CPU
        value = Value.allocate((2, 3), np.float32, allocator)
        allocator.close()
        value.numpy()[...] = 1
        assert allocator.closed

    def test_counters_are_zero_where_ort_keeps_none(self):
        stats = Allocator.default().stats()
        assert stats == AllocatorStats()
        plain = Session(models.add(), SessionOptions(enable_cpu_mem_arena=False)).allocator()
        Value.allocate((1000,), np.float32, plain)
        assert plain.stats().num_allocs == 0

    def test_counters_follow_allocations(self, session):
        allocator = session.allocator()
        before = allocator.stats()
        value = Value.allocate((1 << 18,), np.float32, allocator)
        during = allocator.stats()
        assert during.num_allocs == before.num_allocs + 1
        assert during.bytes_in_use >= before.bytes_in_use + (1 << 20)
        assert during.max_bytes_in_use >= during.bytes_in_use
        assert during.max_alloc_size >= 1 << 20
        assert during.total_allocated_bytes >= during.bytes_in_use
        del value
        gc.collect()
        assert allocator.stats().bytes_in_use == before.bytes_in_use
        # Another Python object for the same allocator reads the same counters.
        assert session.allocator().stats() == allocator.stats()

    def test_memory_that_the_session_has_not_raises(self, session):
        for memory in (MemoryInfo.cuda(), MemoryInfo.cuda_pinned()):
            with pytest.raises(ArgumentError, match=f"this session has no allocator for '{memory.name}'"):
                session.allocator(memory)


class TestAllocation:
    def test_allocation_is_writable_and_counted(self, session):
        allocator = session.allocator()
        before = allocator.stats().bytes_in_use
        allocation = allocator.allocate(1000)
        assert allocation.nbytes == 1000
        assert allocation.memory == allocator.memory
        assert allocator.stats().bytes_in_use >= before + 1000
        view = allocation.numpy()
        assert (view.shape, view.dtype, view.ctypes.data) == ((1000,), np.uint8, allocation.address)
        view[...] = 7
        assert allocation.numpy().sum() == 7000
        assert repr(allocation) == "Allocation(1000 bytes of Cpu)"

    @pytest.mark.parametrize("first", ["allocation", "view"])
    def test_memory_is_freed_once_with_its_last_user(self, session, first):
        allocator = session.allocator()
        before = allocator.stats().bytes_in_use
        users = {"allocation": allocator.allocate(1 << 20)}
        users["view"] = users["allocation"].numpy()[10:]
        users.pop(first)
        gc.collect()
        assert allocator.stats().bytes_in_use > before
        users.clear()
        gc.collect()
        assert allocator.stats().bytes_in_use == before

    def test_views_of_a_closed_allocation_stay_valid(self, session):
        allocator = session.allocator()
        before = allocator.stats().bytes_in_use
        with allocator.allocate(1 << 20) as allocation:
            view = allocation.numpy()
        allocation.close()
        view[...] = 1
        assert allocator.stats().bytes_in_use > before
        del view
        assert allocator.stats().bytes_in_use == before
        assert repr(allocation) == "Allocation(closed)"

    @pytest.mark.parametrize("nbytes", [1 << 46, 1 << 62, (1 << 62) + 1, (1 << 63) + 1, (1 << 64) - 1])
    def test_too_much_memory_raises(self, session, nbytes):
        for allocator in (session.allocator(), Allocator.default()):
            with pytest.raises(AllocationError, match=f"no memory for {nbytes} bytes of Cpu"):
                allocator.allocate(nbytes)


class TestArenaConfig:
    def test_every_field_is_accepted(self):
        fields = {
            "max_mem": 1 << 30,
            "arena_extend_strategy": "same_as_requested",
            "initial_chunk_size_bytes": 1000,
            "max_dead_bytes_per_chunk": 1,
            "initial_growth_chunk_size_bytes": 512,
            "max_power_of_two_extend_bytes": 1 << 20,
            "use_cuda_mempool": False,
            "cuda_mempool_release_threshold": 0,
            "cuda_mempool_bytes_to_keep_on_shrink": 0,
        }
        assert set(fields) == {field.name for field in dataclasses.fields(ArenaConfig)}
        assert ArenaConfig(**fields).handle().pointer
        for name, value in fields.items():
            assert ArenaConfig(**{name: value}).handle().pointer
        assert ArenaConfig().handle().pointer

    @pytest.mark.parametrize(
        ("field", "value"),
        [
            ("max_mem", 1 << 63),
            ("initial_chunk_size_bytes", 1 << 31),
            ("max_dead_bytes_per_chunk", 1 << 31),
            ("initial_growth_chunk_size_bytes", 257),
            ("initial_growth_chunk_size_bytes", 1 << 31),
            ("max_power_of_two_extend_bytes", 0),
        ],
    )
    def test_bounds_of_fields(self, field, value):
        with pytest.raises(ArgumentError, match=f"^{field}: "):
            ArenaConfig(**{field: value}).handle()

    def test_every_accepted_configuration_works(self, script):
        """Small, odd and equal steps: each such arena allocates memory, shrinks and grows again."""
        script("arenas.py")


class TestPairs:
    @given(st.dictionaries(TEXTS.filter(bool), TEXTS))
    def test_pairs_survive_the_round_trip(self, pairs):
        handle = write_pairs(pairs, "pairs")
        assert read_pairs(handle.pointer) == pairs


RAW = {
    "InUse": "10",
    "TotalAllocated": "40",
    "MaxInUse": "20",
    "MaxAllocSize": "8",
    "Limit": "-1",
    "NumAllocs": "5",
    "NumReserves": "1",
    "NumArenaExtensions": "2",
    "NumArenaShrinkages": "0",
    "RequestedInUse": "9",
    "SomethingNew": "x",
}


class TestStats:
    def test_parse_reads_ort_s_pairs(self):
        stats = AllocatorStats._parse(RAW)
        assert stats == AllocatorStats(10, 40, 20, 8, -1, 5, 1, 2, 0, requested_bytes_in_use=9)
        assert stats.raw == RAW
        assert AllocatorStats._parse({}) == AllocatorStats()

    def test_subtraction_gives_differences(self):
        before = AllocatorStats._parse(RAW)
        after = AllocatorStats(7, 60, 30, 9, -1, 9, 1, 3, 1, requested_bytes_in_use=5)
        assert after - before == AllocatorStats(-3, 20, 30, 9, -1, 4, 0, 1, 1, requested_bytes_in_use=-4)
        assert before - before == AllocatorStats(0, 0, 20, 8, -1, 0, 0, 0, 0)

    def test_every_counter_of_ort_has_a_field(self, session):
        stats = session.allocator().stats()
        assert set(stats.raw) <= set(RAW)
        assert AllocatorStats._parse(stats.raw) == stats
        assert ("RequestedInUse" in stats.raw) is ort.COUNTS_REQUESTED_BYTES


@pytest.mark.gpu
class TestCuda:
    def test_session_has_device_and_pinned_allocators(self):
        session = Session(models.add(), providers=["CUDA"])
        for memory in (MemoryInfo.cuda(), MemoryInfo.cuda_pinned()):
            allocator = session.allocator(memory)
            assert allocator.memory.name == memory.name
            value = Value.allocate((1024,), np.float32, allocator)
            assert value.memory.is_host is memory.is_host
            assert allocator.stats().bytes_in_use >= 4096
            allocation = allocator.allocate(100)
            assert allocation.address
            if memory.is_host:
                allocation.numpy()[...] = 1
            else:
                with pytest.raises(UnsupportedError, match="lies on Cuda:0"):
                    allocation.numpy()


def test_resolved_memory_has_what_follows_from_its_name() -> None:
    assert MemoryInfo("Cuda", 3)._resolved().vendor_id == 0x10DE
    assert MemoryInfo.cpu()._resolved() == MemoryInfo.cpu()
