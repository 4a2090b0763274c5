"""`IoBinding`: inputs and outputs bound by name, runs over them, and what happens when it goes wrong."""

from __future__ import annotations

import copy
import gc
import time
import weakref

import ml_dtypes
import numpy as np
import pytest

import zrt
from benches.models import build as bench_models
from zrt.errors import (
    ArgumentError,
    BusyError,
    ClosedError,
    DTypeError,
    NotCopyableError,
    OrtError,
    ShapeError,
    TerminatedError,
    UnknownNameError,
    UnsupportedError,
)
from zrt.types import ElementType, ValueKind

# Every type that ONNX Runtime has a kernel for.
MADE = [kind for kind in ElementType if kind.bits and not kind.refused and kind is not ElementType.FLOAT4E2M1]


def f32(*numbers: object) -> np.ndarray:
    return np.array(numbers, np.float32)


class Tracked(np.ndarray):
    """An array whose end can be seen."""


class TestInputs:
    def test_from_arrays_values_and_buffers(self, load):
        session = load("(float[n] a, float[n] b, float[n] c) => (float[n] y) { y = Sum(a, b, c) }")
        binding = session.binding()
        array, buffer, over = f32(1, 2), zrt.Buffer((2,), np.float32), f32(100, 200)
        binding.bind_input("a", array)
        binding.bind_input("b", buffer)
        binding.bind_input("c", zrt.Value.from_array(over))
        binding.bind_output("y")
        buffer.array[...] = [10, 20]
        binding.run()
        assert binding.numpy()["y"].tolist() == [111, 222]
        # They are borrowed: what is written into them is what the next run reads.
        array[...], buffer.array[...], over[...] = 1, 1, 1
        binding.run()
        assert binding.numpy()["y"].tolist() == [3, 3]

    def test_binding_again_replaces(self, relu):
        binding = relu.binding()
        binding.bind_output("y")
        for array in (f32(1), f32(2, 3), f32()):
            binding.bind_input("x", array)
            binding.run()
            assert binding.numpy()["y"].tolist() == array.tolist()

    def test_are_kept_alive(self, relu):
        binding = relu.binding()
        array = f32(1, 2).view(Tracked)
        alive = weakref.ref(array)
        binding.bind_input("x", array)
        binding.bind_output("y")
        del array
        gc.collect()
        assert alive() is not None
        binding.run()
        assert binding.numpy()["y"].tolist() == [1, 2]
        binding.bind_input("x", f32(5))
        gc.collect()
        assert alive() is None

    def test_overridable_initializers(self, load):
        session = load("(float[2] x, float[2] w = {10, 20}) => (float[2] y) { y = Add(x, w) }")
        binding = session.binding()
        binding.bind_input("x", f32(1, 2))
        binding.bind_output("y")
        binding.run()
        assert binding.numpy()["y"].tolist() == [11, 22]
        binding.bind_input("w", f32(5, 6))
        binding.run()
        assert binding.numpy()["y"].tolist() == [6, 8]

    def test_read_only_arrays(self, relu):
        binding = relu.binding()
        binding.bind_input("x", np.frombuffer(f32(1, -1).tobytes(), np.float32))
        binding.bind_output("y")
        binding.run()
        assert binding.numpy()["y"].tolist() == [1, 0]

    @pytest.mark.parametrize(
        ("name", "feed", "error", "message"),
        [
            ("z", f32(1), UnknownNameError, "the model has no input 'z'; it has 'x'"),
            (None, f32(1), UnknownNameError, "the model has no input None"),
            ("y", f32(1), UnknownNameError, "the model has no input 'y'"),
            ("x", np.ones(1), DTypeError, "input 'x': expected float32, got float64"),
            ("x", f32([1]), ShapeError, r"input 'x': expected shape \[n\], got \[1, 1\]"),
            ("x", f32(1, 2, 3)[::2], ArgumentError, "input 'x': is not C-contiguous"),
            ("x", np.ones(1, ">f4"), ArgumentError, "input 'x': is in the other byte order"),
            ("x", [1.0], DTypeError, "input 'x': expected an array, a Value or a Buffer, got list"),
            ("x", None, DTypeError, "input 'x': expected an array"),
        ],
    )
    def test_refused(self, relu, name, feed, error, message):
        binding = relu.binding()
        binding.bind_input("x", f32(-1, 4))
        binding.bind_output("y")
        with pytest.raises(error, match=message):
            binding.bind_input(name, feed)
        binding.run()
        assert binding.numpy()["y"].tolist() == [0, 4]

    def test_strings_and_sequences_are_refused(self, load):
        strings = load("(string[n] x) => (int64[n] y) { y = Cast <to = 7> (x) }").binding()
        with pytest.raises(UnsupportedError, match="input 'x' holds strings"):
            strings.bind_input("x", np.array(["1"]))
        sequence = load("(seq(float[n]) x) => (int64 y) { y = SequenceLength(x) }").binding()
        with pytest.raises(UnsupportedError, match="input 'x' is a sequence"):
            sequence.bind_input("x", [f32(1)])


