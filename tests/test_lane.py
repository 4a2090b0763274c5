"""`Lane`: what is bound, what a run does and does not do, what happens when it goes wrong, and how long things live."""

from __future__ import annotations

import gc
import itertools
import subprocess
import sys
import textwrap
import threading
import time
import weakref
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest
from onnx import TensorProto

import zrt
from benches.models import build
from tests import models
from zrt import Lane, LaneMemory, MemoryInfo, RunOptions, Session, SessionOptions
from zrt.errors import (
    AllocationError,
    ArgumentError,
    BusyError,
    ClosedError,
    DTypeError,
    InvalidArgumentError,
    ShapeError,
    TerminatedError,
    UnknownNameError,
    UnsupportedError,
)
from zrt.types import ElementType, pack, unpack

ROOT = Path(__file__).parents[1]
FOR_EVER = 10**15


def random(seed: int, shape: tuple[int, ...]) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape, np.float32)


def python(code: str) -> str:
    """What a Python of its own prints for the code."""
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)], capture_output=True, text=True, cwd=ROOT, timeout=120
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@contextmanager
def collector_off():
    """Only reference counting frees anything here."""
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


@contextmanager
def long_run(lane: Lane):
    """A run of `counting_loop` in another thread, under way for certain and ended afterwards; gives its options."""
    options, failures = RunOptions(), []

    def run() -> None:
        try:
            lane.run_with(options)
        except Exception as error:
            failures.append(error)

    busy = lane._open().pointer
    lane.inputs["turns"][...] = FOR_EVER
    thread = threading.Thread(target=run)
    thread.start()
    while not busy.busy:
        time.sleep(0.001)
    try:
        yield options
    finally:
        options.terminate()
        thread.join()
    assert [type(error) for error in failures] == [TerminatedError]


@pytest.fixture
def counting() -> Lane:
    return Session(models.counting_loop(), SessionOptions(intra_op_num_threads=1)).lane()


