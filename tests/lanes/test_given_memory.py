"""Lanes over memory of the caller's: arrays, buffers, values and other lanes' ports."""

import gc
import weakref

import numpy as np
import pytest

import zrt
from tests.support import models
from tests.support.arrays import f32
from tests.support.lanes import run_on
from zrt import LaneMemory
from zrt.errors import ArgumentError, ClosedError, DTypeError, ShapeError, UnknownNameError, UnsupportedError


@pytest.fixture
def double(load):
    return load("(float[n] a) => (float[n] b) { b = Add(a, a) }")


class TestMemory:
    def test_run_reads_and_writes_the_memory_of_the_caller(self, add):
        x, z = f32(1, 2), f32(9, 9)
        lane = add.lane({"y": 2}, inputs={"x": x}, outputs={"z": z})
        run_on(lane, y=10)
        assert z.tolist() == [11, 12]
        x[...] = 5
        lane.run()
        assert z.tolist() == [15, 15]
        assert np.shares_memory(lane.inputs["x"], x)
        assert np.shares_memory(lane.outputs["z"], z)

    def test_making_a_lane_writes_nothing(self, add):
        x, y, z = f32(1, 2), f32(3, 4), f32(9, 9)
        for _ in range(2):
            add.lane(inputs={"x": x, "y": y}, outputs={"z": z})
            assert (x.tolist(), y.tolist(), z.tolist()) == ([1, 2], [3, 4], [9, 9])

    @pytest.mark.parametrize("make", [
        lambda: f32(1, 2, 3), lambda: zrt.Buffer((3,), np.float32), lambda: zrt.Value.from_array(f32(1, 2, 3)),
        lambda: zrt.Value.allocate((3,), np.float32),
    ], ids=["array", "Buffer", "Value over an array", "Value of ORT"])  # fmt: skip
    def test_shapes_come_from_the_memory(self, add, make):
        for inputs in ({"x": make()}, {"x": make(), "y": make()}):
            lane = add.lane(inputs=inputs)
            assert repr(lane) == "Lane(x: [3], y: [3] -> z: [3])"
        assert run_on(lane, x=1, y=2)["z"].tolist() == [3] * 3

    def test_shape_of_an_output_comes_from_its_memory(self, nonzero):
        where = np.zeros((1, 2), np.int64)
        lane = nonzero.lane({"x": 4}, outputs={"where": where})
        run_on(lane, x=[0, 1, 0, 3])
        assert where.tolist() == [[1, 3]]
        lane.inputs["x"][...] = 1
        with pytest.raises(ShapeError, match="output_shapes"):
            lane.run()

    def test_each_port_can_have_its_own_lane_memory(self, add):
        lane = add.lane(inputs={"x": f32(1), "y": LaneMemory.allocated()}, outputs={"z": LaneMemory.left()})
        audit = lane.audit()
        assert [(port.kind, port.owner) for port in audit.inputs] == [("given", "caller"), ("allocated", "lane")]
        assert [(port.kind, port.owner) for port in audit.outputs] == [("left", "ORT")]
        # Ports that have no memory of their own have buffers.
        other = add.lane(inputs={"x": f32(1), "y": None}).audit()
        assert [port.kind for port in (*other.inputs, *other.outputs)] == ["given", "buffers", "buffers"]
        assert run_on(lane)["z"].tolist() == [1]

    def test_inputs_may_share_memory(self, add):
        x = f32(1, 2, 3)
        lane = add.lane(inputs={"x": x, "y": x})
        assert run_on(lane)["z"].tolist() == [2, 4, 6]
        assert [port.shared_with for port in lane.audit().inputs] == [("y",), ("x",)]

    def test_read_only_array_is_an_input(self, add):
        x = f32(1, 2)
        x.flags.writeable = False
        lane = add.lane(inputs={"x": x, "y": np.frombuffer(bytes(8), np.float32)})
        assert not lane.inputs["x"].flags.writeable
        assert run_on(lane)["z"].tolist() == [1, 2]

    def test_empty_and_scalar_arrays_are_inputs(self, add, load):
        lane = add.lane(inputs={"x": f32(), "y": f32()}, outputs={"z": f32()})
        assert run_on(lane)["z"].shape == (0,)
        scalar = load("(float x) => (float y) { y = Neg(x) }")
        lane = scalar.lane(inputs={"x": np.array(3, np.float32)})
        assert run_on(lane)["y"] == -3

    def test_subclass_that_reports_another_shape_is_taken_as_its_memory(self, add):
        class Odd(np.ndarray):
            shape = (2,)

        lane = add.lane(inputs={"x": f32(1, 2, 3, 4).view(Odd)})
        assert repr(lane) == "Lane(x: [4], y: [4] -> z: [4])"

    def test_packed_types_take_their_bytes_as_a_value(self, load):
        cast = load("(uint4[n] x) => (float[n] y) { y = Cast<to = 1>(x) }", opset=21)
        packed = zrt.Value.from_packed(np.array([0x21, 0x43], np.uint8), "uint4", (4,))
        lane = cast.lane(inputs={"x": packed})
        assert run_on(lane)["y"].tolist() == [1, 2, 3, 4]

    def test_audit_reports_the_memory(self, add):
        x, buffer = f32(1, 2), zrt.Buffer((2,), np.float32)
        audit = add.lane(inputs={"x": x, "y": buffer}).audit()
        assert audit.zero_copy
        assert [port.owner for port in (*audit.inputs, *audit.outputs)] == ["caller", "caller", "lane"]
        assert audit.inputs[0].address == audit.inputs[0].ort_address == x.ctypes.data
        assert audit.inputs[1].address == buffer.address
        assert [port.policy for port in audit.inputs] == ["", str(buffer.resolved)]
        assert [port.slots for port in audit.inputs] == [1, 1]


