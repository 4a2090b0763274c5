"""`Session`: attributes, feeds, errors, lifetimes and threads."""

import asyncio
import gc
import weakref
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import numpy as np
import onnx
import pytest

import zrt
from benches.models import build as bench_models
from tests.support.arrays import f32
from tests.support.bindings import bind
from tests.support.together import in_threads
from zrt._native import library as native
from zrt._native import library_files
from zrt.errors import (
    AllocationError,
    ArgumentError,
    DTypeError,
    Error,
    FailError,
    InvalidArgumentError,
    InvalidGraphError,
    NotImplementedByOrtError,
    ShapeError,
    UnknownNameError,
)
from zrt.types import ElementType


class TestAttributes:
    def test_names_and_infos_are_in_the_models_order(self, load):
        session = load("(float[n] b, int64 a) => (float[n] z, int64 y) { z = Relu(b)  y = Neg(a) }")
        assert session.input_names == ("b", "a")
        assert session.output_names == ("z", "y")
        assert [info.name for info in session.inputs] == ["b", "a"]
        assert [info.name for info in session.outputs] == ["z", "y"]
        assert session.initializers == ()

    def test_types_are_readable_after_close(self, load):
        session = load("(float[n] b) => (float[n] z) { z = Relu(b) }")
        session.close()
        assert (session.input_names, session.output_names) == (("b",), ("z",))
        assert session.metadata.graph_name == "test"

    def test_types_are_readable_while_another_thread_closes(self, build):
        model = build("(float[n] b) => (float[n] z) { z = Relu(b) }")
        with ThreadPoolExecutor(4) as pool:
            for _ in range(50):
                session = zrt.Session(model)
                closed = pool.submit(session.close)
                inputs = list(pool.map(getattr, [session] * 4, ["inputs"] * 4))
                closed.result()
                assert {infos[0].name for infos in inputs} == {"b"}

    def test_unknown_attribute_raises(self, relu):
        with pytest.raises(AttributeError, match="'Session' object has no attribute 'names'"):
            _ = relu.names

    def test_providers_end_with_the_cpu(self, build):
        model = build("(float[n] x) => (float[n] y) { y = Relu(x) }")
        assert zrt.Session(model).providers == ("CPUExecutionProvider",)
        assert zrt.Session(model, providers=["cpu"]).providers == ("CPUExecutionProvider",)

    def test_repr_shows_the_signature(self, load):
        session = load("(float[n, ?, 3] x, int64[] i) => (float[] y) { y = Gather(x, i) }")
        assert repr(session) == "Session(x: float32[n, ?, 3], i: int64[...] -> y: float32[...]; CPUExecutionProvider)"
        session.close()
        assert repr(session) == "Session(closed)"

    def test_allocator_is_an_arena_on_the_host(self, relu):
        allocator = relu.allocator()
        assert allocator.memory.is_host
        relu.run([f32(1)])
        assert allocator.stats().num_allocs >= 0