class TestPorts:
    def test_any_mix_of_types(self):
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
        assert list(lane.inputs) == ["x", "y"]
        assert (len(lane.inputs), len(lane.outputs)) == (2, 1)
        assert lane.inputs["y"] is lane.inputs[1] is lane.inputs[np.int64(1)]
        assert lane.outputs["z"] is lane.outputs[0]
        assert dict(lane.inputs)["x"] is lane.inputs[0]
        assert "x" in lane.inputs
        assert "z" not in lane.inputs
        assert repr(lane.inputs) == "<inputs x, y>"

    @pytest.mark.parametrize("key", ["z", "", 2, -1, None, ["x"], slice(1)])
    def test_what_is_not_there(self, key):
        lane = Session(models.add()).lane()
        with pytest.raises(UnknownNameError, match=r"the lane has no input .*; it has 'x', 'y'") as caught:
            lane.inputs[key]
        assert repr(key) in str(caught.value)
        assert isinstance(caught.value, KeyError)

    def test_the_same_views_every_time(self):
        lane = Session(models.double()).lane([(2, 4)])
        view = lane.outputs["y"]
        for step in range(3):
            lane.inputs["x"][...] = step
            lane.run()
            assert lane.outputs["y"] is view
            np.testing.assert_array_equal(view, np.full((2, 4), 2 * step, np.float32))

    def test_inputs_begin_as_zeros_and_outputs_too(self):
        for memory in (LaneMemory.buffers(), LaneMemory.allocated()):
            lane = Session(models.add()).lane(inputs=memory, outputs=memory)
            for view in (*lane.inputs.values(), *lane.outputs.values()):
                np.testing.assert_array_equal(view, np.zeros(4, np.float32))

    def test_rank_0_and_zero_size(self):
        for memory in (LaneMemory.buffers(), LaneMemory.allocated()):
            lane = Session(models.scalar_and_empty()).lane(inputs=memory, outputs=memory)
            assert lane.inputs["s"].shape == ()
            assert lane.outputs["e_out"].shape == (0, 3)
            lane.inputs["s"][...] = 21
            lane.run()
            assert lane.outputs["s_out"] == 42
            lane.audit().require_zero_copy()
            assert {port.nbytes for port in lane.audit().outputs} == {0, 4}

    def test_a_model_without_inputs(self):
        model = models.build(
            [models.node("Neg", ["c"], ["y"])], [], [models.tensor("y", models.FLOAT, [2])], {"c": np.float32([1, 2])}
        )
        lane = Session(model).lane()
        lane.run()
        np.testing.assert_array_equal(lane.outputs["y"], [-1, -2])
        assert lane.audit().inputs == ()
        lane.audit().require_zero_copy()

    def test_constant_outputs(self):
        lane = Session(models.constant_outputs()).lane()
        lane.inputs["x"][...] = [[1, 2, 3], [4, 5, 6]]
        for _ in range(2):
            lane.run()
            np.testing.assert_array_equal(lane.outputs["c"], np.array([5, 6], np.float32))
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
        lane.inputs["x"][...] = numbers
        lane.inputs["q"][...] = pack(numbers.astype(kind.dtype), kind)
        lane.run()
        np.testing.assert_array_equal(lane.outputs["q_cast"], numbers)
        np.testing.assert_array_equal(unpack(lane.outputs["x_cast"], kind, (size,)).astype(int), numbers)
        (_, q), (x_cast, _) = lane.audit().inputs, lane.audit().outputs
        assert (q.element_type, q.shape, q.nbytes) == (kind, (size,), lane.inputs["q"].nbytes)
        assert (x_cast.element_type, x_cast.shape) == (kind, (size,))

    @pytest.mark.parametrize(
        "dtype",
        [
            ml_dtypes.bfloat16,
            ml_dtypes.float8_e4m3fn,
            ml_dtypes.float8_e4m3fnuz,
            ml_dtypes.float8_e5m2,
            ml_dtypes.float8_e5m2fnuz,
            ml_dtypes.float8_e8m0fnu,
        ],
    )
    def test_types_that_numpy_does_not_have(self, dtype):
        lane = Session(models.casts(ElementType.of(dtype).onnx_code, ["n"])).lane({"x": (3,), "q": (3,)})
        lane.inputs["x"][...] = [1, 2, 4]
        lane.inputs["q"][...] = np.array([1, 2, 4], dtype)
        lane.run()
        assert lane.outputs["x_cast"].dtype == dtype
        np.testing.assert_array_equal(lane.outputs["x_cast"].astype(np.float32), [1, 2, 4])
        np.testing.assert_array_equal(lane.outputs["q_cast"], [1, 2, 4])

    def test_an_output_that_is_an_input_as_well(self):
        lane = Session(models.passing_through()).lane()
        for value in (1, 2):
            lane.inputs["x"][...] = value
            lane.run()
            np.testing.assert_array_equal(lane.outputs["x"], np.full(3, value, np.float32))
            np.testing.assert_array_equal(lane.outputs["y"], np.full(3, -value, np.float32))
        passing, _ = lane.audit().outputs
        assert passing.ort_address == lane.inputs["x"].ctypes.data
        assert "is an input as well" in passing.allocates
        assert passing.copies == ""

    def test_a_type_without_kernels_passes_through(self):
        lane = Session(models.untouched(TensorProto.FLOAT4E2M1, [5])).lane()
        lane.inputs["q"][...] = [0x21, 0x43, 0x05]
        lane.run()
        np.testing.assert_array_equal(lane.outputs["q"], [0x21, 0x43, 0x05])

    def test_strings_come_as_arrays_and_sequences_as_values(self):
        strings = Session(models.to_strings()).lane()
        strings.run()
        assert strings.outputs["y"].tolist() == ["0", "0"]
        sequence = Session(models.to_sequence()).lane()
        sequence.run()
        assert not sequence.outputs["y"].is_tensor
        assert strings.audit().outputs[0].allocates == "holds strings"
        assert sequence.audit().outputs[0].allocates == "is a sequence"

    @pytest.mark.parametrize(("model", "why"), [(models.from_strings, "strings"), (models.from_sequence, "a sequence")])
    def test_no_memory_can_be_bound_for_such_inputs(self, model, why):
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

    @pytest.mark.parametrize(
        ("shapes", "error", "words"),
        [
            (None, ShapeError, r"input 'ids'.*\[batch, length\] is open"),
            ({"ids": (1, 2)}, ShapeError, "input 'mask'"),
            ({"ids": (1, 2), "mask": (1, 2), "masc": (1, 2)}, UnknownNameError, "'masc'.*'ids', 'mask'"),
            ([(1, 2)], ArgumentError, "2 inputs.*got 1"),
            ({"ids": (1,), "mask": (1, 2)}, ShapeError, r"input 'ids'.*\[batch, length\].*\[1\]"),
            ({"ids": (1, -1), "mask": (1, 2)}, ShapeError, "input 'ids'.*-1"),
            ({"ids": (1, 2.0), "mask": (1, 2)}, ShapeError, "input 'ids'.*2.0"),
            ({"ids": (1, True), "mask": (1, 2)}, ShapeError, "input 'ids'.*True"),
            ({"ids": (1, 1 << 70), "mask": (1, 2)}, ShapeError, "input 'ids'"),
            ({"ids": (1 << 40, 1 << 40), "mask": (1, 2)}, AllocationError, "input 'ids'"),
            ({"ids": (1 << 20, 1 << 40), "mask": (1, 2)}, AllocationError, "input 'ids'"),
            ({"ids": None, "mask": (1, 2)}, ShapeError, "input 'ids'"),
            ("ids", DTypeError, "shapes.*str"),
            (7, DTypeError, "shapes.*int"),
        ],
    )
    def test_shapes_that_cannot_be(self, shapes, error, words):
        session = Session(models.tokens())
        with pytest.raises(error, match=words):
            session.lane(shapes)
        assert session.lane([(1, 2), (1, 2)]).outputs["score"].shape == (1,)

    def test_a_given_shape_must_be_the_models(self):
        with pytest.raises(ShapeError, match=r"input 'x'.*\[4\].*\[5\]"):
            Session(models.add()).lane({"x": (5,)})
        with pytest.raises(ShapeError, match=r"output 'z'.*\[4\].*\[5\]"):
            Session(models.add()).lane(output_shapes={"z": (5,)})
        with pytest.raises(UnknownNameError, match="no output 'x'"):
            Session(models.add()).lane(output_shapes={"x": (4,)})

    def test_trial_runs_settle_what_depends_on_shapes_alone(self):
        lane = Session(models.convolution()).lane([(1, 1, 5, 7)])
        assert lane.outputs["features"].shape == (1, 2, 3, 5)
        lane.inputs["image"][...] = random(0, (1, 1, 5, 7))
        lane.run()
        expected = Session(models.convolution()).run({"image": lane.inputs["image"]})[0]
        np.testing.assert_array_equal(lane.outputs["features"], expected)
        assert lane.audit().allocations == ()

    def test_a_wrong_output_shape_fails_by_name_and_harms_nothing(self):
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

    def test_a_model_that_declares_a_wrong_shape(self):
        session = Session(models.wrongly_declared())
        lane = session.lane([(5,)])
        with pytest.raises(ShapeError, match="'y'"):
            lane.run()
        lane = session.lane([(5,)], outputs=LaneMemory.left())
        lane.inputs["x"][...] = range(5)
        lane.run()
        np.testing.assert_array_equal(lane.outputs["y"], np.arange(1, 5, dtype=np.float32))