class TestOutputs:
    @pytest.mark.parametrize("form", ["array", "value", "buffer"])
    def test_into_the_callers_memory(self, relu, form):
        array, buffer = np.full(2, 9, np.float32), zrt.Buffer((2,), np.float32)
        place = {"array": array, "value": zrt.Value.from_array(array), "buffer": buffer}[form]
        written = buffer.array if form == "buffer" else array
        binding = relu.binding()
        binding.bind_input("x", f32(-1, 2))
        binding.bind_output("y", place)
        binding.run()
        assert written.tolist() == [0, 2]
        assert np.shares_memory(binding.numpy()["y"], written)

    def test_into_what_ort_allocated(self, relu):
        place = zrt.Value.allocate((2,), np.float32, relu.allocator())
        binding = relu.binding()
        binding.bind_input("x", f32(-1, 2))
        binding.bind_output("y", place)
        binding.run()
        assert place.numpy().tolist() == [0, 2]
        assert binding.outputs()["y"].address == place.address

    @pytest.mark.parametrize("place", [None, zrt.MemoryInfo.cpu()], ids=["default", "host"])
    def test_left_to_ort(self, relu, place):
        binding = relu.binding()
        binding.bind_output("y", place)
        for array in (f32(-1, 2), f32(3), f32(), f32(1, 2, 3)):
            binding.bind_input("x", array)
            binding.run()
            value = binding.outputs()["y"]
            assert value.memory.is_host
            assert value.shape == array.shape
            assert value.numpy().tolist() == np.maximum(array, 0).tolist()

    def test_left_to_ort_earlier_results_stay(self, relu):
        x = f32(1, 2)
        binding = relu.binding()
        binding.bind_input("x", x)
        binding.bind_output("y")
        binding.run()
        first = binding.numpy()["y"]
        x[...] = 7
        binding.run()
        assert first.tolist() == [1, 2]
        assert binding.numpy()["y"].tolist() == [7, 7]

    def test_fed_back_let_go_of_the_run_before(self, relu):
        """A loop whose state goes through the model needs the memory of one step, not of all."""
        binding = relu.binding()
        x = f32(1, 2).view(Tracked)
        alive = weakref.ref(x)
        binding.bind_input("x", x)
        del x
        binding.bind_output("y")
        binding.run()
        state = binding.outputs()["y"]
        binding.bind_input("x", state)
        gc.collect()
        assert alive() is None
        assert state.numpy().tolist() == [1, 2]

    def test_of_shapes_that_the_data_decide(self, nonzero):
        x = f32(0, 0, 0)
        binding = nonzero.binding()
        binding.bind_input("x", x)
        binding.bind_output("where")
        for numbers, expected in (([0, 1, 1], [[1, 2]]), ([0, 0, 0], [[]]), ([1, 1, 1], [[0, 1, 2]])):
            x[...] = numbers
            binding.run()
            assert binding.numpy()["where"].tolist() == expected

    def test_some_of_each_in_the_order_of_their_binding(self, load):
        session = load("(float[n] x) => (float[n] a, float[n] b, float[n] c) { a = Neg(x)  b = Abs(x)  c = Relu(x) }")
        binding = session.binding()
        into = np.zeros(1, np.float32)
        binding.bind_input("x", f32(-2))
        binding.bind_output("c", into)
        binding.bind_output("a")
        for _ in range(2):
            binding.run()
            assert list(binding.outputs()) == ["c", "a"]
            assert {name: array.item() for name, array in binding.numpy().items()} == {"c": 0, "a": 2}
        # From the caller's memory to ORT's, and back.
        binding.bind_output("c")
        into[...] = 9
        binding.run()
        assert binding.numpy()["c"].tolist() == [0]
        assert into.tolist() == [9]
        binding.bind_output("a", into)
        binding.run()
        assert into.tolist() == [2]
        assert list(binding.outputs()) == ["c", "a"]

    def test_not_there_before_a_run(self, relu):
        binding = relu.binding()
        assert binding.outputs() == {}
        binding.bind_input("x", f32(1))
        binding.bind_output("y")
        assert binding.outputs() == {}
        binding.run()
        assert list(binding.outputs()) == ["y"]

    def test_not_there_after_a_failed_run(self, add):
        binding = add.binding()
        binding.bind_input("x", f32(1, 2))
        binding.bind_input("y", f32(1, 2))
        binding.bind_output("z")
        binding.run()
        binding.bind_input("y", f32(1, 2, 3))
        with pytest.raises(OrtError, match="Add"):
            binding.run()
        assert binding.outputs() == {}
        binding.bind_input("y", f32(1, 1))
        binding.run()
        assert binding.numpy()["z"].tolist() == [2, 3]

    def test_outlive_everything(self, relu):
        into = f32(0, 0).view(Tracked)
        alive = weakref.ref(into)
        binding = relu.binding()
        binding.bind_input("x", f32(-1, 2))
        binding.bind_output("y", into)
        binding.run()
        bound = binding.numpy()["y"]
        binding.bind_output("y")
        binding.run()
        made = binding.outputs()["y"]
        binding.close()
        relu.close()
        del binding, relu, into
        gc.collect()
        junk = [np.full(2, 9, np.float32) for _ in range(1000)]
        assert alive() is not None
        assert bound.tolist() == made.numpy().tolist() == [0, 2]
        del junk

    @pytest.mark.parametrize("kind", MADE, ids=lambda kind: kind.name)
    def test_every_type_into_a_buffer(self, load, kind):
        session = load(f"(float[n] x) => ({kind.onnx_name}[n] y) {{ y = Cast <to = {kind.onnx_code}> (x) }}", opset=25)
        x = f32(1, 1, 1, 1)
        buffer = zrt.Buffer((4,), kind)
        binding = session.binding()
        binding.bind_input("x", x)
        binding.bind_output("y", buffer)
        binding.run()
        array = buffer.unpack() if kind.packed else buffer.array
        assert array.astype(np.float32).tolist() == x.tolist()

    def test_sequences_and_strings_are_left_to_ort(self, load):
        session = load("""(float[n] x) => (seq(float[n]) y, string[n] s)
                          { y = SequenceConstruct(x)  s = Cast <to = 8> (x) }""")
        binding = session.binding()
        binding.bind_input("x", f32(1))
        binding.bind_output("y")
        binding.bind_output("s")
        binding.run()
        values = binding.outputs()
        assert values["y"].kind is ValueKind.SEQUENCE
        assert values["s"].element_type is ElementType.STRING
        with pytest.raises(UnsupportedError, match="this value is a sequence"):
            binding.numpy()
        for name, message in (("y", "output 'y' is a sequence"), ("s", "output 's' holds strings")):
            with pytest.raises(UnsupportedError, match=message):
                binding.bind_output(name, np.zeros(1))

    def test_an_initializer(self, load):
        session = load("(float[n] x) => (float[n] y, float[2] w) <float[2] w = {5, 6}> { y = Neg(x) }")
        binding = session.binding()
        into = np.zeros(2, np.float32)
        binding.bind_input("x", f32(1))
        binding.bind_output("w", into)
        binding.run()
        assert into.tolist() == [5, 6]
        binding.bind_output("w")
        binding.run()
        binding.numpy()["w"][...] = 99
        binding.run()
        assert binding.numpy()["w"].tolist() == [5, 6]

    @pytest.mark.parametrize(
        ("name", "place", "error", "message"),
        [
            ("z", None, UnknownNameError, "the model has no output 'z'; it has 'y'"),
            ("x", None, UnknownNameError, "the model has no output 'x'"),
            ("y", np.zeros(2), DTypeError, "output 'y': expected float32, got float64"),
            ("y", np.zeros((1, 2), np.float32), ShapeError, r"output 'y': expected shape \[n\], got \[1, 2\]"),
            ("y", np.zeros(4, np.float32)[::2], ArgumentError, "output 'y': is not C-contiguous"),
            ("y", np.zeros(2, ">f4"), ArgumentError, "output 'y': is in the other byte order"),
            ("y", np.frombuffer(bytes(8), np.float32), ArgumentError, "output 'y': the array is read-only"),
            (
                "y",
                zrt.Value.from_array(np.frombuffer(bytes(8), np.float32)),
                ArgumentError,
                "output 'y': the array is read-only",
            ),
            ("y", np.zeros(2, ml_dtypes.int4), DTypeError, "output 'y': ONNX Runtime packs INT4"),
            ("y", [0.0, 0.0], DTypeError, "output 'y': expected an array, a Value or a Buffer, got list"),
            ("y", zrt.MemoryInfo("Nowhere"), ArgumentError, "Nowhere"),
            ("y", "Cpu", DTypeError, "output 'y': expected an array, a Value or a Buffer, got str"),
        ],
    )
    def test_refused(self, relu, name, place, error, message):
        binding = relu.binding()
        binding.bind_input("x", f32(-1, 4))
        binding.bind_output("y")
        with pytest.raises(error, match=message):
            binding.bind_output(name, place)
        binding.run()
        assert binding.numpy()["y"].tolist() == [0, 4]

    def test_what_was_refused_is_not_bound(self, load):
        binding = load("(float[n] x) => (float[n] a, float[n] b) { a = Neg(x)  b = Abs(x) }").binding()
        binding.bind_input("x", f32(-2))
        for place in (zrt.MemoryInfo("Nowhere"), np.zeros(1)):
            with pytest.raises(zrt.Error):
                binding.bind_output("a", place)
        binding.bind_output("b")
        binding.run()
        assert {name: array.tolist() for name, array in binding.numpy().items()} == {"b": [2]}

    def test_a_closed_place(self, relu):
        value, buffer = zrt.Value.from_array(f32(1)), zrt.Buffer((1,), np.float32)
        value.close()
        buffer.close()
        for place in (value, buffer):
            with pytest.raises(ClosedError, match=f"output 'y': this {type(place).__name__} is closed"):
                relu.binding().bind_output("y", place)

    @pytest.mark.parametrize("size", [1, 3])
    def test_of_another_size_than_comes_out(self, relu, size):
        binding = relu.binding()
        binding.bind_input("x", f32(1, 2))
        binding.bind_output("y", np.zeros(size, np.float32))
        with pytest.raises(ShapeError, match=r"another shape than is bound .*: .*output 'y'"):
            binding.run(zrt.RunOptions(log_severity_level=4))
        binding.bind_output("y")
        binding.run()
        assert binding.numpy()["y"].tolist() == [1, 2]