class TestSharing:
    def test_several_lanes_share_an_input(self, add):
        x = f32(1, 2)
        runtime = zrt.Runtime(add, 3, inputs={"x": x})
        for number, lane in enumerate(runtime):
            run_on(lane, y=number)
        x[...] = 10
        for lane in runtime:
            lane.run()
        assert [lane.outputs["z"].tolist() for lane in runtime] == [[10, 10], [11, 11], [12, 12]]

    def test_output_of_a_lane_is_the_input_of_another(self, add, double):
        first = add.lane(inputs={"x": f32(1, 2), "y": f32(10, 10)})
        second = double.lane(inputs={"a": first.outputs["z"]})
        first.run()
        assert run_on(second)["b"].tolist() == [22, 24]
        assert second.audit().zero_copy
        assert second.audit().inputs[0].address == first.audit().outputs[0].address

    def test_input_of_a_lane_is_the_output_of_an_earlier_one(self, add, double):
        second = double.lane({"a": 2})
        first = add.lane(inputs={"x": f32(1, 2), "y": f32(10, 10)}, outputs={"z": second.inputs["a"]})
        first.run()
        assert run_on(second)["b"].tolist() == [22, 24]

    @pytest.mark.parametrize("overlap", [0, 1], ids=["same", "overlapping"])
    def test_output_on_the_memory_of_an_input_is_refused(self, add, overlap):
        memory = np.zeros(5, np.float32)
        x, z = memory[:4], memory[overlap : 4 + overlap]
        with pytest.raises(ArgumentError, match="output 'z': ORT would write it into the memory of input 'x'"):
            add.lane(inputs={"x": x}, outputs={"z": z})

    def test_outputs_on_one_memory_are_refused(self, load):
        two = load("(float[n] x) => (float[n] a, float[n] b) { a = Neg(x) b = Abs(x) }")
        memory = np.zeros(6, np.float32)
        with pytest.raises(ArgumentError, match="output 'a': ORT would write it into the memory of output 'b'"):
            two.lane(outputs={"a": memory[:4], "b": memory[2:]}, shapes={"x": 4})
        # Neighbours share no byte.
        two.lane(inputs={"x": f32(1, 2, 3)}, outputs={"a": memory[:3], "b": memory[3:]}).run()
        assert memory.tolist() == [-1, -2, -3, 1, 2, 3]

    def test_lanes_of_a_runtime_share_no_output(self, add):
        z = f32(0, 0)
        with pytest.raises(ArgumentError, match="output 'z': 2 lanes would write into the same memory"):
            zrt.Runtime(add, 2, shapes={"x": 2}, outputs={"z": z})
        assert zrt.Runtime(add, 1, shapes={"x": 2}, outputs={"z": z}).audit()[0].outputs[0].owner == "caller"
        with pytest.raises(ArgumentError, match="output 'z': all lanes of a DynamicRuntime would write into the same"):
            zrt.DynamicRuntime(add, outputs={"z": z})

    def test_lanes_of_a_dynamic_runtime_share_an_input(self, load):
        scale = load("(float[n] x, float[1] by) => (float[n] z) { z = Mul(x, by) }")
        by = f32(2)
        runtime = zrt.DynamicRuntime(scale, inputs={"by": by})
        for size in (1, 2):
            lane = runtime.lane({"x": (size,)})
            assert run_on(lane, x=3)["z"].tolist() == [6] * size
        by[...] = 10
        assert run_on(lane)["z"].tolist() == [30, 30]

    def test_dynamic_runtime_takes_shapes_from_the_memory(self, add):
        runtime = zrt.DynamicRuntime(add, inputs={"x": f32(1, 2)})
        assert repr(runtime.lane({})) == "Lane(x: [2], y: [2] -> z: [2])"
        with pytest.raises(ShapeError, match=r"input 'x': shapes has \[3\] for it, its memory has \[2\]"):
            runtime.lane({"x": (3,)})


