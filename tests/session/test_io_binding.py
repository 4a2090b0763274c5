"""`IoBinding`: inputs bound by name, runs, lifetimes, threads and errors."""

import contextlib
import gc
import itertools
import sys
import weakref

import numpy as np
import pytest

import zrt
from benches.models import build as bench_models
from tests.support import models
from tests.support.arrays import Tracked, f32
from tests.support.bindings import bind, ran
from tests.support.interrupts import interrupt_at_start_of, on_its_own
from zrt.errors import ArgumentError, BusyError, DTypeError, TerminatedError, UnsupportedError
from zrt.session import io_binding


class TestInputs:
    def test_arrays_values_and_buffers_are_borrowed(self, load):
        session = load("(float[n] a, float[n] b, float[n] c) => (float[n] y) { y = Sum(a, b, c) }")
        array, buffer, over = f32(1, 2), zrt.Buffer((2,), np.float32), f32(100, 200)
        binding = bind(session, {"a": array, "b": buffer, "c": zrt.Value.from_array(over)}, "y")
        buffer.array[...] = [10, 20]
        assert ran(binding)["y"] == [111, 222]
        # They are borrowed: the next run reads later writes.
        array[...], buffer.array[...], over[...] = 1, 1, 1
        assert ran(binding)["y"] == [3, 3]

    def test_binding_keeps_feeds_alive(self, relu):
        array = f32(1, 2).view(Tracked)
        alive = weakref.ref(array)
        binding = bind(relu, {"x": array}, "y")
        del array
        gc.collect()
        assert alive() is not None
        assert ran(binding)["y"] == [1, 2]
        binding.bind_input("x", f32(5))
        gc.collect()
        assert alive() is None

    def test_overridable_initializers(self, load):
        session = load("(float[2] x, float[2] w = {10, 20}) => (float[2] y) { y = Add(x, w) }")
        binding = bind(session, {"x": f32(1, 2)}, "y")
        assert ran(binding)["y"] == [11, 22]
        binding.bind_input("w", f32(5, 6))
        assert ran(binding)["y"] == [6, 8]

    def test_read_only_arrays(self, relu):
        binding = bind(relu, {"x": np.frombuffer(f32(1, -1).tobytes(), np.float32)}, "y")
        assert ran(binding)["y"] == [1, 0]

    def test_strings_and_sequences_are_refused(self, load):
        strings = load("(string[n] x) => (int64[n] y) { y = Cast <to = 7> (x) }").binding()
        with pytest.raises(UnsupportedError, match="input 'x' holds strings"):
            strings.bind_input("x", np.array(["1"]))
        sequence = load("(seq(float[n]) x) => (int64 y) { y = SequenceLength(x) }").binding()
        with pytest.raises(UnsupportedError, match="input 'x' is a sequence"):
            sequence.bind_input("x", [f32(1)])

    def test_numpy_names_the_output_that_has_no_array(self, load):
        binding = bind(load("(float[n] x) => (seq(float[n]) y) { y = SequenceConstruct(x) }"), {"x": f32(1)}, "y")
        binding.run()
        with pytest.raises(UnsupportedError, match=r"^output 'y': this value is a sequence, not a tensor"):
            binding.numpy()


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

    @pytest.mark.parametrize("arguments", [(), (zrt.RunOptions(),), (None, 60)], ids=["plain", "options", "timeout"])
    def test_missing_bindings_raise(self, add, arguments):
        binding = add.binding()
        with pytest.raises(ArgumentError, match="input 'x', 'y' is not bound"):
            binding.run(*arguments)
        binding.bind_input("y", f32(1))
        with pytest.raises(ArgumentError, match="input 'x' is not bound"):
            binding.run(*arguments)
        binding.bind_input("x", f32(1))
        with pytest.raises(ArgumentError, match="no output is bound"):
            binding.run(*arguments)
        binding.bind_output("z")
        binding.run(*arguments)
        assert binding.numpy()["z"].tolist() == [2]

    def test_sequence_is_no_memory_for_a_tensor(self, load):
        binding = load("(float x) => (float y) { y = Neg(x) }").binding()
        with pytest.raises(DTypeError, match=r"output 'y': expected float32\[\], got a sequence"):
            binding.bind_output("y", zrt.Value.from_sequence([f32(1)]))

    def test_clear_unbinds(self, add):
        into = np.zeros(1, np.float32)
        binding = bind(add, {"x": f32(1), "y": f32(2)}, z=into)
        binding.run()
        binding.clear_inputs()
        with pytest.raises(ArgumentError, match="input 'x', 'y' is not bound"):
            binding.run()
        for name in "xy":
            binding.bind_input(name, f32(5))
        binding.run()
        assert into.tolist() == [10]
        into[...] = 3
        binding.clear_outputs()
        assert binding.outputs() == {}
        with pytest.raises(ArgumentError, match="no output is bound"):
            binding.run()
        binding.bind_output("z")
        assert ran(binding)["z"] == [10]
        assert into.tolist() == [3]

    def test_interrupted_clear_leaves_no_input_that_only_seems_bound(self, relu):
        def interrupts(number):
            """Interrupts at the start of that function of the module; False if there are fewer."""
            binding = bind(relu, {"x": f32(1)}, "y")
            left = number

            def trace(frame, event, _):
                nonlocal left
                left -= frame.f_code.co_filename == io_binding.__file__
                if left < 0:
                    raise KeyboardInterrupt

            sys.settrace(trace)
            try:
                binding.clear_inputs()
                return False
            except KeyboardInterrupt:
                return True
            finally:
                sys.settrace(None)
                # Bound or not: ONNX Runtime never has to do without an input.
                with contextlib.suppress(ArgumentError):
                    binding.run()

        reached = next(number for number in itertools.count() if not on_its_own(interrupts, number))
        assert reached > 2

    def test_interrupted_output_is_not_read_for_another(self, load):
        session = load("(float[1] x) => (float[1] y, float[1] z) { y = Neg(x) z = Exp(x) }")

        def interrupts(number):
            """Interrupts at that line of the module; False if there are fewer."""
            binding = bind(session, {"x": f32(0)})
            left = number

            def trace(frame, event, _):
                nonlocal left
                if frame.f_code.co_filename == io_binding.__file__:
                    left -= event == "line"
                    if left < 0:
                        raise KeyboardInterrupt
                return trace

            sys.settrace(trace)
            try:
                binding.bind_output("y", zrt.Buffer((1,), np.float32))
                return False
            except KeyboardInterrupt:
                return True
            finally:
                sys.settrace(None)
                binding.bind_output("z")
                binding.bind_output("y", zrt.Buffer((1,), np.float32))
                assert ran(binding) == {"y": [0], "z": [1]}

        reached = next(number for number in itertools.count() if not on_its_own(interrupts, number))
        assert reached > 10

    def test_clear_releases_the_memory(self, relu):
        x, y = (f32(1).view(Tracked) for _ in range(2))
        alive = [weakref.ref(x), weakref.ref(y)]
        binding = bind(relu, {"x": x}, y=y)
        binding.run()
        del x, y
        gc.collect()
        assert all(ref() is not None for ref in alive)
        binding.clear_inputs()
        binding.clear_outputs()
        gc.collect()
        assert all(ref() is None for ref in alive)

    def test_synchronize(self, relu):
        binding = bind(relu, {"x": f32(1)}, "y")
        binding.synchronize_inputs()
        binding.run()
        binding.synchronize_outputs()
        assert binding.numpy()["y"].tolist() == [1]