class TestInputsThatAreOutputs:
    TEXT = "(float[n] x) => (float[n] y, float[n] x) { y = Neg(x) }"

    def test_come_as_the_bound_memory(self, load):
        x = f32(1, 2)
        binding = load(self.TEXT).binding()
        binding.bind_input("x", x)
        binding.bind_output("x")
        binding.run()
        assert np.shares_memory(binding.numpy()["x"], x)

    def test_keep_that_memory(self, load):
        binding = load(self.TEXT).binding()
        x = f32(1, 2).view(Tracked)
        alive = weakref.ref(x)
        binding.bind_input("x", x)
        binding.bind_output("x")
        binding.run()
        same = binding.numpy()["x"]
        del x
        binding.bind_input("x", f32(3))
        binding.close()
        gc.collect()
        assert alive() is not None
        assert same.tolist() == [1, 2]

    @pytest.mark.parametrize("how", ["bound anew", "cleared"])
    def test_are_gone_with_the_input(self, load, how):
        # ONNX Runtime would go on handing out the memory of the former feed.
        binding = load(self.TEXT).binding()
        x = f32(1, 2).view(Tracked)
        alive = weakref.ref(x)
        binding.bind_input("x", x)
        binding.bind_output("x")
        binding.run()
        del x
        if how == "cleared":
            binding.clear_inputs()
        else:
            binding.bind_input("x", f32(3))
        gc.collect()
        assert alive() is None
        assert binding.outputs() == {}
        binding.bind_input("x", f32(4))
        binding.run()
        assert binding.numpy()["x"].tolist() == [4]

    def test_cannot_be_written_elsewhere(self, load):
        binding = load(self.TEXT).binding()
        with pytest.raises(ArgumentError, match="output 'x' is an input as well"):
            binding.bind_output("x", np.zeros(2, np.float32))
        overridable = load("(float[2] x, float[2] w = {1, 2}) => (float[2] y, float[2] w) { y = Add(x, w) }").binding()
        with pytest.raises(ArgumentError, match="output 'w' is an input as well"):
            overridable.bind_output("w", np.zeros(2, np.float32))


