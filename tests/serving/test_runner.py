"""Batches run together where that is right, on lanes where shapes recur, and one job never spoils another."""

from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import zrt
from tests.serving.conftest import Counted, job
from tests.support.models import ENDLESS
from zrt.errors import MemoryLimitError
from zrt.serving.runner import SILENT_RUNS, Batching, Runner, bucket_size, same
from zrt.serving.signature import Signature


def runner(session: zrt.Session, counted: Counted, max_batch: int = 8) -> Runner:
    signature = Signature.of(session, "m")
    return Runner(session, signature, Batching(signature.open_batch), max_batch, counted)


def rows(*values: float) -> np.ndarray[Any, Any]:
    """Rows of 4 equal numbers."""
    return np.repeat(np.array(values, np.float32), 4).reshape(-1, 4)


def jobs(*arrays: Any, name: str = "x") -> list[Any]:
    return [job({name: np.asarray(array)}, len(array)) for array in arrays]


def y(values: list[Any]) -> list[Any]:
    for value in values:
        assert isinstance(value, dict), value
    return [value["y"].tolist() for value in values]


class TestMemoryLimit:
    """Each row needs 256 KiB of the arena's 1 MiB, of which the load takes some: three rows fit."""

    @pytest.fixture
    def limited(self, build: Callable[..., Any]) -> zrt.Session:
        text = """(float[n, 4] x) => (float[n, 4] y) <int64[2] wide = {1, 16384}, int64[1] axis = {1}> {
            a = Tile(x, wide)
            b = ReduceMax <keepdims = 1> (a, axis)
            c = Sub(x, b)
            d = Add(x, b)
            y = Add(c, d)
        }"""
        options = zrt.SessionOptions(intra_op_num_threads=1, log_severity_level="FATAL", memory_limit="1MiB")
        return zrt.Session(build(text), options)

    def test_batch_is_halved(self, limited: zrt.Session, counted: Counted) -> None:
        runs = runner(limited, counted)
        for _ in range(3):
            values = runs.run(jobs(*(rows(index) for index in range(8))))
            assert y(values) == [rows(2 * index).tolist() for index in range(8)]
        assert counted.rows == [8, 4, 2, 2, 4, 2, 2] * 3

    def test_request_is_halved_where_rows_are_known_to_be_apart(self, limited: zrt.Session, counted: Counted) -> None:
        runs = runner(limited, counted)
        large = rows(*range(8))
        assert isinstance(runs.run(jobs(large))[0], MemoryLimitError)
        runs.run(jobs(rows(1), rows(2)))
        assert y(runs.run(jobs(large))) == [rows(*range(0, 16, 2)).tolist()]