class TestState:
    """Lanes with state, whose `count` the lane writes before each run."""

    @pytest.fixture
    def session(self, load):
        return load(
            "(float[n] x, float[n] sum, int64[1] count) => (float[n] next, float[n] scaled) "
            "{ factor = Cast<to = 1>(count) next = Add(x, sum) scaled = Mul(next, factor) }"
        )

    @pytest.fixture
    def state(self):
        return zrt.StatePorts(pairs={"next": "sum"}, follow={"count": "total"}, capacity=9)

    def test_shapes_of_the_state_come_from_the_memory(self, session, state):
        x, count, scaled = f32(1, 2), np.zeros(1, np.int64), f32(0, 0)
        lane = session.lane(inputs={"x": x, "count": count}, outputs={"scaled": scaled}, state=state)
        for _ in range(3):
            lane.run()
        assert lane.state["sum"].tolist() == [3, 6]
        assert count.tolist() == [3]
        assert scaled.tolist() == [9, 18]

    def test_lanes_share_an_input_and_not_their_states(self, session, state):
        runtime = zrt.Runtime(session, 2, inputs={"x": f32(1)}, state=state)
        for turns, lane in enumerate(runtime, 1):
            for _ in range(turns):
                lane.run()
        assert [lane.state["sum"].tolist() for lane in runtime] == [[1], [2]]

    def test_ports_of_the_state_take_no_memory(self, session, state):
        with pytest.raises(ArgumentError, match="input 'sum': the state has its memory"):
            session.lane(inputs={"sum": f32(1)}, state=state)
        with pytest.raises(ArgumentError, match="output 'next': the state has its memory"):
            session.lane({"x": 1}, outputs={"next": f32(1)}, state=state)

    def test_input_that_the_lane_writes_takes_one_writeable_memory_of_its_own(self, session, state):
        count = np.zeros(1, np.int64)
        for inputs, words in (
            ({"count": np.frombuffer(bytes(8), np.int64)}, "so it takes one writeable memory"),
            ({"count": [count, count.copy()]}, "so it takes one writeable memory"),
            ({"count": count, "x": count.view(np.float32)}, "another input lies on its memory"),
        ):
            with pytest.raises(ArgumentError, match=f"follow 'count': the lane writes it, {words}"):
                session.lane({"x": 2}, inputs=inputs, state=state)
        with pytest.raises(ArgumentError, match="input 'count': 2 lanes would write into the same memory"):
            zrt.Runtime(session, 2, shapes={"x": 1}, inputs={"count": count}, state=state)
        # Behind an input that several lanes may read.
        with pytest.raises(ArgumentError, match="input 'count': 2 lanes would write into the same memory"):
            zrt.Runtime(session, 2, inputs={"x": f32(1), "count": count}, state=state)


class TestLifetime:
    def test_lane_keeps_the_memory_alive(self, add):
        x, buffer = f32(1, 2), zrt.Buffer((2,), np.float32)
        buffer.array[...] = 5
        alive = weakref.ref(x)
        lane = add.lane(inputs={"x": x, "y": buffer})
        del x, buffer
        gc.collect()
        assert alive() is not None
        assert run_on(lane)["z"].tolist() == [6, 7]
        del lane
        gc.collect()
        assert alive() is None

    def test_view_keeps_the_memory_alive(self, add):
        x = f32(1, 2)
        alive = weakref.ref(x)
        lane = add.lane(inputs={"x": x})
        view = lane.inputs["x"]
        lane.close()
        del x, lane
        gc.collect()
        assert view.tolist() == [1, 2]
        assert alive() is not None
        del view
        gc.collect()
        assert alive() is None

    def test_closing_the_memory_leaves_the_lane(self, add):
        buffer, value = zrt.Buffer((2,), np.float32), zrt.Value.allocate((2,), np.float32)
        z = zrt.Buffer((2,), np.float32)
        lane = add.lane(inputs={"x": buffer, "y": value}, outputs={"z": z})
        lane.inputs["x"][...], lane.inputs["y"][...] = 1, 2
        for owner in (buffer, value, z):
            owner.close()
        assert run_on(lane)["z"].tolist() == [3, 3]
        assert [port.owner for port in (*lane.audit().inputs, *lane.audit().outputs)] == ["caller"] * 3

    def test_closing_a_lane_leaves_the_lane_behind_it(self, add, double):
        first = add.lane(inputs={"x": f32(1, 2), "y": f32(10, 10)})
        second = double.lane(inputs={"a": first.outputs["z"]})
        first.run()
        first.close()
        add.close()
        del first
        gc.collect()
        assert run_on(second)["b"].tolist() == [22, 24]