class TestRun:
    def test_what_is_missing(self, add):
        binding = add.binding()
        with pytest.raises(ArgumentError, match="input 'x', 'y' is not bound"):
            binding.run()
        binding.bind_input("y", f32(1))
        with pytest.raises(ArgumentError, match="input 'x' is not bound"):
            binding.run()
        binding.bind_input("x", f32(1))
        with pytest.raises(ArgumentError, match="no output is bound"):
            binding.run()
        binding.bind_output("z")
        binding.run()
        assert binding.numpy()["z"].tolist() == [2]

    def test_clear(self, add):
        binding = add.binding()
        into = np.zeros(1, np.float32)
        binding.bind_input("x", f32(1))
        binding.bind_input("y", f32(2))
        binding.bind_output("z", into)
        binding.run()
        binding.clear_inputs()
        with pytest.raises(ArgumentError, match="input 'x', 'y' is not bound"):
            binding.run()
        binding.bind_input("x", f32(5))
        binding.bind_input("y", f32(5))
        binding.run()
        assert into.tolist() == [10]
        binding.clear_outputs()
        assert binding.outputs() == {}
        with pytest.raises(ArgumentError, match="no output is bound"):
            binding.run()
        binding.bind_output("z")
        binding.run()
        assert binding.numpy()["z"].tolist() == [10]
        assert into.tolist() == [10]

    def test_clearing_lets_go(self, relu):
        x, y = (f32(1).view(Tracked) for _ in range(2))
        alive = [weakref.ref(x), weakref.ref(y)]
        binding = relu.binding()
        binding.bind_input("x", x)
        binding.bind_output("y", y)
        binding.run()
        del x, y
        gc.collect()
        assert all(ref() is not None for ref in alive)
        binding.clear_inputs()
        binding.clear_outputs()
        gc.collect()
        assert all(ref() is None for ref in alive)

    def test_synchronize(self, relu):
        binding = relu.binding()
        binding.bind_input("x", f32(1))
        binding.bind_output("y")
        binding.synchronize_inputs()
        binding.run()
        binding.synchronize_outputs()
        assert binding.numpy()["y"].tolist() == [1]

    def test_with_options(self, relu, build, capfd):
        binding = zrt.Session(build("(float[n] x, float[n] y) => (float[n] z) { z = Add(x, y) }")).binding()
        binding.bind_input("x", f32(1, 2))
        binding.bind_input("y", f32(1, 2, 3))
        binding.bind_output("z")
        with pytest.raises(OrtError):
            binding.run(zrt.RunOptions(tag="request 18"))
        assert "request 18" in capfd.readouterr().err
        binding.bind_input("y", f32(1, 1))
        binding.run(zrt.RunOptions(tag="request 19"))
        assert binding.numpy()["z"].tolist() == [2, 3]

    def test_options_that_are_none(self, relu):
        binding = relu.binding()
        binding.bind_input("x", f32(1))
        binding.bind_output("y")
        with pytest.raises(DTypeError, match="options: expected RunOptions, got dict"):
            binding.run({"tag": "x"})
        options = zrt.RunOptions()
        options.close()
        with pytest.raises(ClosedError, match="this RunOptions is closed"):
            binding.run(options)
        binding.run()
        assert binding.numpy()["y"].tolist() == [1]

    @pytest.mark.official
    def test_agrees_with_onnxruntime(self, official):
        model = bench_models.cnn()
        session = zrt.Session(model, zrt.SessionOptions(intra_op_num_threads=1))
        image = np.empty((2, 1, 28, 28), np.float32)
        logits = np.empty((2, 10), np.float32)
        binding = session.binding()
        binding.bind_input("image", image)
        binding.bind_output("logits", logits)
        random = np.random.default_rng(0)
        for _ in range(3):
            image[...] = random.standard_normal(image.shape)
            binding.run()
            np.testing.assert_allclose(logits, official(model, {"image": image})[0], rtol=1e-5, atol=1e-6)


