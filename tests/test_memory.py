"""`MemoryInfo`, `Allocator` and its counters."""

from __future__ import annotations

import dataclasses
import gc
import pickle

import numpy as np
import pytest

from tests import models
from zrt import Allocator, AllocatorStats, MemoryInfo, Session, SessionOptions, Value
from zrt.errors import ArgumentError, ClosedError, DTypeError
from zrt.memory import CPU
from zrt.types import AllocatorType, DeviceType, MemType


@pytest.fixture(scope="module")
def session() -> Session:
    return Session(models.add())


class TestMemoryInfo:
    def test_the_usual_ones(self):
        assert MemoryInfo.cpu() == CPU == MemoryInfo("Cpu", 0, AllocatorType.DEVICE, MemType.DEFAULT)
        assert MemoryInfo.cuda(2) == MemoryInfo("Cuda", 2)
        assert MemoryInfo.cuda().device_type is DeviceType.GPU
        assert MemoryInfo.cuda_pinned(1) == MemoryInfo("CudaPinned", 1, mem_type=MemType.CPU_OUTPUT)

    @pytest.mark.parametrize(
        "memory",
        [CPU, MemoryInfo("Cpu", allocator_type=AllocatorType.ARENA), MemoryInfo.cuda(3), MemoryInfo.cuda_pinned(1)],
    )
    def test_ort_reads_what_was_written(self, memory):
        handle = memory.handle()
        read = MemoryInfo.read(handle.pointer)
        assert read == memory
        assert read.is_host is memory.is_host

    def test_what_the_processor_can_read(self):
        assert CPU.is_host
        assert MemoryInfo.cuda_pinned().is_host
        assert not MemoryInfo.cuda().is_host
        assert MemoryInfo("Cuda", 0, mem_type=MemType.CPU_INPUT, device_type=DeviceType.GPU).is_host

    def test_what_lies_beside_what(self):
        host, pinned, first, second = CPU, MemoryInfo.cuda_pinned(), MemoryInfo.cuda(0), MemoryInfo.cuda(1)
        assert host.beside(pinned)
        assert pinned.beside(host)
        assert first.beside(MemoryInfo("Cuda", 0, AllocatorType.ARENA, device_type=DeviceType.GPU))
        for one, other in ((host, first), (first, pinned), (first, second)):
            assert not one.beside(other)
            assert not other.beside(one)

    def test_is_a_plain_value(self):
        assert pickle.loads(pickle.dumps(MemoryInfo.cuda(1))) == MemoryInfo.cuda(1)
        assert len({MemoryInfo.cuda(), MemoryInfo("Cuda", 0, device_type=DeviceType.GPU), CPU}) == 2
        with pytest.raises(dataclasses.FrozenInstanceError):
            CPU.name = "Cuda"

    @pytest.mark.parametrize(
        ("memory", "error", "words"),
        [
            (MemoryInfo("Nowhere"), ArgumentError, "memory 'Nowhere'"),
            (MemoryInfo(""), ArgumentError, "memory ''"),
            (MemoryInfo.cuda(1 << 40), ArgumentError, "memory 'Cuda': device_id 1099511627776"),
            (MemoryInfo.cuda("0"), DTypeError, "name='Cuda', device_id='0'"),
            (MemoryInfo(5), DTypeError, "MemoryInfo.name: expected a str, got int 5"),
            (MemoryInfo(None), DTypeError, "MemoryInfo.name: expected a str, got NoneType None"),
        ],
    )
    def test_what_cannot_be(self, memory, error, words):
        with pytest.raises(error, match=words):
            memory.handle()


class TestAllocator:
    def test_of_a_session(self, session):
        for allocator in (session.allocator(), Allocator(session), Allocator.of(session._open())):
            assert allocator.memory.name == "Cpu"
            value = Value.allocate((2, 3), np.float32, allocator)
            value.numpy()[...] = 1
            assert value.memory.name == "Cpu"

    def test_the_processs_plain_one(self):
        allocator = Allocator.default()
        assert allocator.memory == CPU
        value = Value.allocate((2, 3), np.float32, allocator)
        allocator.close()
        value.numpy()[...] = 1
        assert allocator.closed

    def test_keeps_no_counters_where_ort_keeps_none(self):
        stats = Allocator.default().stats()
        assert stats == AllocatorStats()
        plain = Session(models.add(), SessionOptions(enable_cpu_mem_arena=False)).allocator()
        Value.allocate((1000,), np.float32, plain)
        assert plain.stats().num_allocs == 0

    def test_counts(self, session):
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
        # Another object for the same allocator counts the same.
        assert session.allocator().stats() == allocator.stats()

    def test_values_keep_it_alive(self):
        session = Session(models.add())
        value = Value.allocate((4,), np.float32, session.allocator())
        session.close()
        del session
        gc.collect()
        value.numpy()[...] = 3
        np.testing.assert_array_equal(value.numpy(), np.full(4, 3, np.float32))

    def test_closed(self):
        session = Session(models.add())
        allocator = session.allocator()
        allocator.close()
        for use in (allocator.stats, lambda: Value.allocate((1,), np.float32, allocator)):
            with pytest.raises(ClosedError, match="this Allocator is closed"):
                use()
        session.close()
        with pytest.raises(ClosedError, match="this Session is closed"):
            session.allocator()

    def test_what_cannot_be(self, session):
        for memory in (MemoryInfo.cuda(), MemoryInfo.cuda_pinned()):
            with pytest.raises(ArgumentError, match=f"this session has no allocator for '{memory.name}'"):
                session.allocator(memory)
        for wrong in ("Cpu", None, 0):
            with pytest.raises(DTypeError, match="memory: expected a MemoryInfo"):
                session.allocator(wrong)
        for wrong in (5, None, "session", models.add()):
            with pytest.raises(DTypeError, match="session: expected a Session"):
                Allocator(wrong)
        # Something with a handle that is no session's.
        for wrong in (session.lane(), Value.allocate((1,), np.float32)):
            with pytest.raises(DTypeError, match="session: expected a Session"):
                Allocator(wrong)


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
    "SomethingNew": "x",
}


class TestStats:
    def test_parse(self):
        stats = AllocatorStats.parse(RAW)
        assert stats == AllocatorStats(10, 40, 20, 8, -1, 5, 1, 2, 0)
        assert stats.raw == RAW
        assert AllocatorStats.parse({}) == AllocatorStats()

    def test_differences(self):
        before = AllocatorStats.parse(RAW)
        after = AllocatorStats(7, 60, 30, 9, -1, 9, 1, 3, 1)
        assert after - before == AllocatorStats(-3, 20, 30, 9, -1, 4, 0, 1, 1)
        assert before - before == AllocatorStats(0, 0, 20, 8, -1, 0, 0, 0, 0)

    def test_everything_that_ort_counts_is_read(self, session):
        stats = session.allocator().stats()
        assert set(stats.raw) <= set(RAW)
        assert AllocatorStats.parse(stats.raw) == stats


@pytest.mark.gpu
class TestCuda:
    def test_device_and_pinned_memory(self):
        session = Session(models.add(), providers=["CUDA"])
        for memory in (MemoryInfo.cuda(), MemoryInfo.cuda_pinned()):
            allocator = session.allocator(memory)
            assert allocator.memory.name == memory.name
            value = Value.allocate((1024,), np.float32, allocator)
            assert value.memory.is_host is memory.is_host
            assert allocator.stats().bytes_in_use >= 4096