class TestLeftOutputs:
    def test_read_anew_each_run_while_old_views_stay(self):
        lane = Session(models.non_zero()).lane()
        views = []
        wanted = [[1, 0, 0, 0], [0, 1, 1, 1], [0, 0, 0, 0], [0, 0, 1, 1]]
        for data in wanted:
            lane.inputs["x"][...] = data
            lane.run()
            views.append(lane.outputs["indices"])
        lane.close()
        for data, view in zip(wanted, views, strict=True):
            np.testing.assert_array_equal(view, np.stack(np.nonzero(data)))

    def test_there_is_none_before_the_first_run_or_after_a_failed_one(self):
        lane = Session(models.gather()).lane([(2,)], outputs=LaneMemory.left())
        assert "y" in lane.outputs
        for key in ("y", 0):
            with pytest.raises(ArgumentError, match="output 'y'"):
                lane.outputs[key]
        lane.run()
        assert lane.outputs["y"].shape == (2, 3)
        lane.inputs["indices"][...] = 7
        with pytest.raises(InvalidArgumentError, match="indices element out of data bounds"):
            lane.run()
        with pytest.raises(ArgumentError, match="output 'y'"):
            lane.outputs["y"]
        lane.inputs["indices"][...] = 1
        lane.run()
        np.testing.assert_array_equal(lane.outputs["y"], [[3, 4, 5]] * 2)

    def test_on_demand(self):
        lane = Session(models.add()).lane(outputs=LaneMemory.left())
        lane.inputs["x"][...] = 1
        lane.run()
        first = lane.outputs["z"]
        lane.run()
        assert lane.outputs["z"].ctypes.data != first.ctypes.data
        assert lane.audit().allocations == ("z: left to ORT",)


