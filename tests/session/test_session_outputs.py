"""The results of `Session.run`: every element type, fresh arrays, and wrong declarations."""

import asyncio
import gc
import sys
import weakref
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import zrt
from tests.support import models
from tests.support.arrays import f32
from tests.support.bindings import bind
from zrt.errors import (
    ArgumentError,
    ClosedError,
    DTypeError,
    NotImplementedByOrtError,
    UnknownNameError,
    UnsupportedError,
)
from zrt.types import ElementType, pack

PLAIN = [kind for kind in ElementType if kind.bits and not kind.packed and not kind.refused]
PACKED = [kind for kind in ElementType if kind.packed]


def values_of(kind: ElementType, count: int = 5) -> np.ndarray:
    """Values that differ in every element type."""
    return np.resize([1, 0, 1, 1, 0] if kind is ElementType.BOOL else [1, 2, 0.5, 4, 0.25], count).astype(kind.dtype)


class TestElementTypes:
    @pytest.mark.parametrize("kind", PLAIN, ids=lambda kind: kind.name)
    @pytest.mark.parametrize("shape", [(5,), (), (0, 3)], ids=str)
    def test_every_plain_type_passes_through_a_run(self, load, kind, shape):
        name = kind.onnx_name
        nodes = "y = Identity(x)"
        if kind is ElementType.FLOAT8E8M0:
            # It has only a Cast kernel.
            nodes = f"f = Cast <to = 1> (x)  y = Cast <to = {kind.onnx_code}> (f)"
        session = load(f"({name}[] x) => ({name}[] y) {{ {nodes} }}", opset=25)
        assert session.inputs[0].element_type is session.outputs[0].element_type is kind
        x = values_of(kind)[: int(np.prod(shape))].reshape(shape)
        for _ in range(3):
            (y,) = session.run([x])
            assert y.dtype == kind.dtype
            assert y.shape == shape
            assert y.tobytes() == x.tobytes()

    @pytest.mark.parametrize("kind", PLAIN, ids=lambda kind: kind.name)
    def test_every_plain_type_strided_and_written_into_an_array_of_known_shape(self, load, kind):
        casts = f"wide = Cast <to = 1> (x)  y = Cast <to = {kind.onnx_code}> (wide)"
        session = load(f"({kind.onnx_name}[n] x) => (float[n] wide, {kind.onnx_name}[n] y) {{ {casts} }}", opset=25)
        for feed in (values_of(kind, 6)[::2], values_of(kind), values_of(kind, 6)[::2]):
            wide, y = session.run([feed])
            assert (wide.dtype, y.dtype) == (np.float32, kind.dtype)
            assert y.tobytes() == feed.tobytes()
            assert wide.tolist() == feed.astype(np.float32).tolist()

    @pytest.mark.parametrize(
        "kind", [kind for kind in PACKED if kind is not ElementType.FLOAT4E2M1], ids=lambda kind: kind.name
    )
    def test_packed_types_in_and_out(self, load, kind):
        x = np.array([1, 0, 1, 0, 1, 1, 1], np.float32).astype(kind.dtype)
        casts = f"wide = Cast <to = 1> (x)  y = Cast <to = {kind.onnx_code}> (wide)"
        session = load(f"({kind.onnx_name}[n] x) => (float[n] wide, {kind.onnx_name}[n] y) {{ {casts} }}", opset=25)
        for _ in range(2):
            wide, value = session.run([zrt.Value.from_packed(pack(x, kind), kind, x.shape)])
            assert wide.tolist() == x.astype(np.float32).tolist()
            assert (value.element_type, value.shape) == (kind, x.shape)
            assert value.unpack().tobytes() == x.tobytes()

    def test_ort_has_no_kernel_for_float4(self, load):
        with pytest.raises(NotImplementedByOrtError, match="Cast"):
            load("(float4e2m1[n] x) => (float[n] y) { y = Cast <to = 1> (x) }", opset=25)

    @pytest.mark.parametrize("kind", PACKED, ids=lambda kind: kind.name)
    def test_packed_types_pass_through_as_copies(self, load, kind):
        name = kind.onnx_name
        session = load(f"({name}[n] x, float[m] f) => ({name}[n] x, float[m] g) {{ g = Neg(f) }}", opset=25)
        packed = np.array([0x1B, 0xE4], np.uint8)
        feed = zrt.Value.from_packed(packed, kind, (16 // kind.bits,))
        value, _ = session.run([feed, f32(1)])
        packed[...] = 0
        assert value.numpy().tolist() == [0x1B, 0xE4]
        assert value.shape == feed.shape

    @pytest.mark.parametrize("kind", PACKED, ids=lambda kind: kind.name)
    def test_unpacked_array_is_packed_before_the_run(self, load, kind):
        name = kind.onnx_name
        session = load(f"({name}[n] x, float[m] f) => ({name}[n] x, float[m] g) {{ g = Neg(f) }}", opset=25)
        array = np.resize([1, 0, 0, 1], 9).astype(kind.dtype)
        for feed in (array, array[::-1]):
            (packed, _) = session.run([feed, f32(1)])
            assert packed.unpack().tobytes() == feed.tobytes()
        with pytest.raises(DTypeError, match=f"input 'x': expected {kind.dtype.name}, got uint8"):
            session.run([np.zeros(8, np.uint8), f32(1)])


class TestOutputs:
    def test_names_of_the_latest_run_are_not_taken_for_others(self, load):
        """The session keeps the call of the latest run with names, and compares these."""
        session = load("(float[n] x) => (float[n] a, float[n] b, float[n] c) { a = Neg(x) b = Abs(x) c = Relu(x) }")
        x, names = f32(-2), ["a", "b"]
        expected = {"a": [2], "b": [2], "c": [0]}
        for changed in (["a", "b"], ["b", "a"], ["c"], ["c", "a", "b"], ["c"], ("c", "b")):
            names[:] = changed
            for spelling in (names, changed, list(changed)):
                for _ in range(3):
                    results = session.run([x], spelling), session.submit([x], spelling).result()
                    assert all(
                        [array.tolist() for array in result] == [expected[n] for n in spelling] for result in results
                    )
            assert [array.tolist() for array in session.run([f32(-2, 1)], ["c"])] == [[0, 1]]
        for refused in ([], ["d"], ["c", "c"], [None], "c", np.array(["c"]), {"c"}):
            session.run([x], ["c"])
            with pytest.raises((ArgumentError, DTypeError, UnknownNameError)):
                session.run([x], refused)
        session.close()
        with pytest.raises(ClosedError):
            session.run([x], ["c"])

    @pytest.mark.parametrize("names", [None, ["y"]])
    @pytest.mark.parametrize("feeds", [{"x": f32(*range(4000))}, [f32(*range(4000))]], ids=["dict", "list"])
    @pytest.mark.parametrize("method", ["run", "run_async", "submit"])
    def test_names_before_feeds_raise_without_the_arrays(self, relu, method, names, feeds):
        """The order of onnxruntime's `run`."""
        order = r"outputs: .* \(zrt takes the feeds first, as in run\(feeds, \['y'\]\)\)"
        with pytest.raises((DTypeError, UnknownNameError), match=order) as raised:
            asyncio.run(getattr(relu, method)(names, feeds))
        assert len(str(raised.value)) < 150
        assert "3.99" not in str(raised.value)

    def test_infer_with_names_before_feeds_raises(self, build):
        with pytest.raises(DTypeError, match="zrt takes the feeds first"):
            zrt.infer(build("(float[n] x) => (float[n] y) { y = Relu(x) }"), None, {"x": f32(1)})

    def test_each_run_returns_fresh_arrays(self, load):
        # A known shape, a shape that depends on the data, an initializer, an input, and a view of an input.
        session = load("""(float[n] x) => (float[n] y, int64[1, k] where, float[2] w, float[n] x, float[] same)
                          <float[2] w = {5, 6}, int64[1] all = {-1}>
                          { y = Neg(x)  where = NonZero(x)  same = Reshape(x, all) }""")
        x = f32(1, 0, 3)
        expected = [[-1, 0, -3], [[0, 2]], [5, 6], [1, 0, 3], [1, 0, 3]]
        earlier = []
        for _ in range(3):
            results = session.run([x])
            assert [array.tolist() for array in results] == expected
            assert all(array.flags.writeable for array in results)
            for array in results:
                assert not any(np.shares_memory(array, other) for other in (x, *earlier))
            for array in results:
                array[...] = 99
            earlier += results
        assert x.tolist() == [1, 0, 3]

    def test_output_that_is_an_input_is_a_copy(self, load):
        session = load("(float[n] x) => (float[n] y, float[n] x) { y = Neg(x) }")
        x = f32(1, 2)
        for feed in (x, zrt.Value.from_array(x)):
            x[...] = [1, 2]
            _, same = session.run([feed])
            x[...] = 7
            assert same.tolist() == [1, 2]
            same[...] = 8
            assert x.tolist() == [7, 7]

    def test_views_outlive_the_session(self, nonzero):
        (where,) = nonzero.run([np.tile(f32(0, 1), 5000)])
        row = where[0][10:]
        del where
        nonzero.close()
        gc.collect()
        # If the memory was freed, this writes over it.
        junk = [np.full(10_000, 7) for _ in range(20)]
        assert row.tolist() == list(range(21, 10_000, 2))
        del junk

    def test_view_keeps_only_its_own_output_alive(self, load):
        session = load("(float[n] x) => (float[k] y) <bool[1] keep = {1}> { y = Compress(x, keep) }")
        (y,) = session.run([f32(4)])
        seen = weakref.ref(session)
        del session
        gc.collect()
        assert seen() is None
        assert y.tolist() == [4]


@pytest.fixture
def compress(load):
    """Keeps the elements of x that are not 0: the data decide how many."""
    return load(
        "(float[n] x) => (float[m] y) { zero = Constant <value = float {0}> ()  e = Equal(x, zero)  "
        "keep = Not(e)  y = Compress <axis = 0> (x, keep) }"
    )


class TestAllocatedOutputs:
    def test_array_owns_the_value(self, compress):
        (y,) = compress.run([f32(1, 0, 2)])
        compress.close()
        gc.collect()
        assert y.tolist() == [1, 2]
        assert not y.flags.owndata
        assert (y.flags.writeable, y.flags.c_contiguous, y.flags.aligned) == (True, True, True)

    def test_shapes_follow_the_data(self, compress):
        generator = np.random.default_rng(0)
        kept = []
        for count in (3, 3, 0, 1, 300, 0, 40_000, 40_000, 3):
            x = generator.integers(0, 2, count).astype(np.float32)
            (y,) = compress.run([x])
            assert y.tolist() == x[x != 0].tolist()
            kept.append((y, x))
        for y, x in kept:
            assert y.tolist() == x[x != 0].tolist()

    def test_references_to_the_dtype_and_the_list_are_balanced(self, compress):
        x = f32(1, 0, 2)
        results = compress.run([x])
        dtype = results[0].dtype
        del results
        before = sys.getrefcount(dtype)
        alone = []
        for _ in range(500):
            results = compress.run([x])
            assert sys.getrefcount(results) == sys.getrefcount(alone)
        del results
        assert abs(sys.getrefcount(dtype) - before) <= 2

    def test_outputs_of_threads_do_not_mix(self, compress):
        def work(seed: int) -> None:
            generator = np.random.default_rng(seed)
            for _ in range(300):
                x = generator.integers(0, 3, int(generator.integers(1, 200))).astype(np.float32)
                assert compress.run([x])[0].tolist() == x[x != 0].tolist()

        with ThreadPoolExecutor(4) as pool:
            list(pool.map(work, range(4)))

    def test_output_beside_one_that_the_feeds_determine(self, load):
        session = load("(float[n] x) => (float[n] y, int64[1, m] z) { y = Neg(x)  z = NonZero(x) }")
        for _ in range(3):
            y, z = session.run([f32(1, 0, 2)])
            assert (y.tolist(), z.tolist()) == ([-1, 0, -2], [[0, 2]])
            assert (y.flags.owndata, z.flags.owndata) == (True, False)

    def test_rank_beyond_numpy_raises(self, load):
        session = load("(float[1] x, int64[k] s) => (float[] y) { y = Reshape(x, s) }")
        for _ in range(2):
            assert session.run([f32(1), np.ones(64, np.int64)])[0].shape == (1,) * 64
            with pytest.raises(UnsupportedError, match="numpy has no array of 65 dimensions"):
                session.run([f32(1), np.ones(65, np.int64)])

    def test_declared_rank_beyond_numpy_raises(self, load):
        sizes = ", ".join("1" * 65)
        text = f"(float[1] x) => (float[{sizes}] y) <int64[65] s = {{{sizes}}}> {{ y = Reshape(x, s) }}"
        session = load(text)
        for _ in range(2):
            with pytest.raises(UnsupportedError, match="output 'y': numpy has no array of 65 dimensions"):
                session.run([f32(1)])
        (value,) = session.run_values({"x": zrt.Value.from_array(f32(1))})
        assert value.shape == (1,) * 65

    def test_memory_is_a_type_that_users_cannot_make(self, compress):
        (y,) = compress.run([f32(1)])
        memory = type(y.base.obj if isinstance(y.base, memoryview) else y.base)
        assert memory.__name__ == "OwnedMemory"
        with pytest.raises(TypeError, match="cannot create"):
            memory()


IF = """(bool c, float[n] x) => (float[n] y) {
    y = If (c) <
        then_branch = then () => (float[] a) { a = Identity(x) },
        else_branch = otherwise () => (float[] b) { b = Concat <axis = 0> (x, x) }
    >
}"""
GROWING_LOOP = """(int64 n, float[k] x) => (float[k] y) {
    go = Constant <value = bool {1}> ()
    y = Loop (n, go, x) <body = step (int64 i, bool c, float[] a) => (bool d, float[] b) {
        d = Identity(c)
        b = Concat <axis = 0> (a, a)
    }>
}"""
SCAN = """(float z, float[n] x) => (float last, float[7] sums) {
    last, sums = Scan <num_scan_inputs = 1, body = step (float s, float e) => (float t, float u) {
        t = Add(s, e)
        u = Identity(t)
    }> (z, x)
}"""
X = np.arange(6, dtype=np.float32)
QUIET = zrt.SessionOptions(intra_op_num_threads=1, log_severity_level="FATAL")


class TestWrongDeclarations:
    """Models whose outputs differ from their declaration: ONNX Runtime only logs a warning."""

    @pytest.mark.parametrize(
        ("text", "feeds", "expected"),
        [
            pytest.param("(float[n] x) => (float[4] y) { y = Neg(x) }", [X], [-X], id="fixed"),
            pytest.param("(float[n] x) => (float[n] y) { y = Concat <axis = 0> (x, x) }", [X], [[*X, *X]], id="name"),
            pytest.param(
                "(float[n] x, int64[k] s) => (float[n] y) { y = Reshape(x, s) }",
                [X, np.array([2, 3])],
                [X.reshape(2, 3)],
                id="rank",
            ),
            pytest.param("(float[n] x) => (int64[1, n] y) { y = NonZero(x) }", [X], [[[1, 2, 3, 4, 5]]], id="data"),
            pytest.param(
                "(float[n] x) => (float[n] good, float[9] y) { good = Neg(x)  y = Abs(x) }", [X], [-X, X], id="second"
            ),
            pytest.param(IF, [np.array(False), X], [[*X, *X]], id="if"),
            pytest.param(GROWING_LOOP, [np.array(1), X], [[*X, *X]], id="loop"),
            pytest.param(SCAN, [np.array(0, np.float32), X], [15, [0, 1, 3, 6, 10, 15]], id="scan"),
            pytest.param("(float[a] x, float[b] y) => (float[a] z) { z = Add(x, y) }", [X[:1], X], [X], id="broadcast"),
        ],
    )
    def test_actual_output_is_returned(self, load, text, feeds, expected):
        expected = [np.asarray(array, np.float32).tolist() for array in expected]
        session = load(text)
        for _ in range(3):
            assert [array.tolist() for array in session.run(feeds)] == expected
        prepared = load(text).prepare(feeds)
        for _ in range(3):
            assert [array.tolist() for array in prepared.run()] == expected
        values = [zrt.Value.from_array(np.asarray(feed)) for feed in feeds]
        assert [array.tolist() for array in load(text).run(values)] == expected

    def test_declaration_that_holds_for_some_feeds(self, load):
        session = load(IF)
        for flag in (True, True, False, True, False):
            (y,) = session.run([np.array(flag), X])
            assert y.tolist() == (X.tolist() if flag else [*X, *X])

    def test_wrong_output_shape_fails_once(self, build, capfd):
        session = zrt.Session(
            build("(float[n] x) => (float[4] y) { y = Neg(x) }"), zrt.SessionOptions(log_severity_level="ERROR")
        )
        for size in (4, 6):
            session.run({"x": X[:size]})
        assert capfd.readouterr().err.count("provided for output 'y'") == 1
        for size in (6, 5, 4, 6):
            session.run({"x": X[:size]})
            session.run([X[:size]])
        assert capfd.readouterr().err == ""

    @pytest.mark.parametrize("shape", [(2, 3), ("a", "b"), None], ids=["fixed", "names", "no-rank"])
    @pytest.mark.parametrize(
        "runner",
        [
            lambda session: lambda x: session.run([x]),
            lambda session: lambda x: session.run({"x": x}, ["s", "y"]),
            lambda session: lambda x: session.run([x], options=zrt.RunOptions()),
            lambda session: lambda x: session.prepare([x]).run(),
            lambda session: lambda x: session.submit([x]).result(),
            lambda session: lambda x: session.run([zrt.Value.from_array(x)]),
        ],
        ids=["run", "names", "options", "prepare", "submit", "value"],
    )
    def test_sparse_output_that_is_declared_dense(self, runner, shape):
        run = runner(zrt.Session(models.sparse_constant(shape), QUIET))
        for size in (2, 2, 3):
            s, y = run(X[:size])
            assert (s.shape, s.values.tolist(), s.indices.tolist()) == ((2, 3), [3, 5], [1, 4])
            assert y.tolist() == (-X[:size]).tolist()

    def test_sparse_output_and_dense_memory(self):
        binding = bind(zrt.Session(models.sparse_constant(), QUIET), {"x": X}, s=np.empty((2, 3), np.float32))
        with pytest.raises(UnsupportedError, match="an output is sparse, and dense memory is bound"):
            binding.run()
        binding.bind_output("s")
        binding.run()
        assert binding.outputs()["s"].sparse().values.tolist() == [3, 5]

    def test_initializer_among_the_outputs(self, load):
        session = load("(float[n] x) => (float[n] y, float[7] w) <float[2] w = {5, 6}> { y = Neg(x) }")
        for _ in range(3):
            assert [array.tolist() for array in session.run([f32(1)])] == [[-1], [5, 6]]
