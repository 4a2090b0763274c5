"""The inputs and outputs of a lane: `LaneMemory`, and the views."""

import gc
import pickle
from dataclasses import replace

import numpy as np
import pytest
from onnx import TensorProto

from tests.support import models
from zrt import BufferPolicy, LaneMemory, MemoryInfo, Session
from zrt.errors import AllocationError, LockError
from zrt.memory.allocators import CPU
from zrt.types import ElementType
from zrt.values.value import Value


@pytest.fixture(scope="module")
def session() -> Session:
    return Session(models.add())


class TestLaneMemory:
    def test_kinds(self):
        assert LaneMemory.buffers() == LaneMemory() == LaneMemory("buffers", BufferPolicy.AUTO, CPU)
        assert LaneMemory.buffers(BufferPolicy.LATENCY).policy == BufferPolicy.LATENCY
        assert LaneMemory.allocated() == LaneMemory("allocated", memory=CPU)
        assert LaneMemory.left(MemoryInfo.cuda(1)) == LaneMemory("left", memory=MemoryInfo.cuda(1))

    def test_is_hashable_and_pickles(self):
        memory = LaneMemory.allocated(MemoryInfo.cuda())
        assert pickle.loads(pickle.dumps(memory)) == memory
        assert len({memory, LaneMemory.allocated(MemoryInfo.cuda()), LaneMemory.left()}) == 2

    @pytest.mark.parametrize(
        "memory", [LaneMemory.buffers(BufferPolicy(4096)), LaneMemory.allocated(replace(CPU, allocator_type=1))]
    )
    @pytest.mark.parametrize(
        "kind", [kind for kind in ElementType if kind.bits and not kind.refused], ids=lambda kind: kind.name
    )
    def test_it_starts_as_zero_bytes(self, memory, kind):
        session = Session(models.untouched(TensorProto.DataType.Value(kind.name), [8, 32]))
        # Fill memory of the same size first, so that the allocator may return memory that is not zero.
        dirty = Value.allocate((8, 32), kind, session.allocator())
        dirty.numpy().reshape(-1).view(np.uint8).fill(255)
        dirty.close()
        lane = session.lane(inputs=memory)
        port = lane.audit().inputs[0]
        assert port.element_type is kind
        assert port.shape == (8, 32)
        assert port.address == port.ort_address == lane.inputs["q"].ctypes.data
        assert (memory.kind == "allocated") or port.address % 4096 == 0
        assert not lane.inputs["q"].reshape(-1).view(np.uint8).any()

    def test_no_memory_for_a_port_raises_with_its_name(self):
        shapes = {"x": (1 << 58, 4)}
        for memory in (LaneMemory.buffers(), LaneMemory.allocated()):
            with pytest.raises(AllocationError, match="input 'x'"):
                Session(models.double()).lane(shapes, inputs=memory, trials=False)

    def test_lock_error_of_a_buffer_propagates(self, session, monkeypatch):
        def refuse(*_):
            raise LockError(12, "RLIMIT_MEMLOCK")

        monkeypatch.setattr("zrt.lanes.ports.Buffer", refuse)
        with pytest.raises(LockError) as caught:
            session.lane()
        assert caught.value.errno == 12


class TestPorts:
    def test_names_need_no_run(self):
        outputs = Session(models.double()).lane([(1, 4)], outputs=LaneMemory.left()).outputs
        assert list(outputs) == list(outputs.keys()) == ["y"]
        assert "y" in outputs
        assert "d" not in outputs
        assert ["y"] not in outputs
        assert len(outputs) == 1
        for key in ("d", 2, -1, None, []):
            assert outputs.get(key, "none") == "none"

    def test_views_outlive_lane_and_session(self):
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