class TestTogether:
    def test_jobs_get_their_own_rows(self, double: zrt.Session, counted: Counted) -> None:
        runs = runner(double, counted)
        for _ in range(4):
            assert y(runs.run(jobs(rows(1), rows(2, 3), rows(4)))) == [
                rows(2).tolist(),
                rows(4, 6).tolist(),
                rows(8).tolist(),
            ]
        assert counted.rows == [4, 4, 4, 4]
        assert counted.hits == [False, False, True, True]

    def test_batch_is_padded_to_a_size_whose_lane_is_there(self, double: zrt.Session, counted: Counted) -> None:
        runs = runner(double, counted)
        runs.run(jobs(rows(1), rows(2)))
        for count in (5, 6, 5, 6, 5):
            values = runs.run(jobs(*(rows(index) for index in range(count))))
            assert y(values) == [rows(2 * index).tolist() for index in range(count)]
        # The first run of six rows makes no lane, the second makes it.
        assert counted.hits[1:] == [False, False, True, True, True]

    def test_single_job_of_a_proven_model_shares_the_lanes(self, double: zrt.Session, counted: Counted) -> None:
        runs = runner(double, counted)
        runs.run(jobs(rows(1), rows(2)))
        for _ in range(3):
            assert y(runs.run(jobs(rows(1, 2, 3, 4, 5)))) == [rows(2, 4, 6, 8, 10).tolist()]
        assert y(runs.run(jobs(rows(1, 2, 3), rows(4, 5, 6)))) == [rows(2, 4, 6).tolist(), rows(8, 10, 12).tolist()]
        assert counted.hits[-2:] == [True, True]

    @pytest.mark.parametrize("dtype", [np.bool_, np.float16, ml_dtypes.bfloat16, np.int8, np.uint64, np.float64])
    def test_every_type_shares_runs(self, load: Callable[..., zrt.Session], counted: Counted, dtype: Any) -> None:
        kind = {np.bool_: "bool", np.float64: "double"}.get(dtype, np.dtype(dtype).name)
        runs = runner(load(f"({kind}[n] x) => ({kind}[n] y) {{ y = Identity(x) }}"), counted)
        sent = [np.array([0, 1], dtype), np.array([1], dtype)]
        for _ in range(4):
            values = runs.run(jobs(*sent))
            assert [value["y"].dtype for value in values] == [sent[0].dtype] * 2
            assert y(values) == [array.tolist() for array in sent]
        assert counted.hits[-1]

    def test_strings_share_runs(self, strings: zrt.Session, counted: Counted) -> None:
        runs = runner(strings, counted)
        for _ in range(3):
            sent = [np.array(["a", "ü"], object), np.array([""], object)]
            assert y(runs.run(jobs(*sent))) == [["a", "ü"], [""]]
        assert counted.rows == [3, 3, 3]
        assert not any(counted.hits)

    def test_operator_that_calls_exit_ends_its_own_job_alone(self, quits: zrt.Session, counted: Counted) -> None:
        runs = runner(quits, counted)
        for _ in range(3):
            good, bad = runs.run(jobs(np.array([1], np.float32), np.array([-1], np.float32)))
            assert good["y"].tolist() == [1]
            assert isinstance(bad.__cause__, SystemExit)

    def test_several_inputs_share_runs(self, add: zrt.Session, counted: Counted) -> None:
        runs = runner(add, counted)
        one, two = np.ones(2, np.float32), np.ones(1, np.float32)
        pair = [job({"x": one, "y": one * 2}, 2), job({"x": two * 5, "y": two}, 1)]
        for _ in range(3):
            assert [value["z"].tolist() for value in runs.run(pair)] == [[3, 3], [6]]
        assert counted.rows == [3, 3, 3]


