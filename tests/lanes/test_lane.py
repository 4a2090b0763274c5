"""`Lane`: the types, shapes and memory of its inputs and outputs, and their views."""

import ml_dtypes
import numpy as np
import pytest
from onnx import TensorProto

import zrt
from benches.models import build
from tests.support import models
from tests.support.arrays import random
from tests.support.lanes import run_on
from zrt import LaneMemory, MemoryInfo, Session
from zrt.errors import ArgumentError, InvalidArgumentError, ShapeError, UnsupportedError
from zrt.types import ElementType, pack, unpack


class TestPorts:
    def test_inputs_may_have_different_types(self):
        lane = Session(models.mixed()).lane()
        values = {
            "f": np.array([[1.5, -2, 0], [4, 5, 6]], np.float32),
            "i": np.array([[1, -2, 3], [2**40, 5, 0]], np.int64),
            "b": np.array([[True, False, True], [False, False, True]]),
            "h": np.array([[1, 2, 3], [-4, 0.5, 0]], np.float16),
            "u": np.array([[0, 1, 2], [253, 254, 255]], np.uint8),
        }
        assert {name: view.dtype for name, view in lane.inputs.items()} == {n: v.dtype for n, v in values.items()}
        for name, value in values.items():
            lane.inputs[name][...] = value
        lane.run()
        expected = {
            "f_doubled": values["f"] * 2,
            "i_negated": -values["i"],
            "b_inverted": ~values["b"],
            "h_squared": values["h"] ** 2,
            "u_most": np.maximum(values["u"], values["i"].astype(np.uint8)),
        }
        assert list(lane.outputs) == list(expected)
        for name, value in expected.items():
            assert lane.outputs[name].dtype == value.dtype
            np.testing.assert_array_equal(lane.outputs[name], value)
        lane.audit().require_zero_copy()

    def test_by_name_and_by_index(self):
        lane = Session(models.add()).lane()
        with pytest.raises(TypeError):
            lane.outputs["z"] = np.zeros(4)
        assert list(lane.inputs) == ["x", "y"]
        assert (len(lane.inputs), len(lane.outputs)) == (2, 1)
        assert lane.inputs["y"] is lane.inputs[1] is lane.inputs[np.int64(1)] is lane.inputs.get("y")
        assert lane.outputs["z"] is lane.outputs[0]
        assert dict(lane.inputs)["x"] is lane.inputs[0]
        assert "x" in lane.inputs
        assert "z" not in lane.inputs
        assert repr(lane.inputs) == "<inputs x, y>"

    def test_views_stay_the_same_between_runs(self):
        lane = Session(models.double()).lane([(2, 4)])
        view = lane.outputs["y"]
        for step in range(3):
            assert run_on(lane, x=step)["y"] is view
            np.testing.assert_array_equal(view, np.full((2, 4), 2 * step, np.float32))

    def test_rank_0_and_zero_size_tensors(self):
        for memory in (LaneMemory.buffers(), LaneMemory.allocated()):
            lane = Session(models.scalar_and_empty()).lane(inputs=memory, outputs=memory)
            assert lane.inputs["s"].shape == ()
            assert lane.outputs["e_out"].shape == (0, 3)
            assert run_on(lane, s=21)["s_out"] == 42
            lane.audit().require_zero_copy()
            assert {port.nbytes for port in lane.audit().outputs} == {0, 4}

    def test_model_without_inputs_runs(self):
        lane = Session(models.parse("() => (float[2] y) <float[2] c = {1, 2}> { y = Neg(c) }")).lane()
        np.testing.assert_array_equal(run_on(lane)["y"], [-1, -2])
        assert lane.audit().inputs == ()
        lane.audit().require_zero_copy()

    def test_constant_outputs(self):
        lane = Session(models.constant_outputs()).lane()
        lane.inputs["x"][...] = [[1, 2, 3], [4, 5, 6]]
        for _ in range(2):
            np.testing.assert_array_equal(run_on(lane)["c"], np.array([5, 6], np.float32))
            np.testing.assert_array_equal(lane.outputs["shape"], [2, 3])
            np.testing.assert_array_equal(lane.outputs["y"], -lane.inputs["x"])
        lane.audit().require_zero_copy()

    @pytest.mark.parametrize("name", ["INT4", "UINT4", "INT2", "UINT2"])
    @pytest.mark.parametrize("size", [1, 5, 8])
    def test_packed_types(self, name, size):
        kind = ElementType[name]
        lane = Session(models.casts(getattr(TensorProto, name), [size])).lane()
        numbers = np.arange(size) % 2
        assert lane.inputs["q"].dtype == np.uint8
        assert lane.inputs["q"].nbytes == (size * kind.bits + 7) // 8
        np.testing.assert_array_equal(
            run_on(lane, x=numbers, q=pack(numbers.astype(kind.dtype), kind))["q_cast"], numbers
        )
        np.testing.assert_array_equal(unpack(lane.outputs["x_cast"], kind, (size,)).astype(int), numbers)
        (_, q), (x_cast, _) = lane.audit().inputs, lane.audit().outputs
        assert (q.element_type, q.shape, q.nbytes) == (kind, (size,), lane.inputs["q"].nbytes)
        assert (x_cast.element_type, x_cast.shape) == (kind, (size,))

    @pytest.mark.parametrize(
        "name", ["bfloat16", "float8_e4m3fn", "float8_e4m3fnuz", "float8_e5m2", "float8_e5m2fnuz", "float8_e8m0fnu"]
    )
    def test_ml_dtypes_types(self, name):
        dtype = getattr(ml_dtypes, name)
        lane = Session(models.casts(ElementType.of(dtype).onnx_code, ["n"])).lane({"x": (3,), "q": (3,)})
        assert run_on(lane, x=[1, 2, 4], q=np.array([1, 2, 4], dtype))["x_cast"].dtype == dtype
        np.testing.assert_array_equal(lane.outputs["x_cast"].astype(np.float32), [1, 2, 4])
        np.testing.assert_array_equal(lane.outputs["q_cast"], [1, 2, 4])

    def test_output_that_is_an_input_shares_its_memory(self):
        lane = Session(models.passing_through()).lane()
        for value in (1, 2):
            np.testing.assert_array_equal(run_on(lane, x=value)["x"], np.full(3, value, np.float32))
            np.testing.assert_array_equal(lane.outputs["y"], np.full(3, -value, np.float32))
        passing, _ = lane.audit().outputs
        assert passing.ort_address == lane.inputs["x"].ctypes.data
        assert "is an input as well" in passing.allocates
        assert passing.copies == ""

    def test_a_type_without_kernels_passes_through(self):
        lane = Session(models.untouched(TensorProto.FLOAT4E2M1, [5])).lane()
        np.testing.assert_array_equal(run_on(lane, q=[0x21, 0x43, 0x05])["q"], [0x21, 0x43, 0x05])

    def test_strings_come_as_arrays_and_sequences_as_values(self):
        strings = Session(models.to_strings()).lane()
        assert run_on(strings)["y"].tolist() == ["0", "0"]
        sequence = Session(models.to_sequence()).lane()
        sequence.run()
        assert not sequence.outputs["y"].is_tensor
        assert strings.audit().outputs[0].allocates == "holds strings"
        assert sequence.audit().outputs[0].allocates == "is a sequence"

    @pytest.mark.parametrize(("model", "why"), [(models.from_strings, "strings"), (models.from_sequence, "a sequence")])
    def test_string_and_sequence_inputs_raise(self, model, why):
        with pytest.raises(UnsupportedError, match=f"input 'x' .*{why}"):
            Session(model()).lane()

    def test_repr(self):
        session = Session(models.non_zero("size"))
        assert repr(session.lane([(7,)])) == "Lane(x: [7] -> indices: int64[1, n])"
        assert repr(Session(models.add()).lane()) == "Lane(x: [4], y: [4] -> z: [4])"


