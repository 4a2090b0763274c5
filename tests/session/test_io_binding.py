"""`IoBinding`: inputs bound by name, runs, lifetimes, threads and errors."""

from __future__ import annotations

import copy
import gc
import time
import weakref

import numpy as np
import pytest

import zrt
from benches.models import build as bench_models
from tests.support import models
from tests.support.arrays import Tracked, f32
from zrt.errors import (
    ArgumentError,
    BusyError,
    ClosedError,
    DTypeError,
    InvalidArgumentError,
    NotCopyableError,
    OrtError,
    ShapeError,
    TerminatedError,
    UnknownNameError,
    UnsupportedError,
)
from zrt.session import io_binding


class TestInputs:
    def test_arrays_values_and_buffers_are_borrowed(self, load):
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
        # They are borrowed: the next run reads later writes.
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

    def test_binding_keeps_feeds_alive(self, relu):
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
    def test_bad_feeds_raise(self, relu, name, feed, error, message):
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


class TestRun:
    def test_prime_runs(self, relu):
        binding = relu.binding()
        binding.bind_input("x", f32(-1, 2))
        with pytest.raises(ArgumentError, match="no output is bound"):
            binding.prime()
        binding.bind_output("y")
        binding.prime(0)
        binding.prime(2)
        assert binding.numpy()["y"].tolist() == [0, 2]
        with pytest.raises(DTypeError, match="runs: expected an int, got float"):
            binding.prime(1.5)

    def test_missing_bindings_raise(self, add):
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

    @pytest.mark.parametrize(
        ("unbind", "message"),
        [("clear_inputs", "input 'x', 'y' is not bound"), ("clear_outputs", "no output is bound")],
    )
    @pytest.mark.parametrize(
        ("function", "arguments"),
        [("run_lane", ()), ("run_limited", (zrt.RunOptions(),)), ("run_limited", (None, 60))],
    )
    def test_unbinding_just_before_a_run_raises(self, add, monkeypatch, unbind, message, function, arguments):
        binding = add.binding()
        binding.bind_input("x", f32(1))
        binding.bind_input("y", f32(2))
        binding.bind_output("z")
        binding.run()
        run = getattr(io_binding, function)

        def unbind_first(*given):
            getattr(binding, unbind)()
            return run(*given)

        # Another thread may do so at any moment before the run.
        monkeypatch.setattr(io_binding, function, unbind_first)
        with pytest.raises(ArgumentError, match=message):
            binding.run(*arguments)

    def test_sequence_is_no_memory_for_a_tensor(self, load):
        binding = load("(float x) => (float y) { y = Neg(x) }").binding()
        with pytest.raises(DTypeError, match=r"output 'y': expected float32\[\], got a sequence"):
            binding.bind_output("y", zrt.Value.from_sequence([f32(1)]))

    def test_clear_unbinds(self, add):
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

    def test_clear_releases_the_memory(self, relu):
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

    def test_run_with_options(self, relu, build, capfd):
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

    def test_wrong_options_raise(self, relu):
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
    def test_binding_outlives_the_session(self, relu):
        binding = relu.binding()
        relu.close()
        binding.bind_input("x", f32(1))
        binding.bind_output("y")
        binding.run()
        assert binding.numpy()["y"].tolist() == [1]

    def test_binding_of_a_closed_session_raises(self, relu):
        relu.close()
        with pytest.raises(ClosedError, match="this Session is closed"):
            zrt.IoBinding(relu)

    def test_binding_of_another_object_raises(self):
        with pytest.raises(DTypeError, match="session: expected a Session, got str"):
            zrt.IoBinding("model.onnx")

    def test_closed_binding_raises(self, relu):
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

    def test_with_closes_the_binding(self, relu):
        with relu.binding() as binding:
            binding.bind_input("x", f32(1))
        assert binding.closed

    def test_close_releases_everything(self, load):
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

    def test_copy_raises(self, relu):
        with pytest.raises(NotCopyableError, match="IoBinding"):
            copy.deepcopy(relu.binding())


class TestThreads:
    @pytest.fixture
    def running(self, loop, background, endless):
        """A binding that runs in another thread; the job, and the options that end it."""
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

    def test_second_thread_gets_busy_error(self, running):
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

    def test_close_during_a_run(self, running, loop):
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

    def test_close_during_a_run_that_succeeds(self, loop, background):
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


def test_values_bound_unchecked_are_refused_by_the_run() -> None:
    binding = zrt.IoBinding(zrt.Session(models.add(["n"])))
    binding.bind_input("y", f32(1, 2))
    binding._bind_value("x", zrt.Value.from_array(np.zeros(2)))
    binding.bind_output("z")
    with pytest.raises(InvalidArgumentError, match="Unexpected input data type"):
        binding.run()
    binding.bind_input("x", f32(1, 2))
    binding._bind_value("z", zrt.Value.from_array(np.zeros(2, np.int8)), output=True)
    with pytest.raises(InvalidArgumentError, match="Unexpected output data type"):
        binding.run()


def test_arrays_of_the_same_type_and_shape_are_bound_in_turn() -> None:
    binding = zrt.IoBinding(zrt.Session(models.add(["n"])))
    binding.bind_input("y", np.ones(50000, np.float32))
    binding.bind_output("z")
    ended = []
    for number in range(6):
        x = np.full(50000, number, np.float32)
        ended.append(weakref.ref(x))
        binding.bind_input("x", x)
        del x
        gc.collect()
        binding.run()
        assert binding.numpy()["z"][-1] == number + 1
        assert [one() is not None for one in ended] == [False] * number + [True]


def test_array_unlike_the_one_before_is_checked_anew() -> None:
    binding = zrt.IoBinding(zrt.Session(models.add(["n"])))
    binding.bind_input("y", f32(1, 2))
    binding.bind_output("z")
    binding.bind_input("x", f32(1, 2))
    unaligned = np.zeros(9, np.uint8)[1:].view(np.float32)
    for wrong in (np.zeros(2), f32(1, 2, 3, 4)[::2], unaligned, np.zeros((1, 2), np.float32)):
        with pytest.raises((ArgumentError, DTypeError)):
            binding.bind_input("x", wrong)
    binding.run()
    assert binding.numpy()["z"].tolist() == [2, 4]
    binding.clear_inputs()
    with pytest.raises(ArgumentError, match="'x', 'y' is not bound"):
        binding.run()
    binding.bind_input("x", f32(3, 4))
    binding.bind_input("y", f32(1, 2))
    binding.run()
    assert binding.numpy()["z"].tolist() == [4, 6]


def test_rebinding_during_a_run_is_refused() -> None:
    binding = zrt.IoBinding(zrt.Session(models.add(["n"])))
    binding.bind_input("x", f32(1, 2))
    binding._bound.block.pointer.busy = 1
    with pytest.raises(BusyError):
        binding.bind_input("x", f32(3, 4))
    binding._bound.block.pointer.busy = 0
    binding.bind_input("y", f32(1, 2))
    binding.bind_output("z")
    binding.run()
    assert binding.numpy()["z"].tolist() == [2, 4]


def test_array_that_is_an_output_too_is_bound_as_before() -> None:
    session = zrt.Session(models.build([], [models.tensor("x", 1, ["n"])], [models.tensor("x", 1, ["n"])]))
    binding = zrt.IoBinding(session)
    binding.bind_output("x")
    for number in range(3):
        binding.bind_input("x", np.full(50000, number, np.float32))
        gc.collect()
        binding.run()
        assert binding.numpy()["x"][-1] == number