def test_close_releases_everything(load):
    session = load("(float[n] x) => (float[n] y) { y = Relu(x) }")
    x, y = (f32(1).view(Tracked) for _ in range(2))
    alive = [weakref.ref(thing) for thing in (x, y, session)]
    binding = bind(session, {"x": x}, y=y)
    binding.run()
    del x, y, session
    gc.collect()
    assert all(ref() is not None for ref in alive)
    binding.close()
    gc.collect()
    assert all(ref() is None for ref in alive)


class TestThreads:
    @pytest.fixture
    def running(self, loop, background, endless):
        """A binding that runs in another thread; the job, and the options that end it."""
        options = zrt.RunOptions()
        binding = bind(loop, endless, "y")
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
        assert ran(binding)["y"] == [8] * 4

    def test_close_during_a_run_that_succeeds(self, loop, background):
        into = np.zeros(4, np.float32)
        binding = bind(loop, {"n": np.array(50_000), "x": np.zeros(4, np.float32)}, y=into)
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
            x, z = np.ones(size, np.float32), np.zeros(size, np.float32)
            binding = bind(add, {"x": x, "y": x}, z=z)
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
        binding = bind(cuda, {"image": image}, logits=zrt.MemoryInfo.cuda())
        binding.run()
        value = binding.outputs()["logits"]
        assert value.memory.name == "Cuda"
        with pytest.raises(UnsupportedError, match="lies on Cuda:0"):
            binding.numpy()
        host = np.empty(value.shape, np.float32)
        zrt.copy(value, host)
        np.testing.assert_allclose(host, expected, rtol=1e-2, atol=1e-2)

    def test_an_output_in_pinned_memory(self, cuda, image, expected):
        binding = bind(cuda, {"image": image}, logits=zrt.MemoryInfo.cuda_pinned())
        for _ in range(2):
            binding.run()
            np.testing.assert_allclose(binding.numpy()["logits"], expected, rtol=1e-2, atol=1e-2)

    def test_an_output_in_the_callers_pinned_memory(self, cuda, image, expected):
        value = zrt.Value.allocate((2, 10), np.float32, cuda.allocator(zrt.MemoryInfo.cuda_pinned()))
        binding = bind(cuda, {"image": image}, logits=value)
        binding.run()
        np.testing.assert_allclose(value.numpy(), expected, rtol=1e-2, atol=1e-2)

    def test_an_output_in_the_callers_memory(self, cuda, image, expected):
        logits = np.zeros((2, 10), np.float32)
        binding = bind(cuda, {"image": image}, logits=logits)
        binding.run()
        np.testing.assert_allclose(logits, expected, rtol=1e-2, atol=1e-2)

    def test_an_input_is_copied_when_it_is_bound(self, cuda, image, expected):
        binding = bind(cuda, {"image": image}, "logits")
        image[...] = 0
        binding.run()
        np.testing.assert_allclose(binding.numpy()["logits"], expected, rtol=1e-2, atol=1e-2)