class TestMemory:
    def test_inputs_and_outputs_apart(self):
        session = Session(models.add(["n"]))
        policy = zrt.BufferPolicy(alignment=1 << 20, prefault=True)
        lane = session.lane([(100,), (100,)], inputs=LaneMemory.buffers(policy), outputs=LaneMemory.allocated())
        audit = lane.audit()
        assert [(port.kind, port.policy) for port in audit.inputs] == [("buffers", str(policy))] * 2
        assert [(port.kind, port.policy) for port in audit.outputs] == [("allocated", "")]
        assert all(view.ctypes.data % (1 << 20) == 0 for view in lane.inputs.values())
        lane.inputs["x"][...], lane.inputs["y"][...] = 1, 2
        lane.run()
        np.testing.assert_array_equal(lane.outputs["z"], np.full(100, 3, np.float32))
        audit.require_zero_copy()

    def test_auto_goes_by_size(self):
        lane = Session(models.double(("n",))).lane([(1 << 19,)])
        assert {port.policy for port in (*lane.audit().inputs, *lane.audit().outputs)} == {"throughput_large"}
        assert lane.inputs["x"].ctypes.data % (2 << 20) == 0

    def test_bad_arguments(self):
        session = Session(models.add())
        with pytest.raises(DTypeError, match="inputs: expected a LaneMemory, got MemoryInfo"):
            session.lane(inputs=MemoryInfo.cpu())
        with pytest.raises(DTypeError, match="outputs: expected a MemoryInfo, got str"):
            session.lane(outputs=LaneMemory.allocated("Cpu"))
        with pytest.raises(DTypeError, match="policy"):
            session.lane(inputs=LaneMemory.buffers("huge"))
        with pytest.raises(ArgumentError, match="inputs: only outputs"):
            session.lane(inputs=LaneMemory.left())
        for arguments in ({"rebind_inputs": 1}, {"synchronize": "yes"}):
            with pytest.raises(DTypeError, match=next(iter(arguments))):
                session.lane(**arguments)
        with pytest.raises(DTypeError, match="session: expected a Session, got bytes"):
            Lane(models.add())

    @pytest.mark.parametrize("memory", [LaneMemory.allocated, LaneMemory.left])
    @pytest.mark.parametrize("where", [MemoryInfo.cuda(), MemoryInfo.cuda_pinned()])
    def test_memory_that_the_session_does_not_have(self, memory, where):
        with pytest.raises(ArgumentError, match=f"outputs: this session has no allocator for '{where.name}'"):
            Session(models.add()).lane(outputs=memory(where))

    def test_rebinding(self):
        session = Session(models.add())
        assert session.lane().rebound == frozenset()
        assert session.lane(rebind_inputs=False).rebound == frozenset()
        lane = session.lane(rebind_inputs=True)
        assert lane.rebound == {"x", "y"}
        assert all(port.rebound for port in lane.audit().inputs)
        for value in (1, 2):
            lane.inputs["x"][...] = value
            lane.run()
            np.testing.assert_array_equal(lane.outputs["z"], np.full(4, value, np.float32))

    def test_synchronizing(self):
        session = Session(models.add())
        for given, expected in ((None, False), (True, True), (False, False)):
            lane = session.lane(synchronize=given)
            assert lane.synchronize is lane.audit().synchronize is expected
            lane.inputs["x"][...] = 3
            lane.run()
            np.testing.assert_array_equal(lane.outputs["z"], np.full(4, 3, np.float32))