class TestFeeds:
    @pytest.mark.parametrize("kind", [list, tuple])
    def test_feeds_in_order(self, load, kind):
        session = load("(float[n] x, float[n] y) => (float[n] z) { z = Sub(x, y) }")
        for _ in range(3):
            assert session.run(kind([f32(5, 7), f32(1, 2)]))[0].tolist() == [4, 5]

    def test_model_without_inputs(self, load):
        session = load("() => (float[2] y) { y = Constant <value = float[2] {3, 4}> () }")
        for _ in range(3):
            assert session.run({})[0].tolist() == [3, 4]
            assert session.run([])[0].tolist() == [3, 4]
        with pytest.raises(UnknownNameError, match="no input 'x'; it has none"):
            session.run({"x": f32(1)})

    # Each kind of feed twice: the first run prepares the call that the second uses.
    @pytest.mark.parametrize(
        "make",
        [
            pytest.param(lambda x: x, id="contiguous"),
            pytest.param(lambda x: np.repeat(x, 2, axis=1)[:, ::2], id="strided"),
            pytest.param(lambda x: x[::-1][::-1], id="twice-reversed"),
            pytest.param(lambda x: x[::-1].copy()[::-1], id="reversed"),
            pytest.param(np.asfortranarray, id="fortran"),
            pytest.param(lambda x: x.astype(">f4"), id="big-endian"),
            pytest.param(lambda x: np.asfortranarray(x.astype(">f4")), id="big-endian-fortran"),
            pytest.param(lambda x: x.view(np.recarray), id="subclass"),
            pytest.param(lambda x: np.frombuffer(x.tobytes(), np.float32).reshape(x.shape), id="read-only"),
            pytest.param(lambda x: np.frombuffer(b"\0" + x.tobytes(), np.float32, offset=1).reshape(x.shape), id="odd"),
            pytest.param(lambda x: np.broadcast_to(x, (1, *x.shape))[0], id="broadcast"),
        ],
    )
    def test_arrays_are_converted(self, load, make):
        session = load("(float[n, m] x) => (float[n, m] y) { y = Neg(x) }")
        x = np.arange(6, dtype=np.float32).reshape(2, 3)
        for feed in (make(x), x, make(x)):
            before = feed.copy()
            assert session.run({"x": feed})[0].tolist() == (-x).tolist()
            assert np.array_equal(feed, before)

    def test_memory_map(self, relu, tmp_path):
        path = tmp_path / "x.npy"
        np.save(path, f32(-1, 2))
        for _ in range(2):
            assert relu.run({"x": np.load(path, mmap_mode="r")})[0].tolist() == [0, 2]

    def test_scalars_for_rank_0(self, load):
        session = load("(float a, double b) => (float x, double y) { x = Neg(a)  y = Neg(b) }")
        for feeds in ([np.float32(1), np.float64(2)], [np.array(1, np.float32), 2.0]) * 2:
            assert [(array.shape, array.item()) for array in session.run(feeds)] == [((), -1), ((), -2)]

    def test_the_same_array_twice(self, add):
        x = f32(1, 2)
        for _ in range(2):
            assert add.run([x, x])[0].tolist() == [2, 4]

    def test_integers_by_another_name_of_c(self, load):
        session = load("(int64[n] x) => (int64[n] y) { y = Neg(x) }")
        for _ in range(2):
            assert session.run([np.array([1], np.longlong)])[0].tolist() == [-1]

    def test_values_and_buffers_beside_arrays(self, load):
        session = load("(float[n] a, float[n] b, float[n] c) => (float[n] y) { y = Sum(a, b, c) }")
        buffer = zrt.Buffer((2,), np.float32)
        buffer.array[...] = [10, 20]
        value = zrt.Value.from_array(f32(100, 200))
        for _ in range(2):
            assert session.run([f32(1, 2), buffer, value])[0].tolist() == [111, 222]
            # One of the feeds may need a copy.
            assert session.run([f32(1, 0, 2, 0)[::2], buffer, value])[0].tolist() == [111, 222]
        assert session.run([f32(1, 2), f32(10, 20), f32(100, 200)])[0].tolist() == [111, 222]

    def test_value_of_another_session(self, relu, load):
        split = load("(float[n] x) => (float[k] y) <bool[2] keep = {0, 1}> { y = Compress(x, keep) }")
        binding = bind(split, {"x": f32(-1, 5)}, "y")
        binding.run()
        value = binding.outputs()["y"]
        split.close()
        del binding, split
        gc.collect()
        assert relu.run([value])[0].tolist() == [5]


def odd(array: np.ndarray) -> np.ndarray:
    """The same numbers at an address that is not a multiple of their size."""
    memory = np.zeros(array.nbytes + array.itemsize, np.uint8)
    start = 1 - memory.ctypes.data % array.itemsize
    placed = np.ndarray(array.shape, array.dtype, memory, start)
    placed[...] = array
    assert placed.ctypes.data % array.itemsize == 1
    return placed