class TestProof:
    @pytest.mark.parametrize(
        "text",
        [
            # The rows depend on each other.
            "(float[n] x) => (float[n] y) { y = Softmax <axis = 0> (x) }",
            "(float[n] x) => (float[n] y) <int64 a = {0}> { y = CumSum(x, a) }",
            "(float[n] x) => (float[n] y) <int64 a = {0}> { y = CumSum <reverse = 1> (x, a) }",
            # The output's first axis is another.
            "(float[n] x) => (int64[k] y) { a = NonZero(x) y = Squeeze(a) }",
            "(float[n] x) => (float[m] y) { y = Concat <axis = 0> (x, x) }",
        ],
        ids=["all rows", "rows before", "rows after", "data decide the size", "twice the rows"],
    )
    def test_model_whose_first_axis_is_no_batch_runs_jobs_alone(
        self, load: Callable[..., zrt.Session], counted: Counted, text: str
    ) -> None:
        session = load(text)
        runs = runner(session, counted)
        sent = [np.array([1, 2, 3], np.float32), np.array([5, 6], np.float32), np.array([7], np.float32)]
        wanted = [session.run([array])[0] for array in sent]
        for _ in range(3):
            values = runs.run(jobs(*sent))
            for value, array in zip(values, wanted, strict=True):
                assert np.allclose(value["y"], array)
        assert not runs._batching.allowed
        assert "'y'" in runs._batching.refuted
        # One shared run, then each alone.
        assert counted.rows == [6] + 3 * [3, 2, 1]

    @pytest.mark.parametrize(
        "text",
        [
            "(float[n] x) => (float[n] y) { m = ReduceMax <keepdims = 0> (x) y = Div(x, m) }",
            "(float[n] x) => (float[n] y) { m = ReduceMin <keepdims = 0> (x) y = Div(x, m) }",
            "(float[n] x) => (float[n] y) { m = ReduceMean <keepdims = 0> (x) y = Sub(x, m) }",
            "(int64[n] x) => (int64[n] y) { m = ReduceMax <keepdims = 0> (x) y = Sub(x, m) }",
            "(int64[n] x) => (int64[n] y) { m = ReduceMin <keepdims = 0> (x) y = Sub(x, m) }",
        ],
    )
    @pytest.mark.parametrize("sent", [0, 1, -3, 100])
    def test_equal_requests_prove_nothing(
        self, load: Callable[..., zrt.Session], counted: Counted, text: str, sent: int
    ) -> None:
        """Those of a load test are often equal."""
        runs = runner(load(text), counted)
        arrays = [np.array([sent], np.float32 if "float" in text else np.int64)] * 2
        runs.run(jobs(*arrays))
        assert (runs._batching.allowed, runs._batching.proven) == (False, False)

    def test_output_that_never_has_a_finite_number_is_passed_over(
        self, load: Callable[..., zrt.Session], counted: Counted
    ) -> None:
        text = "(float[n, 4] x) => (float[n, 4] y, float[n, 4] z) { y = Neg(x) d = Sub(x, x) z = Div(d, d) }"
        runs = runner(load(text), counted)
        proven = []
        for _ in range(SILENT_RUNS + 1):
            runs.run(jobs(rows(1), rows(2)))
            proven.append(runs._batching.proven)
        assert proven == [False] * SILENT_RUNS + [True]

    def test_order_of_the_inputs_in_a_request_does_not_matter(
        self, load: Callable[..., zrt.Session], counted: Counted
    ) -> None:
        runs = runner(
            load("(float[n, a] x, float[n, b] z) => (float[n, c] y) { y = Concat <axis = 1> (x, z) }"), counted
        )
        x, z = np.ones((1, 3), np.float32), np.zeros((1, 2), np.float32)
        for feeds in ({"x": x, "z": z}, {"z": z, "x": x}, {"x": x, "z": z}):
            runs.run([job(feeds, 1)])
        assert counted.hits == [False, False, True]
        runs.run([job({"z": x, "x": z}, 1)])
        assert counted.hits[-1] is False

    @pytest.mark.parametrize("number", [np.nan, np.inf])
    @pytest.mark.parametrize("body", ["y = Softmax <axis = 0> (x)", "m = ReduceMean <axes = [0]> (x) y = Sub(x, m)"])
    def test_requests_without_finite_numbers_prove_nothing(
        self, load: Callable[..., zrt.Session], counted: Counted, body: str, number: float
    ) -> None:
        """Their results have none either, whatever the other rows of a run are."""
        runs = runner(load(f"(float[n, 4] x) => (float[n, 4] y) {{ {body} }}", opset=13), counted)
        nothing = np.full((1, 4), number, np.float32)
        for _ in range(2):
            runs.run(jobs(nothing, nothing))
            assert (runs._batching.allowed, runs._batching.proven) == (True, False)
        numbers = np.array([[1, 2, 3, 4]], np.float32)
        values = runs.run(jobs(numbers, 2 * numbers))
        assert not runs._batching.allowed
        np.testing.assert_array_equal(values[0]["y"], np.ones((1, 4)) if "Softmax" in body else np.zeros((1, 4)))

    @pytest.mark.parametrize(
        "array",
        [
            np.zeros((1, 4), np.float32),
            np.array([[1, 2, 2, 1]], np.float32),
            np.array([[1, np.nan, np.inf, 1]], np.float32),
            np.full((1, 4), 60_000, np.float16),
            np.array([[1, 2, 3, 4]], ml_dtypes.bfloat16),
            np.zeros((2, 4), np.int64),
            np.array([[1, 2, 2, 1]], np.uint8),
            np.zeros((1, 4), np.bool_),
            np.ones((1, 4), np.bool_),
            np.array([["", "", "", ""]], object),
            np.array([["a", "ü", "", "a"]], object),
        ],
        ids=lambda array: str(array.dtype),
    )
    def test_equal_requests_share_runs_once_made_up_ones_prove_it(
        self, load: Callable[..., zrt.Session], counted: Counted, array: Any
    ) -> None:
        kind = {"bool": "bool", "object": "string", "float32": "float"}.get(array.dtype.name, array.dtype.name)
        runs = runner(load(f"({kind}[n, 4] x) => ({kind}[n, 4] y) {{ y = Identity(x) }}"), counted)
        for _ in range(2):
            values = runs.run(jobs(array, array))
            for value in values:
                np.testing.assert_array_equal(value["y"], array)
        assert runs._batching.proven

    def test_made_up_requests_that_cannot_run_prove_nothing(
        self, load: Callable[..., zrt.Session], counted: Counted
    ) -> None:
        text = "(int64[n] i) => (float[n] y) <float[1] t = {10}> { y = Gather(t, i) }"
        runs = runner(load(text), counted)
        with runs._session.record() as recorder:
            for _ in range(3):
                assert y(runs.run(jobs([0], [0], name="i"))) == [[10], [10]]
            made = recorder.runs
        assert (runs._batching.allowed, runs._batching.proven) == (True, False)
        # Three shared runs; of the proof two alone, and one beside made-up ones, which fails.
        assert [run.failed for run in made] == [False] * 3 + [True] + [False] * 2

    def test_no_run_is_padded_before_the_proof(self, load: Callable[..., zrt.Session], counted: Counted) -> None:
        session = load("(float[n] x) => (float[n] y) { y = Softmax <axis = 0> (x) }")
        runs = runner(session, counted)
        five = np.arange(5, dtype=np.float32)
        for _ in range(4):
            assert np.allclose(runs.run(jobs(five))[0]["y"], session.run([five])[0])

    def test_rounding_is_no_reason_against_sharing(self) -> None:
        values = np.array([1, 100, np.nan, np.inf], np.float32)
        assert same(values, values * np.float32(1.001))
        assert not same(values, values * np.float32(1.5))
        assert not same(values, values[:2])
        assert same(np.array(["a"], object), np.array(["a"], object))
        assert not same(np.array([1, 2]), np.array([1, 3]))
        assert same(np.empty((0, 2), np.float32), np.empty((0, 2), np.float32))
        half = np.array([1, 2], ml_dtypes.bfloat16)
        assert same(half, half)