class TestRunning:
    def test_run_with_options(self):
        lane = Session(models.add()).lane()
        lane.inputs["x"][...] = 1
        lane.run_with(RunOptions(tag="tagged", log_severity_level="ERROR"))
        np.testing.assert_array_equal(lane.outputs["z"], np.ones(4, np.float32))
        for options in (None, "tag", SessionOptions()):
            with pytest.raises(DTypeError, match="options: expected RunOptions"):
                lane.run_with(options)
        closed = RunOptions()
        closed.close()
        with pytest.raises(ClosedError, match="RunOptions"):
            lane.run_with(closed)

    def test_terminated_from_another_thread_and_usable_after_reset(self, counting):
        with long_run(counting) as options:
            pass
        counting.inputs["turns"][...] = 3
        with pytest.raises(TerminatedError):
            counting.run_with(options)
        options.reset()
        counting.run_with(options)
        np.testing.assert_array_equal(counting.outputs["end"], np.array([3, 3], np.float32))
        counting.run()

    def test_a_second_thread_is_refused_and_breaks_nothing(self, counting):
        with long_run(counting):
            for use in (
                counting.run,
                lambda: counting.run_with(RunOptions()),
                counting.prime,
                counting.audit,
                counting.run_with_allocator_stats,
            ):
                with pytest.raises(BusyError, match="this Lane is in use by another thread"):
                    use()
        counting.inputs["turns"][...] = 2
        counting.run()
        np.testing.assert_array_equal(counting.outputs["end"], np.array([2, 2], np.float32))

    def test_reading_what_ort_makes_is_refused_during_a_run(self):
        session = Session(models.counting_loop(), SessionOptions(intra_op_num_threads=1))
        lane = session.lane(outputs=LaneMemory.left())
        with long_run(lane), pytest.raises(BusyError, match="this Lane"):
            lane.outputs["end"]

    def test_prime(self, counting):
        counting.inputs["turns"][...] = 1
        before = counting.session.allocator().stats().num_allocs
        counting.prime(3)
        each = (counting.session.allocator().stats().num_allocs - before) // 3
        counting.prime()
        assert counting.session.allocator().stats().num_allocs - before == 4 * each > 0
        counting.prime(0)
        assert counting.session.allocator().stats().num_allocs - before == 4 * each
        with pytest.raises(ArgumentError, match="runs: -1"):
            counting.prime(-1)
        for wrong in (True, 1.0, "1", None):
            with pytest.raises(DTypeError, match="runs"):
                counting.prime(wrong)

    def test_allocator_statistics_around_a_run(self):
        session = Session(build.cnn().SerializeToString())
        lane = session.lane([(1, 1, 28, 28)])
        lane.prime(2)
        stats = lane.run_with_allocator_stats()
        assert stats.delta.num_allocs == stats.after.num_allocs - stats.before.num_allocs > 0
        assert stats.delta.bytes_in_use == 0
        # All that a run needs besides its buffers is an intermediate block that the arena had already.
        assert stats.delta.num_arena_extensions == 0
        left = session.lane([(1, 1, 28, 28)], outputs=LaneMemory.left())
        left.prime(2)
        assert left.run_with_allocator_stats(session.allocator()).delta.num_allocs == stats.delta.num_allocs + 1
        with pytest.raises(DTypeError, match="allocator: expected an Allocator, got int"):
            lane.run_with_allocator_stats(0)

    def test_a_failed_run_leaves_the_lane_whole(self):
        lane = Session(models.gather()).lane([(2,)])
        lane.inputs["indices"][...] = [0, 99]
        with pytest.raises(InvalidArgumentError, match="out of data bounds"):
            lane.run()
        lane.inputs["indices"][...] = [0, 1]
        lane.run()
        np.testing.assert_array_equal(lane.outputs["y"], [[0, 1, 2], [3, 4, 5]])

    def test_runs_allocate_no_python_block(self):
        code = """
            import sys
            import tracemalloc
            from itertools import repeat
            import zrt
            from tests import models

            def blocks(call, count):
                before = sys.getallocatedblocks()
                for _ in repeat(None, count):
                    call()
                return sys.getallocatedblocks() - before

            def peak(call, count):
                tracemalloc.start()
                before, _ = tracemalloc.get_traced_memory()
                tracemalloc.reset_peak()
                for _ in repeat(None, count):
                    call()
                _, highest = tracemalloc.get_traced_memory()
                tracemalloc.stop()
                return highest - before

            def nothing():
                pass

            plain = zrt.Session(models.add()).lane()
            busiest = zrt.Session(models.mixed()).lane(synchronize=True, rebind_inputs=True)
            left = zrt.Session(models.non_zero()).lane()
            for measure in (blocks, peak):
                for call in (nothing, plain.run, busiest.run, left.run):
                    measure(call, 10)
                    print(measure(call, 1000), end=" ")
                print()
        """
        for measured in python(code).splitlines():
            nothing, *runs = measured.split()
            # Neither what stays nor what comes and goes is more than for a function that does nothing.
            assert runs == [nothing] * 3