class TestMisalignedMemory:
    """Compiled code may assume that the address of a number is a multiple of its size."""

    X = np.arange(8, dtype=np.float32).reshape(2, 4)

    # One model whose output shape the feeds determine, and one where ORT allocates the output.
    @pytest.fixture(params=["y = Neg(x)", "s = Shape(x)  y0 = Neg(x)  y = Reshape(y0, s)"])
    def session(self, load, request):
        return load(f"(float[n, m] x) => (float[n, m] y) {{ {request.param} }}")

    def test_misaligned_feed_is_copied(self, session):
        # The first run prepares the call that the next runs use.
        for feed in (self.X, odd(self.X), self.X, odd(self.X)):
            assert session.run([feed], ["y"])[0].tolist() == (-self.X).tolist()
            for each in ({"x": feed}, [feed]):
                assert session.run(each)[0].tolist() == (-self.X).tolist()
                assert session.submit(each).result()[0].tolist() == (-self.X).tolist()
                assert asyncio.run(session.run_async(each))[0].tolist() == (-self.X).tolist()

    def test_empty_array_may_be_misaligned(self, session):
        for feed in (self.X[:0].copy(), odd(self.X[:0])) * 2:
            assert session.run([feed])[0].shape == (0, 4)

    def test_bytes_are_always_aligned(self, load):
        session = load("(uint8[n] x) => (uint8[n] y) { y = BitwiseNot(x) }")
        memory = np.arange(9, dtype=np.uint8)
        for start in range(4):
            assert session.run([memory[start : start + 4]])[0].tolist() == (~memory[start : start + 4]).tolist()

    def test_zero_copy_functions_raise_for_misaligned_memory(self, session):
        binding = zrt.IoBinding(session)
        for refuse in (
            zrt.Value.from_array,
            lambda array: session.prepare({"x": array}),
            lambda array: binding.bind_input("x", array),
            lambda array: binding.bind_output("y", array),
        ):
            with pytest.raises(
                ArgumentError, match=r"begins at 0x[0-9a-f]+[159d], no multiple of its elements' 4 bytes"
            ):
                refuse(odd(self.X))


class TestOverridableInitializers:
    TEXT = "(float[2] x, float[2] w = {10, 20}) => (float[2] y) { y = Add(x, w) }"

    def test_are_listed_apart_from_the_inputs(self, load):
        session = load(self.TEXT)
        assert session.input_names == ("x",)
        (info,) = session.initializers
        assert (info.name, info.element_type, info.shape) == ("w", ElementType.FLOAT, (2,))

    def test_initializer_fed_or_not(self, load):
        session = load(self.TEXT)
        for _ in range(2):
            assert session.run([f32(1, 2)])[0].tolist() == [11, 22]
            assert session.run({"x": f32(1, 2), "w": f32(5, 6)})[0].tolist() == [6, 8]
            assert session.run({"w": zrt.Value.from_array(f32(1, 1)), "x": f32(1, 2)})[0].tolist() == [2, 3]

    def test_initializers_are_not_part_of_the_order(self, load):
        session = load(self.TEXT)
        session.run({"x": f32(1, 2), "w": f32(5, 6)})
        with pytest.raises(ArgumentError, match=r"the model has 1 inputs \('x'\), got 2"):
            session.run([f32(1, 2), f32(5, 6)])

    def test_fed_initializers_are_checked(self, load):
        session = load(self.TEXT)
        with pytest.raises(ShapeError, match=r"input 'w': expected shape \[2\], got \[3\]"):
            session.run({"x": f32(1, 2), "w": f32(1, 2, 3)})
        with pytest.raises(DTypeError, match="input 'w': expected float32, got float64"):
            session.run({"x": f32(1, 2), "w": np.ones(2)})

    def test_initializers_as_outputs(self, load):
        session = load("(float[2] x, float[2] w = {10, 20}) => (float[2] y, float[2] w) { y = Add(x, w) }")
        w = f32(5, 6)
        for _ in range(2):
            assert session.run([f32(1, 2)])[1].tolist() == [10, 20]
            result = session.run({"x": f32(1, 2), "w": w})[1]
            assert result.tolist() == [5, 6]
            assert not np.shares_memory(result, w)


class Unconvertible:
    def __array__(self, dtype=None, copy=None):
        raise TypeError("it lies on the moon")


# Feeds that the table of tests/robustness does not have.
BAD_FEEDS = [
    pytest.param([f32(1), [1.0]], DTypeError, "'y': expected float32, got float64", id="list of floats"),
    pytest.param([f32(1), Unconvertible()], DTypeError, "'y': it lies on the moon", id="unconvertible"),
    pytest.param([f32(1, 2), f32(1, 2, 3)], FailError, "Add", id="sizes that do not fit each other"),
    pytest.param(b"xy", DTypeError, "got bytes", id="bytes"),
]