class TestLifetimes:
    def test_goes_on_when_the_session_is_closed(self, relu):
        binding = relu.binding()
        relu.close()
        binding.bind_input("x", f32(1))
        binding.bind_output("y")
        binding.run()
        assert binding.numpy()["y"].tolist() == [1]

    def test_of_a_closed_session(self, relu):
        relu.close()
        with pytest.raises(ClosedError, match="this Session is closed"):
            zrt.IoBinding(relu)

    def test_of_what_is_no_session(self):
        with pytest.raises(DTypeError, match="session: expected a Session, got str"):
            zrt.IoBinding("model.onnx")

    def test_closed(self, relu):
        binding = relu.binding()
        binding.bind_input("x", f32(1))
        binding.bind_output("y")
        binding.close()
        assert binding.closed
        for call in (
            binding.run,
            binding.outputs,
            binding.numpy,
            binding.clear_inputs,
            binding.clear_outputs,
            binding.synchronize_inputs,
            binding.synchronize_outputs,
            binding.__enter__,
            lambda: binding.bind_input("x", f32(1)),
            lambda: binding.bind_output("y"),
        ):
            with pytest.raises(ClosedError, match="this IoBinding is closed"):
                call()
        binding.close()

    def test_with(self, relu):
        with relu.binding() as binding:
            binding.bind_input("x", f32(1))
        assert binding.closed

    def test_closing_lets_everything_go(self, load):
        session = load("(float[n] x) => (float[n] y) { y = Relu(x) }")
        x, y = (f32(1).view(Tracked) for _ in range(2))
        alive = [weakref.ref(thing) for thing in (x, y, session)]
        binding = session.binding()
        binding.bind_input("x", x)
        binding.bind_output("y", y)
        binding.run()
        del x, y, session
        gc.collect()
        assert all(ref() is not None for ref in alive)
        binding.close()
        gc.collect()
        assert all(ref() is None for ref in alive)

    def test_copies_are_refused(self, relu):
        with pytest.raises(NotCopyableError, match="IoBinding"):
            copy.deepcopy(relu.binding())


