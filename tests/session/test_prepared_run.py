"""`Session.prepare` and `PreparedRun`: feeds borrowed in place, and fresh arrays from every run."""

from __future__ import annotations

import copy
import gc
import weakref
from concurrent.futures import ThreadPoolExecutor

import ml_dtypes
import numpy as np
import pytest

import zrt
from tests.support.arrays import Tracked, f32
from zrt.errors import (
    ArgumentError,
    ClosedError,
    DTypeError,
    NotCopyableError,
    OrtError,
    ShapeError,
    TerminatedError,
    UnknownNameError,
    UnsupportedError,
)
from zrt.types import ElementType, pack


class TestFeeds:
    def test_later_writes_are_seen(self, relu):
        x = f32(1, 2)
        prepared = relu.prepare({"x": x})
        assert prepared.run()[0].tolist() == [1, 2]
        x[...] = [-5, 5]
        assert prepared.run()[0].tolist() == [0, 5]

    def test_list_of_every_kind_of_feed(self, load):
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
        ("feeds", "error", "message"),
        [
            ([f32(1, 2, 3)[::2]], ArgumentError, "input 'x': is not C-contiguous .*without a copy"),
            ([np.ones(2, ">f4")], ArgumentError, "input 'x': is in the other byte order .*without a copy"),
            ([[1.0]], DTypeError, "input 'x': expected an array, a Value or a Buffer, got list"),
            ([np.float32(1)], DTypeError, "input 'x': expected an array, a Value or a Buffer, got float32"),
            ([np.ones(2)], DTypeError, "input 'x': expected float32, got float64"),
            ([f32([1])], ShapeError, r"input 'x': expected shape \[n\], got \[1, 1\]"),
            ({"z": f32(1)}, UnknownNameError, "no input 'z'"),
            ({}, ArgumentError, "input 'x' is missing"),
            ([f32(1), f32(1)], ArgumentError, "1 inputs"),
            (None, DTypeError, "feeds: expected a dict or a list"),
        ],
    )
    def test_bad_feeds_raise(self, relu, feeds, error, message):
        with pytest.raises(error, match=message):
            relu.prepare(feeds)
        assert relu.prepare([f32(1)]).run()[0].tolist() == [1]

    def test_strings_are_refused(self, load):
        with pytest.raises(UnsupportedError, match="input 'x' holds strings"):
            load("(string[n] x) => (int64[n] y) { y = Cast <to = 7> (x) }").prepare([np.array(["1"])])


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

    @pytest.mark.parametrize(
        "kind", [kind for kind in ElementType if kind.bits and not kind.refused], ids=lambda kind: kind.name
    )
    def test_every_type(self, load, kind):
        name = kind.onnx_name
        session = load(f"({name}[n] x, float f) => ({name}[n] x, float g) {{ g = Neg(f) }}", opset=25)
        x = np.array([1, 0, 1, 1], np.float32).astype(kind.dtype)
        feed = zrt.Value.from_packed(pack(x, kind), kind, x.shape) if kind.packed else x
        prepared = session.prepare([feed, np.array(1, np.float32)])
        for _ in range(2):
            result = prepared.run()[0]
            result = result.unpack() if kind.packed else result
            assert result.dtype == kind.dtype
            assert result.tobytes() == x.tobytes()

    def test_ml_dtypes_output_is_written_into_the_array(self, load):
        prepared = load("(float[n] x) => (bfloat16[n] y) { y = Cast <to = 16> (x) }").prepare([f32(1, 2)])
        for _ in range(2):
            (y,) = prepared.run()
            assert y.dtype == ml_dtypes.bfloat16
            assert y.tolist() == [1, 2]

    def test_wrong_output_shape_fails_once(self, build, capfd):
        session = zrt.Session(
            build("(float[n] x) => (float[4] y) { y = Neg(x) }"), zrt.SessionOptions(log_severity_level="ERROR")
        )
        x = f32(1, 2)
        prepared = session.prepare([x])
        assert prepared.run()[0].tolist() == [-1, -2]
        assert "provided for output 'y'" in capfd.readouterr().err
        x[...] = 3
        assert prepared.run()[0].tolist() == [-3, -3]
        assert prepared.run(zrt.RunOptions())[0].tolist() == [-3, -3]
        assert capfd.readouterr().err == ""

    def test_run_after_a_failed_run(self, load):
        session = load("(int64 i) => (float y) <float[2] rows = {5, 6}> { y = Gather(rows, i) }")
        index = np.array(9)
        prepared = session.prepare([index])
        for _ in range(2):
            with pytest.raises(OrtError, match="out of data bounds"):
                prepared.run()
        index[...] = 1
        assert prepared.run()[0] == 6

    def test_results_are_those_of_session_run(self, add):
        random = np.random.default_rng(0)
        x, y = (np.empty(100, np.float32) for _ in range(2))
        prepared = add.prepare([x, y])
        for _ in range(5):
            x[...], y[...] = random.standard_normal((2, 100))
            assert prepared.run()[0].tobytes() == add.run([x, y])[0].tobytes()


