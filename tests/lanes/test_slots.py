"""`Lane.slots`: ports with several memories, between which they are moved."""

import contextlib
import gc
import weakref

import numpy as np
import pytest

import zrt
from tests.support.lanes import run_on
from tests.support.together import in_threads
from zrt.errors import ArgumentError, BusyError, OutOfRangeError, UnknownNameError


@pytest.fixture
def ring():
    return np.arange(12, dtype=np.float32).reshape(3, 4)


@pytest.fixture
def lane(add, ring):
    """A lane whose input `x` has three slots and whose output `z` has two."""
    lane = add.lane(inputs={"x": list(ring)}, outputs={"z": [np.zeros(4, np.float32), zrt.Buffer((4,), np.float32)]})
    lane.inputs["y"][...] = 100
    return lane


class TestSlots:
    def test_lane_begins_with_the_first_slots(self, lane):
        assert dict(lane.slots) == {"x": 0, "z": 0}
        assert run_on(lane)["z"].tolist() == [100, 101, 102, 103]

    def test_input_moves_between_its_slots(self, lane, ring):
        for number in (0, 1, 2, 0):
            lane.slots["x"] = number
            assert lane.slots.view("x") is lane.inputs["x"]
            assert run_on(lane)["z"].tolist() == (ring[number] + 100).tolist()
            assert lane.inputs["x"].ctypes.data == lane.inputs[0].ctypes.data == ring[number].ctypes.data
            assert lane.slots["x"] == number

    def test_output_moves_between_its_slots(self, lane, ring):
        lane.run()
        first = lane.outputs["z"]
        lane.slots["z"] = 1
        lane.slots["x"] = 2
        lane.run()
        assert first.tolist() == (ring[0] + 100).tolist()
        assert lane.outputs["z"].tolist() == (ring[2] + 100).tolist()
        assert not np.shares_memory(first, lane.outputs["z"])

    def test_inputs_that_are_bound_before_each_run_move_too(self, add, ring):
        lane = add.lane(inputs={"x": list(ring)}, rebind_inputs=True)
        for number in (2, 0, 1):
            lane.slots["x"] = number
            lane.run()
            assert run_on(lane)["z"].tolist() == ring[number].tolist()

    def test_windows_over_one_array_are_slots(self, add):
        audio = np.arange(8, dtype=np.float32)
        lane = add.lane(inputs={"x": [audio[start : start + 4] for start in range(0, 5, 2)]})
        lane.inputs["y"][...] = 0
        heard = []
        for number in range(3):
            lane.slots["x"] = number
            lane.run()
            heard.append(lane.outputs["z"].tolist())
        assert heard == [[0, 1, 2, 3], [2, 3, 4, 5], [4, 5, 6, 7]]

    def test_audit_reports_the_slot_in_use(self, lane, ring):
        lane.slots["x"] = 2
        port = lane.audit().inputs[0]
        assert port.address == port.ort_address == ring[2].ctypes.data
        assert (port.slots, port.owner, port.kind) == (3, "caller", "given")
        lane.slots["z"] = 1
        assert lane.audit().outputs[0].address == lane.outputs["z"].ctypes.data == lane.audit().outputs[0].ort_address
        assert lane.audit().zero_copy

    def test_lanes_of_a_runtime_move_alone(self, add, ring):
        runtime = zrt.Runtime(add, 2, inputs={"x": list(ring)})
        runtime[1].slots["x"] = 2
        for lane in runtime:
            lane.run()
        assert [lane.outputs["z"].tolist() for lane in runtime] == [ring[0].tolist(), ring[2].tolist()]

    def test_lane_with_state_moves(self, load):
        total = load(
            "(float[n] x, float[n] sum) => (float[n] next, float[n] twice) { next = Add(x, sum) "
            "twice = Add(next, next) }"
        )
        chunks, places = np.arange(1, 7, dtype=np.float32).reshape(3, 2), np.zeros((3, 2), np.float32)
        lane = total.lane(inputs={"x": list(chunks)}, outputs={"twice": list(places)}, state={"next": "sum"})
        for number in (0, 1, 2):
            lane.slots["x"] = lane.slots["twice"] = number
            lane.run()
        assert lane.state["sum"].tolist() == chunks.sum(axis=0).tolist()
        assert places.tolist() == (2 * np.cumsum(chunks, axis=0)).tolist()

    def test_lane_keeps_every_slot_alive(self, add):
        slots = [np.full(4, number, np.float32) for number in range(3)]
        alive = [weakref.ref(slot) for slot in slots]
        lane = add.lane(inputs={"x": slots})
        del slots
        gc.collect()
        lane.slots["x"] = 2
        assert run_on(lane)["z"].tolist() == [2] * 4
        kept = lane.slots
        lane.close()
        del lane
        gc.collect()
        kept["x"] = 1
        del kept
        gc.collect()
        assert [each() for each in alive] == [None] * 3


class TestErrors:
    def test_lane_without_slots_says_so(self, add):
        lane = add.lane({"x": 2})
        assert dict(lane.slots) == {}
        with pytest.raises(UnknownNameError, match="several memories for none, not for 'x'"):
            lane.slots["x"] = 0
        for name in ("x", []):
            with pytest.raises(UnknownNameError, match="several memories for none"):
                lane.slots.view(name)

    def test_numpy_integer_is_a_slot(self, lane):
        lane.slots["x"] = np.uint8(2)
        assert lane.slots["x"] == 2
        with pytest.raises(OutOfRangeError):
            lane.slots["x"] = np.int64(-1)

    def test_overlap_of_any_slots_is_refused(self, add, ring):
        with pytest.raises(ArgumentError, match="output 'z': ORT would write it into the memory of input 'x'"):
            add.lane(inputs={"x": list(ring)}, outputs={"z": [np.zeros(4, np.float32), ring[2]]})

    def test_move_during_a_run_raises(self, loop, background):
        lane = loop.lane(inputs={"x": [np.ones(4, np.float32)] * 2}, trials=False)
        lane.inputs["n"][...] = 2**62
        stop = zrt.RunOptions(log_severity_level="FATAL")
        job = background(lambda: lane.run_with(stop))
        job.under_way()
        with pytest.raises(BusyError, match="this Lane is in use"):
            lane.slots["x"] = 1
        stop.terminate()
        with pytest.raises(zrt.errors.TerminatedError):
            job.result()
        lane.slots["x"] = 1

    def test_moves_and_runs_of_several_threads_harm_nothing(self, lane, ring):
        def move() -> None:
            for turn in range(2000):
                with contextlib.suppress(BusyError):
                    lane.slots["x"] = turn % 3
                    lane.run()
                    lane.slots["z"] = turn % 2

        in_threads(*[move] * 4)
        lane.slots["x"] = 1
        assert run_on(lane)["z"].tolist() == (ring[1] + 100).tolist()