class TestDevice:
    def test_output_on_a_device_is_the_input_of_another_lane(self, negate):
        first = negate().lane(inputs={"x": f32(1, 2)}, outputs={"y": on_device(negate(), f32(0, 0))})
        second = negate().lane(inputs={"x": first.outputs["y"]})
        first.run()
        second.run()
        assert second.audit().inputs[0].ort_address == first.audit().outputs[0].ort_address
        assert not second.audit().inputs[0].memory.is_host
        assert not second.audit().inputs[0].copies
        assert second.outputs["y"].tolist() == [1, 2]

    def test_slots_on_a_device_move(self, negate):
        session = negate()
        slots = [on_device(session, f32(number, 10)) for number in range(3)]
        lane = session.lane(inputs={"x": slots})
        for number in (2, 0, 1):
            lane.slots["x"] = number
            assert run_on(lane)["y"].tolist() == [-number, -10]

    def test_host_memory_of_a_device_session_is_copied_in_each_run(self, negate):
        slots = [f32(1, 2), f32(3, 4)]
        lane = negate().lane(inputs={"x": slots})
        assert lane.rebound == {"x"}
        assert lane.audit().inputs[0].copies
        for number in (1, 0, 1):
            lane.slots["x"] = number
            slots[number] += 1
            assert run_on(lane)["y"].tolist() == (-slots[number]).tolist()

    def test_slots_on_different_memories_are_refused(self, negate):
        session = negate()
        with pytest.raises(ArgumentError, match=r"input 'x': slot 1 lies on .*, slot 0 on"):
            session.lane(inputs={"x": [f32(1, 2), on_device(session, f32(1, 2))]})

    def test_memory_that_the_session_cannot_reach_is_refused(self, negate, add):
        with pytest.raises(UnsupportedError, match=r"input 'x' lies on .* nothing on a device"):
            add.lane(inputs={"x": on_device(negate(), f32(1, 2))})

    def test_output_on_the_memory_of_an_input_is_refused(self, negate):
        session = negate()
        value = on_device(session, f32(1, 2))
        with pytest.raises(ArgumentError, match="output 'y': ORT would write it into the memory of input 'x'"):
            session.lane(inputs={"x": value}, outputs={"y": value})


@pytest.mark.gpu
class TestCuda:
    def test_pipeline_stays_on_the_gpu(self):
        cuda = zrt.Session(models.double((4,)), providers=["cuda", "cpu"])
        memory = LaneMemory.allocated(zrt.MemoryInfo.cuda())
        first = cuda.lane(inputs=memory, outputs=memory)
        second = cuda.lane(inputs={"x": first.outputs["y"]})
        zrt.copy(f32(1, 2, 3, 4), first.inputs["x"])
        first.run()
        second.run()
        assert second.audit().inputs[0].ort_address == first.audit().outputs[0].ort_address
        assert not second.audit().inputs[0].copies
        assert second.outputs["y"].tolist() == [4, 8, 12, 16]

    def test_slots_on_the_gpu_move(self):
        cuda = zrt.Session(models.double((4,)), providers=["cuda", "cpu"])
        slots = [on_device(cuda, f32(*[number] * 4)) for number in range(3)]
        lane = cuda.lane(inputs={"x": slots})
        for number in (2, 0, 1):
            lane.slots["x"] = number
            assert run_on(lane)["y"].tolist() == [2 * number] * 4


def on_device(session, array):
    """A copy of the array on the device of the session's first input."""
    memory = session.placement().inputs[0].memory
    value = zrt.Value.allocate(array.shape, array.dtype, session.allocator(memory))
    zrt.copy(array, value)
    return value