@pytest.mark.official
@pytest.mark.parametrize("name", ["cnn", "squeezenet"])
def test_8_lanes_in_8_threads_agree_with_onnxruntime(name):
    onnxruntime = pytest.importorskip("onnxruntime")
    data = build.MODELS[name]().SerializeToString()
    session = Session(data, SessionOptions(intra_op_num_threads=1))
    official_options = onnxruntime.SessionOptions()
    official_options.intra_op_num_threads = 1
    official = onnxruntime.InferenceSession(data, official_options, providers=["CPUExecutionProvider"])
    (image,) = session.inputs
    shape = tuple(size if isinstance(size, int) else 2 for size in image.shape)
    images = [random(seed, shape) for seed in range(16)]
    expected = [official.run(None, {image.name: each}) for each in images]
    runtime = zrt.Runtime(session, lanes=8, shapes=[shape])
    start = threading.Barrier(8)

    def serve(number: int) -> int:
        lane = runtime[number]
        start.wait()
        checked = 0
        for turn in range(len(images)):
            index = (number + turn) % len(images)
            lane.inputs[0][...] = images[index]
            lane.run()
            for output, wanted in zip(lane.outputs.values(), expected[index], strict=True):
                np.testing.assert_allclose(output, wanted, rtol=1e-5, atol=1e-6)
                checked += 1
        return checked

    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(serve, range(8))) == [len(images) * len(session.outputs)] * 8