def test_interrupt_at_the_start_of_a_new_binding_is_the_only_error(relu, monkeypatch) -> None:
    unraisable = []
    monkeypatch.setattr(sys, "unraisablehook", lambda error: unraisable.append(repr(error.exc_value)))
    interrupt_at_start_of(io_binding._Bound.__init__, relu.binding)
    gc.collect()
    assert unraisable == []


def test_arrays_of_the_same_type_and_shape_are_bound_in_turn() -> None:
    binding = bind(zrt.Session(models.add(["n"])), {"y": np.ones(50000, np.float32)}, "z")
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
    binding = bind(zrt.Session(models.add(["n"])), {"y": f32(1, 2), "x": f32(1, 2)}, "z")
    unaligned = np.zeros(9, np.uint8)[1:].view(np.float32)
    for wrong in (np.zeros(2), f32(1, 2, 3, 4)[::2], unaligned, np.zeros((1, 2), np.float32)):
        with pytest.raises((ArgumentError, DTypeError)):
            binding.bind_input("x", wrong)
    assert ran(binding)["z"] == [2, 4]
    binding.clear_inputs()
    with pytest.raises(ArgumentError, match="'x', 'y' is not bound"):
        binding.run()
    binding.bind_input("x", f32(3, 4))
    binding.bind_input("y", f32(1, 2))
    assert ran(binding)["z"] == [4, 6]


def test_array_that_is_an_output_too_is_bound_as_before() -> None:
    binding = bind(zrt.Session(models.parsed("(float[n] x) => (float[n] x) {}")), {}, "x")
    for number in range(3):
        binding.bind_input("x", np.full(50000, number, np.float32))
        gc.collect()
        binding.run()
        assert binding.numpy()["x"][-1] == number