class TestRefusals:
    @pytest.mark.parametrize(("feeds", "error", "message"), BAD_FEEDS)
    @pytest.mark.parametrize("warm", [False, True], ids=["first", "later"])
    def test_bad_feeds_raise(self, add, feeds, error, message, warm):
        if warm:
            add.run([f32(1), f32(2)])
        with pytest.raises(Error, match=message) as caught:
            add.run(feeds)
        assert type(caught.value) is error
        assert add.run([f32(1), f32(2)])[0].tolist() == [3]

    @pytest.mark.parametrize("shape", [(2, 3), (3, 4), (1, 2, 4), (4,), (8,), ()], ids=str)
    def test_wrong_fixed_shape_raises(self, load, shape):
        session = load("(float[2, 4] x) => (float[2, 4] y) { y = Neg(x) }")
        for _ in range(2):
            with pytest.raises(ShapeError, match=r"input 'x': expected shape \[2, 4\], got "):
                session.run([np.ones(shape, np.float32)])
            assert session.run([np.ones((2, 4), np.float32)])[0].sum() == -8

    @pytest.mark.parametrize(
        ("declared", "element"),
        [
            ("float[m]", np.float32(0)),
            ("string[m]", np.array("", object)),
            ("int4[m]", np.array(0, ElementType.INT4.dtype)),
            ("seq(float[m])", np.float32(0)),
        ],
    )
    def test_feed_too_large_for_memory_raises(self, load, declared, element):
        session = load(f"({declared} x, float[n] f) => ({declared} x, float[n] g) {{ g = Neg(f) }}", opset=21)
        huge = np.broadcast_to(element, 2**50)
        with pytest.raises(AllocationError, match=r"^input 'x': "):
            session.run([huge if "int4" in declared else [huge], f32(1)])

    def test_output_too_large_for_memory_raises(self, load):
        # As large as the address space, and larger than a size_t can count.
        outer = load("(float[a, k] x, float[k, b] y) => (float[a, b] z) { z = MatMul(x, y) }")
        for size in (2**22, 2**40):
            feeds = [np.empty((size, 0), np.float32), np.empty((0, size), np.float32)]
            for _ in range(2):
                with pytest.raises(AllocationError, match="output 'z': "):
                    outer.run(feeds)
            with pytest.raises(AllocationError, match="output 'z': "):
                outer.prepare(feeds).run()
        assert outer.run([np.ones((1, 1), np.float32)] * 2)[0].tolist() == [[1]]

    def test_failing_kernel_raises(self, load):
        session = load("(int64 i) => (float y) <float[2] rows = {5, 6}> { y = Gather(rows, i) }")
        for _ in range(3):
            with pytest.raises(InvalidArgumentError, match="indices element out of data bounds"):
                session.run([np.array(9)])
            assert session.run([np.array(1)])[0] == 6


class TestEngineOfFewKernels:
    """A core built into zrt with the kernels of some operators alone: here the library's own gaps stand in for it."""

    MODEL = "(double[1,1,4,4] x, double[1,1,2,2] w) => (double[1,1,3,3] y) { y = Conv(x, w) }"

    @pytest.fixture(autouse=True)
    def core(self, monkeypatch, tmp_path):
        monkeypatch.setattr(native, "_library", native.library()._replace(path=None))
        monkeypatch.setattr(library_files, "_REQUIRED_OPERATORS", str(tmp_path / "required-operators"))

    def test_model_without_a_kernel_names_the_list(self, load, tmp_path):
        path = tmp_path / "required-operators"
        path.write_text("ai.onnx;17;Relu\n")
        with pytest.raises(NotImplementedByOrtError, match="Conv") as caught:
            load(self.MODEL)
        assert f"the operators in {path} alone" in str(caught.value)
        assert caught.value.code == NotImplementedByOrtError.code
        assert "alone" not in caught.value.ort_message

    def test_engine_with_all_kernels_names_none(self, load):
        with pytest.raises(NotImplementedByOrtError) as caught:
            load(self.MODEL)
        assert "alone" not in str(caught.value)

    def test_other_failures_do_not_name_it(self, load, tmp_path):
        (tmp_path / "required-operators").touch()
        with pytest.raises(InvalidGraphError) as caught:
            load("(float[n] x) => (float[n] y) { y = Missing(x) }")
        assert "alone" not in str(caught.value)


def test_dropped_session_is_freed(load):
    session = load("(float[n] x) => (float[n] y) { y = Relu(x) }")
    session.run([f32(1)])
    seen = weakref.ref(session)
    del session
    assert seen() is None


