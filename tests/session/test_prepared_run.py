"""`Session.prepare` and `PreparedRun`: feeds borrowed in place, and fresh arrays from every run."""

import gc
import weakref

import ml_dtypes
import numpy as np
import pytest

import zrt
from tests.support.arrays import Tracked, f32
from tests.support.together import in_threads
from zrt.errors import DTypeError, OrtError, UnsupportedError


class TestFeeds:
    def test_every_kind_of_feed_is_borrowed(self, load):
        session = load("(float[n] a, float[n] b, float[n] c) => (float[n] y) { y = Sum(a, b, c) }")
        array, buffer, over = f32(1), zrt.Buffer((1,), np.float32), f32(100)
        prepared = session.prepare([array, buffer, zrt.Value.from_array(over)])
        buffer.array[...] = 10
        assert prepared.run()[0].tolist() == [111]
        array[...], buffer.array[...], over[...] = 2, 20, 200
        assert prepared.run()[0].tolist() == [222]

    def test_overridable_initializers(self, load):
        session = load("(float[1] x, float[1] w = {10}) => (float[1] y) { y = Add(x, w) }")
        w = f32(20)
        assert session.prepare([f32(1)]).run()[0].tolist() == [11]
        prepared = session.prepare({"x": f32(1), "w": w})
        assert prepared.run()[0].tolist() == [21]
        w[...] = 30
        assert prepared.run()[0].tolist() == [31]

    def test_prepared_run_keeps_feeds_alive(self, relu):
        x = f32(1, 2).view(Tracked)
        alive = weakref.ref(x)
        prepared = relu.prepare([x])
        del x
        gc.collect()
        assert alive() is not None
        assert prepared.run()[0].tolist() == [1, 2]
        prepared.close()
        gc.collect()
        assert alive() is None

    def test_read_only_arrays(self, relu):
        assert relu.prepare([np.frombuffer(f32(-1, 1).tobytes(), np.float32)]).run()[0].tolist() == [0, 1]

    def test_rank_0_and_no_feeds(self, load):
        session = load("(float a, float[n] b) => (float x, float[n] y) { x = Neg(a)  y = Neg(b) }")
        prepared = session.prepare([np.array(2, np.float32), f32()])
        for _ in range(2):
            assert [(array.shape, array.tolist()) for array in prepared.run()] == [((), -2), ((0,), [])]

    @pytest.mark.parametrize(
        ("declared", "feed", "error", "message"),
        [
            ("string[n]", np.array(["1"]), UnsupportedError, "input 'x' holds strings"),
            ("seq(float[n])", f32(1), UnsupportedError, "input 'x' is a sequence"),
            ("int4[n]", np.ones(4, ml_dtypes.int4), DTypeError, "input 'x': ONNX Runtime packs INT4"),
            ("float[n]", np.ones(3, "M8[s]"), DTypeError, "input 'x': ONNX has no element type"),
        ],
    )
    def test_other_types_are_refused(self, load, declared, feed, error, message):
        session = load(f"({declared} x, float v) => ({declared} x, float w) {{ w = Neg(v) }}", opset=25)
        with pytest.raises(error, match=message):
            session.prepare([feed, f32(1)])


class TestResults:
    @pytest.mark.parametrize(
        "text",
        [
            "(float[n] x) => (float[n] y) { y = Neg(x) }",
            "(float[n] x) => (float[] y) <int64[1] all = {-1}> { z = Neg(x)  y = Reshape(z, all) }",
            "(float[n] x) => (float[n] y, int64[1, k] w) { y = Neg(x)  w = NonZero(x) }",
            "(float[n] x) => (float[n] y, float[n] x) { y = Neg(x) }",
        ],
        ids=["settled", "left to ORT", "both", "passing through"],
    )
    def test_earlier_results_stay_unchanged(self, load, text):
        x = f32(1, 2, 3)
        prepared = load(text).prepare([x])
        first = prepared.run()
        kept = [array.copy() for array in first]
        assert first[0].tolist() == [-1, -2, -3]
        x[...] = 0
        second = prepared.run()
        assert second[0].tolist() == [0, 0, 0]
        second[0][...] = 99
        assert prepared.run()[0].tolist() == [0, 0, 0]
        assert x.tolist() == [0, 0, 0]
        for array, expected in zip(first, kept, strict=True):
            assert array.tolist() == expected.tolist()

    def test_run_after_a_failed_run(self, load):
        session = load("(int64 i) => (float y) <float[2] rows = {5, 6}> { y = Gather(rows, i) }")
        index = np.array(9)
        prepared = session.prepare([index])
        for _ in range(2):
            with pytest.raises(OrtError, match="out of data bounds"):
                prepared.run()
        index[...] = 1
        assert prepared.run()[0] == 6


class TestLifetimes:
    def test_prepared_run_outlives_the_session(self, load):
        session = load("(float[n] x) => (float[n] y) { y = Relu(x) }")
        x = f32(1)
        prepared = session.prepare([x])
        session.close()
        seen = weakref.ref(session)
        del session
        gc.collect()
        assert seen() is None
        x[...] = 7
        assert prepared.run()[0].tolist() == [7]

    def test_wrong_output_shape_after_the_session_is_closed(self, load):
        session = load("(float[n] x) => (float[4] y) { y = Neg(x) }")
        prepared = session.prepare([f32(1, 2)])
        session.close()
        assert prepared.run()[0].tolist() == [-1, -2]

    def test_results_outlive_the_prepared_run(self, nonzero):
        prepared = nonzero.prepare([np.tile(f32(0, 1), 5000)])
        (where,) = prepared.run()
        prepared.close()
        nonzero.close()
        del prepared, nonzero
        gc.collect()
        assert where[0, -1] == 9999

    def test_value_closed_after_prepare(self, relu):
        value = zrt.Value.from_array(f32(1))
        prepared = relu.prepare([value])
        value.close()
        assert prepared.run()[0].tolist() == [1]


class TestNames:
    def test_outputs_by_name(self, load):
        session = load("(float[n] x) => (float[n] a, int64[1, k] b) { a = Neg(x)  b = NonZero(x) }")
        prepared = session.prepare([f32(1, 0)])
        assert prepared.output_names == ("a", "b") == session.output_names
        for options in (None, zrt.RunOptions(tag="named")):
            named = prepared.run_named(options)
            assert {name: array.tolist() for name, array in named.items()} == {"a": [-1, 0], "b": [[0]]}

    def test_names_outlive_a_close(self, relu):
        prepared = relu.prepare([f32(1)])
        prepared.close()
        assert prepared.output_names == ("y",)


class TestPrime:
    def test_prime_runs(self, relu):
        x = f32(-1)
        prepared = relu.prepare([x])
        prepared.prime()
        prepared.prime(3)
        prepared.prime(0)
        assert prepared.run()[0].tolist() == [0]


class TestThreads:
    def test_many_threads_share_a_prepared_run(self, add):
        x = np.arange(100, dtype=np.float32)
        prepared = add.prepare([x, x])

        def work():
            for array in [prepared.run()[0] for _ in range(100)]:
                assert array.tolist() == (x + x).tolist()

        in_threads(*[work] * 8)

    def test_close_during_a_run(self, loop, background):
        x = np.zeros(4, np.float32).view(Tracked)
        prepared = loop.prepare([np.array(50_000), x])
        job = background(prepared.run)
        job.under_way()
        prepared.close()
        loop.close()
        del x
        gc.collect()
        assert job.result()[0].tolist() == [0] * 4