class TestAlone:
    def test_bad_job_does_not_spoil_the_others(self, pick: zrt.Session, counted: Counted) -> None:
        runs = runner(pick, counted)
        runs.run(jobs([0], [1], name="i"))
        for _ in range(3):
            good, bad, last = runs.run(jobs([0, 1], [7], [2], name="i"))
            assert (good["y"].tolist(), last["y"].tolist()) == ([10, 20], [30])
            assert isinstance(bad, zrt.Error)
            assert "7" in str(bad)
        # The rows that pad a later batch are no rows of the bad one.
        for _ in range(3):
            assert y(runs.run(jobs([0, 1], [2, 2, 2], name="i"))) == [[10, 20], [30, 30, 30]]

    def test_job_whose_answer_cannot_be_written_does_not_spoil_the_others(
        self, double: zrt.Session, counted: Counted
    ) -> None:
        runs = runner(double, counted)
        pair = jobs(rows(1), rows(2))
        pair[0].finish = lambda results: 1 / 0
        first, second = runs.run(pair)
        assert isinstance(first, ZeroDivisionError)
        assert second["y"].tolist() == rows(4).tolist()

    def test_lanes_serve_models_without_a_batch(self, load: Callable[..., zrt.Session], counted: Counted) -> None:
        text = "(float[2, k] x) => (float[2] y) <int64[1] a = {1}> { y = ReduceMax <keepdims = 0> (x, a) }"
        runs = runner(load(text), counted)
        for size in (3, 3, 3, 5, 3):
            array = np.arange(2 * size, dtype=np.float32).reshape(2, size)
            [value] = runs.run([job({"x": array}, key=None)])
            assert value["y"].tolist() == array.max(axis=1).tolist()
        assert counted.hits == [False, False, True, False, True]

    def test_outputs_of_any_size_come_from_lanes(self, nonzero: zrt.Session, counted: Counted) -> None:
        runs = runner(nonzero, counted)
        for array in ([0, 1, 2], [0, 0, 0], [1, 1, 1], [0, 0, 3]):
            [value] = runs.run([job({"x": np.array(array, np.float32)}, key=None)])
            assert value["where"].tolist() == [np.flatnonzero(array).tolist()]
        assert counted.hits == [False, False, True, True]

    def test_only_the_data_of_requests_run(self, build: Callable[..., Any], counted: Counted) -> None:
        """On made-up data a loop of the model may never end, and no deadline ends the trial runs of a lane."""
        seen: list[list[float]] = []

        class Watch(zrt.CustomOp):
            inputs = ("float32",)
            outputs = ("float32",)

            def compute(self, context: Any) -> None:
                (x,) = context.inputs
                seen.append(x.tolist())
                context.output(0, x.shape)[...] = x

        options = zrt.SessionOptions(custom_ops=[zrt.CustomOpDomain("own", [Watch()])])
        model = build("(float[n] x) => (float[n] y) { y = own.Watch(x) }")
        model.opset_import.add(domain="own", version=1)
        with zrt.Session(model, options) as session:
            runs = runner(session, counted)
            for value in (3, 4, 5):
                runs.run([job({"x": np.array([value], np.float32)}, key=None)])
            runs.close()
        assert counted.hits == [False, False, True]
        assert seen == [[3], [4], [5]]

    def test_outputs_that_the_model_declares_wrongly_come_as_they_are(
        self, load: Callable[..., zrt.Session], counted: Counted
    ) -> None:
        """Also where the first ones fit, and there is a lane."""
        text = "(float[n, 6] x, int64[2] s) => (float[n, 6] y) { y = Reshape(x, s) }"
        runs = runner(load(text), counted)
        x = np.arange(6, dtype=np.float32).reshape(1, 6)
        for shape in [(1, 6)] * 3 + [(3, 2)] * 2 + [(1, 6)]:
            [value] = runs.run([job({"x": x, "s": np.array(shape)}, key=None)])
            assert y([value]) == [x.reshape(shape).tolist()]
        assert counted.hits == [False, False, True, False, False, False]

    def test_model_without_inputs_runs(self, load: Callable[..., zrt.Session], counted: Counted) -> None:
        runs = runner(load("() => (float y) { y = Constant <value = float {3}> () }"), counted)
        for _ in range(3):
            [value] = runs.run([job({}, key=None)])
            assert value["y"].tolist() == 3

    def test_job_without_rows_runs(self, double: zrt.Session, counted: Counted) -> None:
        runs = runner(double, counted)
        for _ in range(3):
            [value] = runs.run([job({"x": np.empty((0, 4), np.float32)}, 0, key=None)])
            assert value["y"].shape == (0, 4)

    def test_shapes_that_the_model_refuses_raise_each_time(
        self, load: Callable[..., zrt.Session], counted: Counted
    ) -> None:
        runs = runner(load("(float[n] a, float[m] b) => (float[k] y) { y = Add(a, b) }"), counted)
        feeds = {"a": np.ones(2, np.float32), "b": np.ones(3, np.float32)}
        for _ in range(4):
            [value] = runs.run([job(feeds, key=None)])
            assert isinstance(value, zrt.Error)