class TestThreads:
    @pytest.fixture
    def running(self, loop, background, endless):
        """A binding in the middle of a run in another thread; its job, and what ends it."""
        options = zrt.RunOptions()
        binding = loop.binding()
        for name, array in endless.items():
            binding.bind_input(name, array)
        binding.bind_output("y")
        job = background(lambda: binding.run(options))
        job.under_way()
        yield binding, job, options
        if not options.closed:
            options.terminate()

    def test_a_second_thread_is_kept_out(self, running):
        binding, job, options = running
        for call in (
            binding.run,
            binding.outputs,
            binding.numpy,
            binding.clear_inputs,
            binding.clear_outputs,
            binding.synchronize_inputs,
            binding.synchronize_outputs,
            lambda: binding.bind_input("n", np.array(1)),
            lambda: binding.bind_output("y"),
            lambda: binding.bind_output("y", np.zeros(4, np.float32)),
        ):
            with pytest.raises(BusyError, match="this IoBinding is in use by another thread"):
                call()
        assert job.running
        options.terminate()
        with pytest.raises(TerminatedError):
            job.result()
        binding.bind_input("n", np.array(3))
        binding.run()
        assert binding.numpy()["y"].tolist() == [8] * 4

    def test_close_in_the_middle(self, running, loop):
        binding, job, options = running
        binding.close()
        loop.close()
        gc.collect()
        with pytest.raises(ClosedError, match="this IoBinding is closed"):
            binding.run()
        time.sleep(0.02)
        assert job.running
        options.terminate()
        with pytest.raises(TerminatedError):
            job.result()

    def test_close_in_the_middle_of_a_run_that_ends_well(self, loop, background):
        into = np.zeros(4, np.float32)
        binding = loop.binding()
        binding.bind_input("n", np.array(50_000))
        binding.bind_input("x", np.zeros(4, np.float32))
        binding.bind_output("y", into)
        into[...] = 9
        job = background(binding.run)
        job.under_way()
        binding.close()
        loop.close()
        del binding
        gc.collect()
        job.result()
        assert into.tolist() == [0] * 4

    def test_bindings_of_one_session_in_many_threads(self, add, background):
        def work(size):
            binding = add.binding()
            x, z = np.ones(size, np.float32), np.zeros(size, np.float32)
            binding.bind_input("x", x)
            binding.bind_input("y", x)
            binding.bind_output("z", z)
            for turn in range(300):
                x[...] = turn
                binding.run()
                assert z.tolist() == [2 * turn] * size

        for job in [background(lambda size=size: work(size)) for size in range(1, 9)]:
            job.result()