class TestShapes:
    def test_by_name_in_order_or_from_the_model(self):
        session = Session(models.tokens())
        for shapes in ({"ids": (2, 5), "mask": (2, 5)}, [(2, 5), (2, 5)], ([2, 5], np.array([2, 5]))):
            lane = session.lane(shapes)
            assert [view.shape for view in lane.inputs.values()] == [(2, 5), (2, 5)]
            assert lane.outputs["score"].shape == (2,)
        assert Session(models.add()).lane().outputs[0].shape == (4,)

    def test_wrong_output_shape_raises_and_leaves_the_lane_usable(self):
        session = Session(models.non_zero())
        lane = session.lane(output_shapes={"indices": (1, 2)})
        view = lane.outputs["indices"]
        for data, right in (([1, 0, 0, 1], True), ([1, 1, 1, 0], False), ([0] * 4, False), ([0, 1, 1, 0], True)):
            lane.inputs["x"][...] = data
            if right:
                lane.run()
                np.testing.assert_array_equal(view, np.nonzero(data))
            else:
                with pytest.raises(ShapeError, match=r"(?s)'indices'.*LaneMemory\.left"):
                    lane.run()
        assert lane.outputs["indices"] is view
        np.testing.assert_array_equal(session.run({"x": np.ones(4, np.float32)})[0], [[0, 1, 2, 3]])


