"""`zrt.lanes.ports`: `LaneMemory`, ports, and views."""

from __future__ import annotations

import dataclasses
import gc
import pickle

import numpy as np
import pytest
from onnx import TensorProto

from tests.support import models
from zrt import BufferPolicy, LaneMemory, MemoryInfo, Session
from zrt.errors import (
    AllocationError,
    ArgumentError,
    DTypeError,
    LockError,
    OutOfRangeError,
    UnknownNameError,
    UnsupportedError,
)
from zrt.lanes.ports import Port, Ports, checked_memory, clear, make_port, unbindable, view
from zrt.memory.allocators import CPU
from zrt.types import ElementType, ValueKind
from zrt.values import Value
from zrt.values.type_info import ValueInfo


def info(name: str, element_type: ElementType = ElementType.FLOAT) -> ValueInfo:
    return ValueInfo(name, ValueKind.TENSOR, element_type, None)


@pytest.fixture(scope="module")
def session() -> Session:
    return Session(models.add())


class TestLaneMemory:
    def test_kinds(self):
        assert LaneMemory.buffers() == LaneMemory() == LaneMemory("buffers", BufferPolicy.AUTO, CPU)
        assert LaneMemory.buffers(BufferPolicy.LATENCY).policy == BufferPolicy.LATENCY
        assert LaneMemory.allocated() == LaneMemory("allocated", memory=CPU)
        assert LaneMemory.left(MemoryInfo.cuda(1)) == LaneMemory("left", memory=MemoryInfo.cuda(1))

    def test_is_frozen_hashable_and_pickles(self):
        memory = LaneMemory.allocated(MemoryInfo.cuda())
        assert pickle.loads(pickle.dumps(memory)) == memory
        assert len({memory, LaneMemory.allocated(MemoryInfo.cuda()), LaneMemory.left()}) == 2
        with pytest.raises(dataclasses.FrozenInstanceError):
            memory.kind = "left"

    def test_checked_memory(self, session):
        owner = session._open()
        assert checked_memory(None, owner, "inputs") == LaneMemory()
        arena = LaneMemory.allocated(dataclasses.replace(CPU, allocator_type=1))
        assert checked_memory(arena, owner, "inputs") is arena
        with pytest.raises(ArgumentError, match="inputs: this session has no allocator for 'Cuda'"):
            checked_memory(LaneMemory.left(MemoryInfo.cuda()), owner, "inputs")
        with pytest.raises(
            ArgumentError, match="inputs: a LaneMemory is of kind buffers, allocated or left, not 'own'"
        ):
            checked_memory(LaneMemory("own"), owner, "inputs")
        for wrong in ("buffers", BufferPolicy.AUTO, 0, LaneMemory):
            with pytest.raises(DTypeError, match="inputs: expected a LaneMemory"):
                checked_memory(wrong, owner, "inputs")


class TestMakePort:
    def test_buffers(self, session):
        port = make_port(session, info("x"), (2, 3), LaneMemory.buffers(BufferPolicy(4096)), "input 'x'")
        assert port.buffer is not None
        assert port.value.address == port.buffer.address == port.view.ctypes.data
        assert port.buffer.address % 4096 == 0
        assert port.view.shape == (2, 3)

    def test_allocated(self, session):
        port = make_port(session, info("x"), (2, 3), LaneMemory.allocated(), "input 'x'")
        assert port.buffer is None
        assert port.value.address == port.view.ctypes.data
        assert not port.view.any()

    @pytest.mark.parametrize("memory", [LaneMemory.buffers(), LaneMemory.allocated()])
    @pytest.mark.parametrize(
        "kind", [kind for kind in ElementType if kind.bits and not kind.refused], ids=lambda kind: kind.name
    )
    def test_memory_starts_as_zero_bytes(self, session, memory, kind):
        # Fill memory of the same size first, so that the allocator may return memory that is not zero.
        dirty = Value.allocate((8, 32), kind, session.allocator())
        dirty.numpy().reshape(-1).view(np.uint8).fill(255)
        dirty.close()
        port = make_port(session, info("x", kind), (8, 32), memory, "input 'x'")
        assert port.value.element_type is kind
        assert not port.view.reshape(-1).view(np.uint8).any()

    def test_strings_and_sequences_raise(self, session):
        sequence = ValueInfo("s", ValueKind.SEQUENCE, ElementType.UNDEFINED, None)
        for each, words in ((info("t", ElementType.STRING), "holds strings"), (sequence, "is a sequence")):
            assert unbindable(each) == words
            with pytest.raises(UnsupportedError, match=f"input 'n' {words}"):
                make_port(session, each, (1,), LaneMemory(), "input 'n'")
        assert unbindable(info("x")) == ""

    def test_errors_name_the_port(self, session):
        huge = (1 << 61,)
        for memory in (LaneMemory.buffers(), LaneMemory.allocated()):
            with pytest.raises(AllocationError, match="output 'y'"):
                make_port(session, info("y"), huge, memory, "output 'y'")
        with pytest.raises((DTypeError, UnsupportedError), match=r"output 'y'.*COMPLEX64"):
            make_port(session, info("y", ElementType.COMPLEX64), (1,), LaneMemory(), "output 'y'")

    def test_lock_error_of_the_buffer_propagates(self, session, monkeypatch):
        def refuse(*_):
            raise LockError(12, "RLIMIT_MEMLOCK")

        monkeypatch.setattr("zrt.lanes.ports.Buffer", refuse)
        with pytest.raises(LockError) as caught:
            make_port(session, info("y"), (1,), LaneMemory(), "output 'y'")
        assert caught.value.errno == 12