class TestErrors:
    @pytest.mark.parametrize("role", ["inputs", "outputs"])
    @pytest.mark.parametrize(
        ("make", "error", "message"),
        [
            (lambda: np.zeros(2), DTypeError, "expected float32, got float64"),
            (lambda: np.zeros((2, 2), np.float32), ShapeError, r"expected shape \[n\], got \[2, 2\]"),
            (lambda: np.zeros(4, np.float32)[::2], ArgumentError, "is not C-contiguous"),
            (lambda: np.zeros(2, ">f4"), ArgumentError, "is in the other byte order"),
            (lambda: np.frombuffer(bytearray(9), np.float32, 2, 1), ArgumentError, "begins at"),
            (lambda: np.ma.zeros(2, np.float32), ArgumentError, "masked"),
            (lambda: closed(zrt.Buffer((2,), np.float32)), ClosedError, "this Buffer is closed"),
            (lambda: closed(zrt.Value.allocate((2,), np.float32)), ClosedError, "this Value is closed"),
            (lambda: zrt.Buffer((2,), np.float64), DTypeError, "expected float32, got float64"),
            (lambda: zrt.Value.from_sequence([f32(1)]), DTypeError, "got a sequence"),
            (lambda: [], ArgumentError, "the list of its slots is empty"),
            (lambda: [f32(1, 2), f32(1)], ShapeError, r"slot 1 has shape \[1\], slot 0 has \[2\]"),
            (lambda: [f32(1, 2), np.zeros(2)], DTypeError, "slot 1: .*expected float32"),
            (lambda: (1.0, 2.0), DTypeError, "slot 0: .*expected an array"),
            (lambda: 5, DTypeError, "expected an array, a Buffer, a Value, a list of these or a LaneMemory, got int 5"),
            (lambda: b"memory", DTypeError, "expected an array"),
        ],
        ids=[
            "type", "rank", "strided", "byte order", "misaligned", "masked", "closed Buffer", "closed Value",
            "Buffer's type", "sequence", "no slots", "slots' shapes", "slots' types", "floats", "int", "bytes",
        ],
    )  # fmt: skip
    def test_unusable_memory_is_refused_by_name(self, add, role, make, error, message):
        name = {"inputs": "x", "outputs": "z"}[role]
        with pytest.raises(error, match=message) as raised:
            add.lane({"x": 2}, **{role: {name: make()}})
        assert f"{role[:-1]} {name!r}" in str(raised.value)
        assert isinstance(raised.value, zrt.Error)

    @pytest.mark.parametrize("role", ["inputs", "outputs"])
    def test_unknown_port_is_refused(self, add, role):
        for name in ("q", 0, None, ("x",)):
            with pytest.raises(UnknownNameError, match=f"{role}: the model has no {role[:-1]}"):
                add.lane({"x": 2}, **{role: {name: f32(1, 2)}})

    def test_shape_that_contradicts_the_memory_is_refused(self, add):
        with pytest.raises(ShapeError, match=r"input 'x': shapes has \[3\] for it, its memory has \[2\]"):
            add.lane({"x": 3}, inputs={"x": f32(1, 2)})
        with pytest.raises(ShapeError, match="'x' and 'y' give the size 'n' two values, 2 and 3"):
            add.lane(inputs={"x": f32(1, 2), "y": f32(1, 2, 3)})
        with pytest.raises(ShapeError, match=r"output 'z': shapes has \[3\] for it, its memory has \[2\]"):
            add.lane({"x": 2}, {"z": 3}, outputs={"z": f32(1, 2)})

    def test_output_of_another_size_fails_in_the_run(self, add):
        lane = add.lane({"x": 2}, outputs={"z": f32(1, 2, 3)}, trials=False)
        with pytest.raises(ShapeError, match="output_shapes"):
            lane.run()

    def test_shapes_that_cannot_run_are_refused(self, load):
        multiply = load("(float[a,b] x, float[c,d] y) => (float[a,d] z) { z = MatMul(x, y) }")
        with pytest.raises(ShapeError, match="the model does not run with"):
            multiply.lane(inputs={"x": np.zeros((2, 3), np.float32), "y": np.zeros((4, 5), np.float32)})

    def test_strings_and_outputs_that_are_inputs_are_refused(self, load):
        texts = load("(string[n] x) => (string[n] y) { y = Identity(x) }")
        with pytest.raises(UnsupportedError, match="input 'x' holds strings"):
            texts.lane(inputs={"x": zrt.Value.from_strings(["a"])})
        through = load("(float[n] x) => (float[n] x, float[n] y) { y = Neg(x) }")
        with pytest.raises(ArgumentError, match="output 'x' is an input as well"):
            through.lane({"x": 2}, outputs={"x": f32(1, 2)})

    def test_failed_lane_leaves_the_memory(self, add):
        x = f32(1, 2)
        alive = weakref.ref(x)
        for _ in range(3):
            with pytest.raises(DTypeError):
                add.lane(inputs={"x": x, "y": np.zeros(2)})
        assert x.tolist() == [1, 2]
        del x
        gc.collect()
        assert alive() is None


def closed(owner):
    owner.close()
    return owner