class TestThreads:
    @pytest.mark.official
    @pytest.mark.parametrize("name", ["cnn", pytest.param("squeezenet", marks=pytest.mark.onnx_data("light"))])
    def test_eight_threads_agree_with_onnxruntime(self, official, name):
        model = bench_models.MODELS[name]()
        (info,) = zrt.Session(model).inputs
        shape = [2 if isinstance(dim, str) else dim for dim in info.shape]
        random = np.random.default_rng(8)
        images = [random.standard_normal(shape, np.float32) for _ in range(8)]
        expected = [official(model, {info.name: image}) for image in images]
        assert not np.allclose(expected[0], expected[1])
        session = zrt.Session(model, zrt.SessionOptions(intra_op_num_threads=1))
        rounds = 3 if name == "squeezenet" else 30
        with ThreadPoolExecutor(8) as pool:
            jobs = [pool.submit(session.run, [image]) for image in images * rounds]
            for job, wanted in zip(jobs, expected * rounds, strict=True):
                for result, want in zip(job.result(), wanted, strict=True):
                    np.testing.assert_allclose(result, want, rtol=1e-5, atol=1e-6)

    def test_threads_with_different_shapes(self, add):
        def work(size):
            x = np.full(size, size, np.float32)
            for _ in range(200):
                assert add.run([x, x])[0].tolist() == [2 * size] * size
                assert add.run({"x": x, "y": x})[0].shape == (size,)

        in_threads(*(partial(work, size) for size in range(8)))

    def test_threads_with_a_wrong_output_shape(self, load):
        for _ in range(5):
            session = load("(float[n] x) => (float[4] y, float[n] z) { y = Neg(x)  z = Abs(x) }")
            with ThreadPoolExecutor(8) as pool:
                jobs = [pool.submit(session.run, [np.ones(size, np.float32)]) for size in range(1, 9)]
                for size, job in enumerate(jobs, 1):
                    assert [array.tolist() for array in job.result()] == [[-1] * size, [1] * size]


class TestInfer:
    def test_infer_loads_and_runs(self, build):
        model = build("(float[n] x) => (float[n] a, int64[1, k] b) { a = Neg(x)  b = NonZero(x) }")
        a, b = zrt.infer(model, {"x": f32(0, 5)})
        assert (a.tolist(), b.tolist()) == ([0, -5], [[1]])
        assert zrt.infer(model, [f32(0, 5)], ["b"])[0].tolist() == [[1]]

    def test_infer_takes_the_arguments_of_a_session(self, build, tmp_path):
        model = build("(float[2] x) => (float[2] y) { y = Add(x, w) }", w=f32(3, 4))
        onnx.save(model, tmp_path / "m.onnx", save_as_external_data=True, location="w.bin", size_threshold=0)
        options, providers = zrt.SessionOptions(intra_op_num_threads=1), ["cpu"]
        (y,) = zrt.infer(
            Path(tmp_path / "m.onnx").read_bytes(), [f32(1, 1)], None, options, providers, external_data_dir=tmp_path
        )
        assert y.tolist() == [4, 5]


@pytest.mark.gpu
class TestCuda:
    def test_cuda_session_agrees_with_the_cpu(self):
        model = bench_models.cnn()
        image = np.random.default_rng(0).standard_normal((2, 1, 28, 28), np.float32)
        session = zrt.Session(model, providers=["cuda"])
        assert session.providers == ("CUDAExecutionProvider", "CPUExecutionProvider")
        expected = zrt.Session(model).run([image])
        for _ in range(3):
            np.testing.assert_allclose(session.run([image])[0], expected[0], rtol=1e-2, atol=1e-2)

    def test_eight_threads_on_one_cuda_session(self):
        model = bench_models.cnn()
        random = np.random.default_rng(1)
        images = [random.standard_normal((1, 1, 28, 28), np.float32) for _ in range(8)]
        session, host = zrt.Session(model, providers=["cuda"]), zrt.Session(model)
        with ThreadPoolExecutor(8) as pool:
            jobs = [pool.submit(session.run, [image]) for image in images * 4]
            for image, job in zip(images * 4, jobs, strict=True):
                np.testing.assert_allclose(job.result()[0], host.run([image])[0], rtol=1e-2, atol=1e-2)