@pytest.mark.gpu
class TestCuda:
    @pytest.fixture
    def cuda(self):
        return zrt.Session(bench_models.cnn(), providers=["cuda"])

    @pytest.fixture
    def image(self):
        return np.random.default_rng(0).standard_normal((2, 1, 28, 28), np.float32)

    @pytest.fixture
    def expected(self, image):
        return zrt.Session(bench_models.cnn()).run([image])[0]

    def test_an_output_on_the_device(self, cuda, image, expected):
        binding = cuda.binding()
        binding.bind_input("image", image)
        binding.bind_output("logits", zrt.MemoryInfo.cuda())
        binding.run()
        value = binding.outputs()["logits"]
        assert value.memory.name == "Cuda"
        with pytest.raises(UnsupportedError, match="lies on Cuda:0"):
            binding.numpy()
        host = np.empty(value.shape, np.float32)
        zrt.copy(value, host)
        np.testing.assert_allclose(host, expected, rtol=1e-2, atol=1e-2)

    def test_an_output_in_pinned_memory(self, cuda, image, expected):
        binding = cuda.binding()
        binding.bind_input("image", image)
        binding.bind_output("logits", zrt.MemoryInfo.cuda_pinned())
        for _ in range(2):
            binding.run()
            np.testing.assert_allclose(binding.numpy()["logits"], expected, rtol=1e-2, atol=1e-2)

    def test_an_output_in_the_callers_memory(self, cuda, image, expected):
        logits = np.zeros((2, 10), np.float32)
        binding = cuda.binding()
        binding.bind_input("image", image)
        binding.bind_output("logits", logits)
        binding.run()
        np.testing.assert_allclose(logits, expected, rtol=1e-2, atol=1e-2)

    def test_an_input_is_copied_when_it_is_bound(self, cuda, image, expected):
        binding = cuda.binding()
        binding.bind_input("image", image)
        binding.bind_output("logits")
        image[...] = 0
        binding.run()
        np.testing.assert_allclose(binding.numpy()["logits"], expected, rtol=1e-2, atol=1e-2)