class TestGivingUp:
    def test_run_ends_when_nobody_waits(
        self, loop: zrt.Session, counted: Counted, background: Callable[..., Any], eventually: Callable[..., None]
    ) -> None:
        runs = runner(loop, counted)
        endless = job({"n": ENDLESS, "x": np.ones(4, np.float32)}, key=None)
        running = background(lambda: runs.run([endless]))
        running.under_way()
        runs.give_up()
        assert running.running
        endless.future.given_up = True

        def ended() -> bool:
            runs.give_up()
            return not running.running

        eventually(ended)
        assert isinstance(running.result()[0], zrt.errors.TerminatedError)
        # The next run is a usual one.
        [value] = runs.run([job({"n": np.array(1), "x": np.ones(4, np.float32)}, key=None)])
        assert value["y"].tolist() == [2] * 4


@pytest.mark.parametrize(
    ("most", "sizes"), [(32, [1, 2, 3, 4, 6, 8, 12, 16, 24, 32]), (5, [1, 2, 3, 4, 5]), (1, [1]), (20, [16, 20])]
)
def test_buckets_are_few_and_large_enough(most: int, sizes: list[int]) -> None:
    found = [bucket_size(rows, most) for rows in range(1, most + 1)]
    assert all(rows <= size <= most for rows, size in enumerate(found, 1))
    assert all(size <= 1.5 * rows for rows, size in enumerate(found, 1))
    assert set(sizes) <= set(found)
    assert len(set(found)) <= 10