class TestOptions:
    def test_wrong_options_raise(self, relu):
        prepared = relu.prepare([f32(1)])
        with pytest.raises(DTypeError, match="options: expected RunOptions, got str"):
            prepared.run("fast")
        options = zrt.RunOptions()
        options.close()
        with pytest.raises(ClosedError, match="this RunOptions is closed"):
            prepared.run(options)
        assert prepared.run(zrt.RunOptions(tag="x"))[0].tolist() == [1]

    def test_terminated_run_raises(self, relu):
        prepared, options = relu.prepare([f32(1)]), zrt.RunOptions()
        options.terminate()
        with pytest.raises(TerminatedError):
            prepared.run(options)
        options.reset()
        assert prepared.run(options)[0].tolist() == [1]


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

    def test_prepare_of_a_closed_session_raises(self, relu):
        relu.close()
        with pytest.raises(ClosedError, match="this Session is closed"):
            relu.prepare([f32(1)])

    def test_results_outlive_the_prepared_run(self, nonzero):
        prepared = nonzero.prepare([np.tile(f32(0, 1), 5000)])
        (where,) = prepared.run()
        prepared.close()
        nonzero.close()
        del prepared, nonzero
        gc.collect()
        assert where[0, -1] == 9999

    def test_closed_prepared_run_raises(self, relu):
        prepared = relu.prepare([f32(1)])
        assert not prepared.closed
        prepared.close()
        assert prepared.closed
        with pytest.raises(ClosedError, match="this PreparedRun is closed"):
            prepared.run()
        with pytest.raises(ClosedError, match="this PreparedRun is closed"), prepared:
            pass
        prepared.close()
        assert relu.run([f32(1)])[0].tolist() == [1]

    def test_with_closes_the_prepared_run(self, relu):
        with relu.prepare([f32(1)]) as prepared:
            assert prepared.run()[0].tolist() == [1]
        assert prepared.closed

    def test_value_closed_after_prepare(self, relu):
        value = zrt.Value.from_array(f32(1))
        prepared = relu.prepare([value])
        value.close()
        assert prepared.run()[0].tolist() == [1]

    def test_copy_raises(self, relu):
        with pytest.raises(NotCopyableError, match="PreparedRun"):
            copy.copy(relu.prepare([f32(1)]))


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
        with pytest.raises(ClosedError):
            prepared.run_named()


class TestPrime:
    def test_prime_runs(self, relu):
        x = f32(-1)
        prepared = relu.prepare([x])
        prepared.prime()
        prepared.prime(3)
        prepared.prime(0)
        assert prepared.run()[0].tolist() == [0]

    def test_prime_raises_the_error_of_a_run(self, relu):
        with pytest.raises(DTypeError, match="runs: expected an int, got str"):
            relu.prepare([f32(-1)]).prime("often")
        prepared = relu.prepare([f32(-1)])
        prepared.close()
        with pytest.raises(ClosedError):
            prepared.prime()


class TestThreads:
    def test_many_threads_share_a_prepared_run(self, add):
        x = np.arange(100, dtype=np.float32)
        prepared = add.prepare([x, x])

        def work():
            return [prepared.run()[0] for _ in range(100)]

        with ThreadPoolExecutor(8) as pool:
            for job in [pool.submit(work) for _ in range(8)]:
                for array in job.result():
                    assert array.tolist() == (x + x).tolist()

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