class TestLeftOutputs:
    def test_each_run_has_a_new_view_and_old_views_stay_valid(self):
        lane = Session(models.non_zero()).lane()
        views = []
        wanted = [[1, 0, 0, 0], [0, 1, 1, 1], [0, 0, 0, 0], [0, 0, 1, 1]]
        for data in wanted:
            views.append(run_on(lane, x=data)["indices"])
        assert views[1].ctypes.data != views[3].ctypes.data
        lane.close()
        for data, view in zip(wanted, views, strict=True):
            np.testing.assert_array_equal(view, np.stack(np.nonzero(data)))

    def test_reading_before_a_run_or_after_a_failed_run_raises(self):
        lane = Session(models.gather()).lane([(2,)], outputs=LaneMemory.left())
        assert lane.audit().allocations == ("y: left to ORT",)
        assert "y" in lane.outputs
        for key in ("y", 0):
            with pytest.raises(ArgumentError, match="output 'y'"):
                lane.outputs[key]
        assert run_on(lane)["y"].shape == (2, 3)
        lane.inputs["indices"][...] = 7
        with pytest.raises(InvalidArgumentError, match="indices element out of data bounds"):
            lane.run()
        with pytest.raises(ArgumentError, match="output 'y'"):
            lane.outputs["y"]
        np.testing.assert_array_equal(run_on(lane, indices=1)["y"], [[3, 4, 5]] * 2)


