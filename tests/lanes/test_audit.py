"""`Lane.audit`: its report agrees with numpy and with the settings, and names copies."""

import dataclasses

import numpy as np
import pytest

from tests.support import models
from zrt import LaneAudit, LaneMemory, PortAudit, Session
from zrt.errors import ZeroCopyError
from zrt.memory.allocators import CPU
from zrt.types import ElementType


def port(name: str, **changes) -> PortAudit:
    plain = PortAudit(name, ElementType.FLOAT, (2,), 8, CPU, "buffers", 4096, 4096, 4096)
    return dataclasses.replace(plain, **changes)


class TestReport:
    def test_no_copies_and_no_allocations(self):
        audit = LaneAudit((port("x"),), (port("y"),), synchronize=False)
        assert audit.zero_copy
        assert audit.copies == audit.allocations == ()
        audit.require_zero_copy()
        assert dataclasses.asdict(audit)["inputs"][0]["address"] == 4096

    def test_require_zero_copy_names_copies(self):
        audit = LaneAudit(
            (port("a"), port("b", copies="it is far away")),
            (port("c", copies="it is farther"), port("d", allocates="its shape depends on the data")),
            synchronize=True,
        )
        assert not audit.zero_copy
        assert audit.copies == ("b: it is far away", "c: it is farther")
        assert audit.allocations == ("d: its shape depends on the data",)
        with pytest.raises(ZeroCopyError, match="b: it is far away; c: it is farther") as caught:
            audit.require_zero_copy()
        assert isinstance(caught.value, RuntimeError)


class TestOfALane:
    @pytest.mark.parametrize("memory", [LaneMemory.buffers(), LaneMemory.allocated()], ids=lambda memory: memory.kind)
    def test_agrees_with_numpy(self, memory):
        lane = Session(models.mixed()).lane(inputs=memory, outputs=memory)
        for _ in ("before the first run", "after it"):
            audit = lane.audit()
            for ports, views in ((audit.inputs, lane.inputs), (audit.outputs, lane.outputs)):
                assert [each.name for each in ports] == list(views)
                for each in ports:
                    array = views[each.name]
                    assert each.address == each.ort_address == array.ctypes.data
                    assert each.nbytes == array.nbytes
                    assert each.shape == array.shape
                    assert each.element_type.dtype == array.dtype
                    assert each.memory.name == "Cpu"
                    assert each.kind == memory.kind
                    assert each.address % each.alignment == 0
                    assert each.address % (2 * each.alignment) != 0 or each.alignment == 2 << 20
                    assert each.policy == ("plain" if memory.kind == "buffers" else "")
                    assert (each.rebound, each.copies, each.allocates) == (False, "", "")
            assert audit.synchronize is False
            audit.require_zero_copy()
            lane.run()

    def test_reports_left_outputs(self):
        lane = Session(models.non_zero()).lane()
        (before,) = lane.audit().outputs
        assert (before.shape, before.nbytes) == (None, 0)
        assert before.address is before.ort_address is before.alignment is None
        assert before.allocates == "its shape depends on the data"
        lane.audit().require_zero_copy()
        lane.inputs["x"][...] = [0, 1, 0, 1]
        lane.run()
        (after,) = lane.audit().outputs
        assert (after.shape, after.nbytes, after.kind) == ((1, 2), 16, "left")
        assert after.ort_address == lane.outputs["indices"].ctypes.data
        assert after.ort_address % after.alignment == 0
        assert after.memory.name == "Cpu"

    def test_reports_a_view_that_is_a_copy(self, monkeypatch):
        monkeypatch.setattr("zrt.lanes.ports.view", lambda value: value.numpy().copy())
        lane = Session(models.add()).lane()
        assert [copies.split(":")[0] for copies in lane.audit().copies] == ["x", "y", "z"]
        with pytest.raises(ZeroCopyError, match="x: ORT's tensor lies at"):
            lane.audit().require_zero_copy()

    def test_reports_an_output_at_another_address(self):
        """The audit compares addresses: here the output is bound to other memory through the C API."""
        from zrt._native import status
        from zrt._native.library import api
        from zrt.values.value import Value

        lane = Session(models.add()).lane()
        elsewhere = Value.allocate((4,), np.float32)
        binding = lane._open().pointer.binding
        status.check(api().BindOutput(binding, b"z", elsewhere._open().pointer))
        assert not lane.audit().zero_copy
        with pytest.raises(ZeroCopyError, match=f"z: ORT's tensor lies at {elsewhere.address:#x}, ours at"):
            lane.audit().require_zero_copy()