class TestPorts:
    @pytest.fixture
    def read(self):
        """The indices of the left outputs that were read, in order."""
        return []

    @pytest.fixture
    def ports(self, session, read):
        def read_left(index: int):
            read.append(index)
            return f"made {index}"

        bound = make_port(session, info("a"), (2,), LaneMemory(), "output 'a'")
        left = [Port(info(name), LaneMemory.left(), why="left to ORT") for name in ("b", "c")]
        return Ports("output", [bound, *left], read_left)

    def test_bound_views_are_not_read_again(self, ports, read):
        assert ports["a"] is ports[0] is ports.get("a")
        assert not read

    def test_left_outputs_are_read_each_time(self, ports, read):
        assert [ports["b"], ports[2], ports["b"], ports[np.int64(1)]] == ["made 1", "made 2", "made 1", "made 1"]
        assert read == [1, 2, 1, 1]

    def test_names_need_no_read(self, ports, read):
        assert list(ports) == ["a", "b", "c"]
        assert list(ports.keys()) == ["a", "b", "c"]
        assert "b" in ports
        assert "d" not in ports
        assert ["b"] not in ports
        assert len(ports) == 3
        assert not read

    def test_unknown_names_raise(self, ports):
        for key in ("d", None, [], (0,), True, 0.0):
            with pytest.raises(UnknownNameError, match=r"the lane has no output .*; it has 'a', 'b', 'c'"):
                ports[key]
        for key in (3, -1):
            with pytest.raises(OutOfRangeError, match=f"lane output {key}: there are 3, counted from 0"):
                ports[key]
        for key in ("d", 3, -1, None, []):
            assert ports.get(key, "none") == "none"
        with pytest.raises(UnknownNameError, match="it has none"):
            Ports("input", [], lambda index: index)["x"]

    def test_items_cannot_be_assigned(self, ports):
        with pytest.raises(TypeError):
            ports["a"] = np.zeros(2)


class TestView:
    def test_host_tensors_are_arrays(self):
        value = Value.allocate((2, 3), np.int32)
        assert view(value).dtype == np.int32
        packed = Value.allocate((3,), ElementType.INT4)
        assert view(packed).dtype == np.uint8

    def test_strings_are_an_array_and_sequences_stay_values(self):
        assert view(Value.from_strings(["a", "b"])).tolist() == ["a", "b"]
        sequence = Value.from_sequence([np.zeros(2)])
        assert view(sequence) is sequence

    def test_view_outlives_lane_and_session(self):
        session = Session(models.casts(TensorProto.INT4, [3]))
        seen = [
            port[0]
            for lane in (session.lane(), session.lane(inputs=LaneMemory.allocated()))
            for port in (lane.inputs, lane.outputs)
        ]
        del session
        gc.collect()
        for array in seen:
            array[...] = 1
            assert array.all()


@pytest.mark.parametrize("array", [np.ones(()), np.ones((2, 3)), np.ones((0, 3)), np.ones((2, 0), np.int8)])
def test_clear_zeroes_arrays(array):
    clear(array)
    assert not array.any()