class TestMemory:
    def test_inputs_and_outputs_have_their_own_memory_kinds(self):
        session = Session(models.add(["n"]))
        policy = zrt.BufferPolicy(alignment=1 << 20, prefault=True)
        lane = session.lane([(100,), (100,)], inputs=LaneMemory.buffers(policy), outputs=LaneMemory.allocated())
        audit = lane.audit()
        assert [(port.kind, port.policy) for port in audit.inputs] == [("buffers", str(policy))] * 2
        assert [(port.kind, port.policy) for port in audit.outputs] == [("allocated", "")]
        assert all(port.alignment >= 1 << 20 and port.address % (1 << 20) == 0 for port in audit.inputs)
        np.testing.assert_array_equal(run_on(lane, x=1, y=2)["z"], np.full(100, 3, np.float32))
        audit.require_zero_copy()

    def test_auto_policy_depends_on_the_size(self):
        lane = Session(models.double(("n",))).lane([(1 << 19,)])
        ports = (*lane.audit().inputs, *lane.audit().outputs)
        assert {(port.policy, port.alignment) for port in ports} == {("throughput_large", 2 << 20)}
        assert lane.inputs["x"].ctypes.data % (2 << 20) == 0

    def test_rebind_inputs(self):
        session = Session(models.add())
        assert session.lane().rebound == frozenset()
        assert session.lane(rebind_inputs=False).rebound == frozenset()
        lane = session.lane(rebind_inputs=True)
        assert lane.rebound == {"x", "y"}
        assert all(port.rebound for port in lane.audit().inputs)
        # Binding again to the same memory copies nothing on the host.
        lane.audit().require_zero_copy()
        for value in (1, 2):
            np.testing.assert_array_equal(run_on(lane, x=value)["z"], np.full(4, value, np.float32))

    def test_synchronize(self):
        session = Session(models.add())
        for asked, expected in ((None, False), (True, True), (False, False)):
            lane = session.lane(synchronize=asked)
            assert lane.synchronize is lane.audit().synchronize is expected
            np.testing.assert_array_equal(run_on(lane, x=3)["z"], np.full(4, 3, np.float32))


@pytest.mark.gpu
class TestCuda:
    @pytest.fixture
    def session(self):
        # TF32 has the exponents of float32 and fewer digits.
        return Session(build.cnn().SerializeToString(), providers=[zrt.providers.CUDA(use_tf32=False)])

    def test_audit_reports_copies_of_host_buffers(self, session):
        lane = session.lane([(2, 1, 28, 28)])
        expected = Session(build.cnn().SerializeToString())
        for seed in range(2):
            run_on(lane, image=random(seed, (2, 1, 28, 28)))
            wanted = expected.run({"image": lane.inputs["image"]})[0]
            np.testing.assert_allclose(lane.outputs["logits"], wanted, rtol=1e-3, atol=1e-3)
        assert lane.rebound == {"image"}
        assert lane.synchronize
        assert len(lane.audit().copies) == 2
        words = "image: ORT reads it on Cuda, it is bound on Cpu; .*logits: ORT writes it on Cuda"
        with pytest.raises(zrt.errors.ZeroCopyError, match=words):
            lane.audit().require_zero_copy()

    def test_device_memory_on_both_sides_copies_nothing(self, session):
        cuda = LaneMemory.allocated(MemoryInfo.cuda())
        lane = session.lane([(2, 1, 28, 28)], inputs=cuda, outputs=cuda)
        audit = lane.audit()
        audit.require_zero_copy()
        assert {each.address for each in audit.inputs} == {None}
        assert all(each.ort_address for each in (*audit.inputs, *audit.outputs))
        assert lane.rebound == frozenset()
        image, logits = random(0, (2, 1, 28, 28)), np.empty((2, 10), np.float32)
        zrt.copy(image, lane.inputs["image"])
        lane.run()
        zrt.copy(lane.outputs["logits"], logits)
        wanted = Session(build.cnn().SerializeToString()).run({"image": image})[0]
        np.testing.assert_allclose(logits, wanted, rtol=1e-3, atol=1e-3)

    def test_pinned_memory_has_numpy_views(self, session):
        pinned = LaneMemory.allocated(MemoryInfo.cuda_pinned())
        lane = session.lane([(2, 1, 28, 28)], inputs=pinned, outputs=pinned)
        assert run_on(lane, image=1)["logits"].shape == (2, 10)
        wanted = Session(build.cnn().SerializeToString()).run({"image": lane.inputs["image"]})[0]
        np.testing.assert_allclose(lane.outputs["logits"], wanted, rtol=1e-3, atol=1e-3)
        assert {port.memory.name for port in lane.audit().outputs} == {"CudaPinned"}

    def test_outputs_left_on_the_device(self, session):
        lane = session.lane([(2, 1, 28, 28)], outputs=LaneMemory.left(MemoryInfo.cuda()))
        assert run_on(lane)["logits"].memory.name == "Cuda"