class TestLifetimes:
    def test_closed(self):
        lane = Session(models.add()).lane()
        view = lane.inputs["x"]
        view[...] = 5
        assert not lane.closed
        lane.close()
        lane.close()
        assert lane.closed
        for use in (
            lane.run,
            lambda: lane.run_with(RunOptions()),
            lane.prime,
            lane.audit,
            lane.run_with_allocator_stats,
            lambda: lane.inputs,
            lambda: lane.outputs,
            lambda: lane.session,
            lane.__enter__,
        ):
            with pytest.raises(ClosedError, match="this Lane is closed"):
                use()
        np.testing.assert_array_equal(view, np.full(4, 5, np.float32))
        assert repr(lane) == "Lane(closed)"

    def test_with(self):
        with Session(models.add()).lane() as lane:
            lane.run()
        with pytest.raises(ClosedError):
            lane.run()

    def test_works_on_after_its_session_was_closed(self):
        session = Session(models.non_zero())
        lane, other = session.lane(), session.lane(outputs=LaneMemory.left())
        session.close()
        with pytest.raises(ClosedError, match="this Session is closed"):
            session.lane()
        for each in (lane, other):
            each.inputs["x"][...] = [0, 1, 0, 1]
            each.prime(2)
            np.testing.assert_array_equal(each.outputs["indices"], [[1, 3]])
            assert each.run_with_allocator_stats().after.num_allocs >= 0
            each.audit().require_zero_copy()

    @pytest.mark.parametrize("order", list(itertools.permutations(range(3))))
    def test_closed_and_dropped_in_any_order(self, order):
        session = Session(models.double())
        runtime = zrt.Runtime(session, 2, shapes=[(1, 4)])
        lane = session.lane([(1, 4)], outputs=LaneMemory.left())
        for each in (*runtime, lane):
            each.inputs["x"][...] = 4
            each.run()
        views = [(each.inputs["x"], each.outputs["y"]) for each in (*runtime, lane)]
        things = [session, runtime, lane]
        del session, runtime, lane, each
        for index in order:
            things[index].close()
            things[index] = None
            for given, made in views:
                np.testing.assert_array_equal(given, np.full((1, 4), 4, np.float32))
                np.testing.assert_array_equal(made, np.full((1, 4), 8, np.float32))

    def test_closing_during_a_run_lets_it_end(self, counting):
        with long_run(counting):
            view = counting.outputs["end"]
            counting.close()
            with pytest.raises(ClosedError):
                counting.run()
        assert view.shape == (2,)

    @pytest.mark.parametrize("outputs", [LaneMemory.buffers(), LaneMemory.allocated(), LaneMemory.left()])
    def test_freed_by_reference_counting_alone(self, outputs):
        with collector_off():
            session = Session(models.non_zero("size"))
            lane = session.lane([(4,)], outputs=outputs)
            lane.run()
            lane.audit()
            dead = [weakref.ref(lane), weakref.ref(session), weakref.ref(lane._open())]
            view = lane.outputs["indices"]
            del lane, session
            assert [ref() for ref in dead] == [None] * 3
            assert view.shape == (1, 0)

    def test_a_failure_keeps_no_lane(self):
        with collector_off():
            lane = Session(models.non_zero()).lane(output_shapes={"indices": (1, 2)})
            dead = weakref.ref(lane)
            with pytest.raises(ShapeError):
                lane.run()
            del lane
            assert dead() is None

    @pytest.mark.skipif(sys.platform != "linux", reason="reads Linux's /proc")
    def test_close_gives_the_memory_back_at_once(self):
        code = """
            import os, resource
            import zrt
            from tests import models

            def resident():
                with open("/proc/self/statm") as file:
                    return int(file.read().split()[1]) * resource.getpagesize() >> 20

            lane = zrt.Session(models.double(("n",))).lane([(16 << 20,)])
            lane.run()
            full = resident()
            lane.close()
            print(full - resident())
        """
        # Two buffers of 64 MiB, while the lane itself is still there.
        assert int(python(code)) > 120

    @pytest.mark.skipif(sys.platform != "linux", reason="reads Linux's /proc")
    def test_making_and_dropping_leaves_memory_flat(self):
        code = """
            import resource
            import zrt
            from tests import models

            def resident():
                with open("/proc/self/statm") as file:
                    return int(file.read().split()[1]) * resource.getpagesize() >> 10

            fixed, open_ended = zrt.Session(models.add()), zrt.Session(models.non_zero())
            dynamic = zrt.DynamicRuntime(zrt.Session(models.double()), 2, max_buckets=2)

            def rounds(count):
                for number in range(count):
                    lane = fixed.lane(rebind_inputs=True)
                    lane.run()
                    lane.audit()
                    left = open_ended.lane()
                    left.run()
                    left.outputs["indices"]
                    dynamic.lane({"x": (number % 5 + 1, 4)})
                    dynamic.lane([(number % 7 + 1, 4)])
                    try:
                        fixed.lane({"x": (5,)})
                    except zrt.errors.ShapeError:
                        fixed.lane().close()

            rounds(150)
            before = resident()
            rounds(300)
            print(resident() - before)
        """
        # KiB for 1,800 lanes: if one in each round stayed, it would be a megabyte or so.
        assert int(python(code)) < 512


@pytest.mark.gpu
class TestCuda:
    @pytest.fixture
    def session(self):
        return Session(build.cnn().SerializeToString(), providers=["CUDA"])

    def test_host_buffers_are_copied_and_the_audit_says_so(self, session):
        lane = session.lane([(2, 1, 28, 28)])
        expected = Session(build.cnn().SerializeToString())
        for seed in range(2):
            lane.inputs["image"][...] = random(seed, (2, 1, 28, 28))
            lane.run()
            wanted = expected.run({"image": lane.inputs["image"]})[0]
            np.testing.assert_allclose(lane.outputs["logits"], wanted, rtol=1e-3, atol=1e-3)
        assert lane.rebound == {"image"}
        assert lane.synchronize
        assert len(lane.audit().copies) == 2
        with pytest.raises(zrt.errors.ZeroCopyError, match=r"image: .*logits: "):
            lane.audit().require_zero_copy()

    def test_device_memory_on_both_sides_copies_nothing(self, session):
        cuda = LaneMemory.allocated(MemoryInfo.cuda())
        lane = session.lane([(2, 1, 28, 28)], inputs=cuda, outputs=cuda)
        lane.audit().require_zero_copy()
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
        lane.inputs["image"][...] = 1
        lane.run()
        assert lane.outputs["logits"].shape == (2, 10)
        assert {port.memory.name for port in lane.audit().outputs} == {"CudaPinned"}

    def test_outputs_left_on_the_device(self, session):
        lane = session.lane([(2, 1, 28, 28)], outputs=LaneMemory.left(MemoryInfo.cuda()))
        lane.run()
        assert lane.outputs["logits"].memory.name == "Cuda"
