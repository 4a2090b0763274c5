"""`zrt.ray.Scorer`: batches of each format through a model, alone and as the actors of a data set."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

pytest.importorskip("ray", reason="needs the packages of the extra ray")

import pandas as pd
import pyarrow as pa
import ray

import zrt
import zrt.ray
from tests.scoring import models
from zrt.errors import ArgumentError, DTypeError, ShapeError, UnsupportedError

ROWS = 300
X = np.random.default_rng(0).random((ROWS, 3), np.float32)
K = np.arange(ROWS)
FORMATS = ("numpy", "pyarrow", "pandas")


def spec(model: bytes | None = None) -> zrt.SessionSpec:
    return zrt.SessionSpec(models.affine() if model is None else model, zrt.SessionOptions(intra_op_num_threads=1))


def local() -> dict[str, Any]:
    """The outputs of the session itself."""
    session = spec().load()
    return dict(zip(session.output_names, session.run({"x": X, "k": K}), strict=True))


def batch(kind: str, x: Any = X, k: Any = K) -> Any:
    if kind == "numpy":
        return {"x": np.asarray(x), "k": k, "id": k + 7}
    rows = [None if row is None else np.asarray(row) for row in x]
    if kind == "pandas":
        return pd.DataFrame({"x": rows, "k": k, "id": k + 7})
    return pa.table({"x": rows, "k": k, "id": k + 7})


def column(made: Any, name: str) -> Any:
    """A column of results as an array."""
    values = made[name]
    return np.stack(values.to_pylist() if isinstance(values, pa.ChunkedArray) else list(values))


class TestBatches:
    @pytest.mark.parametrize("kind", FORMATS)
    def test_results_have_the_format_of_the_batch(self, kind: str) -> None:
        given = batch(kind)
        made = zrt.ray.Scorer(spec(), keep=["id"], lanes=2)(given)
        assert type(made) is type(given)
        names = made.column_names if kind == "pyarrow" else list(made)
        assert names == ["id", "y", "n"]
        for name, wanted in local().items():
            assert column(made, name).astype(wanted.dtype).tobytes() == wanted.tobytes()
        assert column(made, "id").tolist() == (K + 7).tolist()

    @pytest.mark.parametrize("kind", FORMATS)
    def test_row_that_cannot_be_fed_is_named(self, kind: str) -> None:
        rows = np.empty(4, object)
        rows[:] = [X[0], None, X[2], X[3][:2]]
        with pytest.raises(ArgumentError, match="row 1 of the batch cannot be fed: column 'x': it is null"):
            zrt.ray.Scorer(spec(), lanes=1)(batch(kind, rows, K[:4]))

    @pytest.mark.parametrize("kind", ["pyarrow", "pandas"])
    def test_row_that_cannot_be_fed_has_nulls(self, kind: str) -> None:
        rows = np.empty(4, object)
        rows[:] = [X[0], None, X[2], X[3][:2]]
        made = zrt.ray.Scorer(spec(), lanes=1, skip_bad=True, keep=["k"])(batch(kind, rows, K[:4]))
        for name in ("y", "n"):
            values = made[name].to_pylist() if kind == "pyarrow" else list(made[name])
            assert [value is None for value in values] == [False, True, False, True]
        assert column(made, "k").tolist() == K[:4].tolist()

    def test_batches_with_and_without_nulls_have_the_same_types_for_ray(self) -> None:
        from ray.data.block import BlockAccessor

        scorer = zrt.ray.Scorer(spec(), lanes=1, skip_bad=True)
        rows = np.empty(4, object)
        rows[:] = [X[0], None, X[2], X[3]]
        made = [scorer(batch("pandas", each, K[:4])) for each in (X[:4], rows)]
        first, second = (BlockAccessor.for_block(each).to_arrow().schema.field("y").type for each in made)
        assert first == second == pa.list_(pa.float32())

    def test_null_in_numpy_is_nan(self) -> None:
        rows = np.empty(3, object)
        rows[:] = [X[0], None, X[2]]
        scorer = zrt.ray.Scorer(spec(models.sums()), lanes=1, skip_bad=True)
        assert np.isnan(scorer({"x": rows})["s"]).tolist() == [False, True, False]
        halves = zrt.ray.Scorer(spec(models.same("bfloat16[b, 3]")), lanes=1, skip_bad=True)
        assert np.isnan(halves({"x": rows})["y"]).all(1).tolist() == [False, True, False]
        with pytest.raises(ArgumentError, match="output 'n' has no nulls in numpy: use batch_format='pyarrow'"):
            zrt.ray.Scorer(spec(), lanes=1, skip_bad=True)(batch("numpy"))

    @pytest.mark.parametrize("kind", FORMATS)
    def test_columns_go_side_by_side(self, kind: str) -> None:
        given: Any = {"a": X[:, 0], "b": X[:, 1], "c": X[:, 2], "k": K}
        if kind != "numpy":
            given = pd.DataFrame(given) if kind == "pandas" else pa.table(given)
        made = zrt.ray.Scorer(spec(), inputs={"x": ["a", "b", "c"]}, lanes=1)(given)
        assert column(made, "y").astype(np.float32).tobytes() == local()["y"].tobytes()

    @pytest.mark.parametrize("kind", FORMATS)
    def test_batch_without_rows(self, kind: str) -> None:
        made = zrt.ray.Scorer(spec(), lanes=1)(batch(kind, X[:0], K[:0]))
        names = made.column_names if kind == "pyarrow" else list(made)
        assert names == ["y", "n"]
        assert len(made["y"]) == 0

    def test_nulls_of_pandas_are_nulls(self) -> None:
        given = pd.DataFrame({"x": list(X[:3]), "k": pd.array([1, None, 3], "Int64")})
        made = zrt.ray.Scorer(spec(), lanes=1, skip_bad=True)(given)
        assert [value is None for value in made["n"]] == [False, True, False]

    def test_tensors_of_arrow_and_of_ray(self) -> None:
        from ray.data.extensions import ArrowTensorArray

        scorer = zrt.ray.Scorer(spec(), lanes=1)
        for tensors in (pa.FixedShapeTensorArray.from_numpy_ndarray(X), ArrowTensorArray.from_numpy(X)):
            made = scorer(pa.table({"x": tensors, "k": K}))
            assert column(made, "y").astype(np.float32).tobytes() == local()["y"].tobytes()


class TestMistakes:
    @pytest.mark.parametrize(
        ("keywords", "error", "message"),
        [
            ({"inputs": {"z": "x"}}, ArgumentError, "the model has no input 'z'; it has 'x', 'k'"),
            ({"inputs": ["x"]}, DTypeError, "inputs: expected a mapping"),
            ({"inputs": {"x": 3}}, DTypeError, r"inputs\['x'\]: expected a str or a sequence of str, got int 3"),
            ({"inputs": {"x": []}}, ArgumentError, r"inputs\['x'\]: there are no columns"),
            ({"keep": 3}, DTypeError, "keep: expected"),
            ({"keep": ["y"]}, ArgumentError, "column 'y'"),
            ({"batch": 0}, ArgumentError, "batch: 0"),
            ({"lanes": 0}, ArgumentError, "lanes: 0"),
            ({"skip_bad": 1}, DTypeError, "skip_bad: expected True or False"),
        ],
    )
    def test_arguments(self, keywords: dict[str, Any], error: type[Exception], message: str) -> None:
        with pytest.raises(error, match=message):
            zrt.ray.Scorer(spec(), **keywords)

    def test_model_instead_of_a_recipe(self) -> None:
        with pytest.raises(DTypeError, match="spec: expected a SessionSpec"):
            zrt.ray.Scorer("model.onnx")  # type: ignore[arg-type]

    def test_batches(self) -> None:
        scorer = zrt.ray.Scorer(spec(), lanes=1)
        for wrong in ([1, 2], None, pa.array([1])):
            with pytest.raises(
                DTypeError, match=r"batch: expected a dict of numpy arrays, a pyarrow.Table or a pandas"
            ):
                scorer(wrong)
        with pytest.raises(ShapeError, match="do not all have the same number of rows"):
            scorer({"x": X, "k": K[:3]})
        with pytest.raises(ArgumentError, match="the data set has no column 'k'"):
            scorer({"x": X})
        with pytest.raises(ArgumentError, match="batch: column 'k' is a masked array"):
            scorer({"x": X, "k": np.ma.array(K, mask=K == 3)})
        with pytest.raises(DTypeError, match="column 'k': float64 cannot be fed as int64"):
            scorer({"x": X, "k": K / 2})

    @pytest.mark.parametrize("name", ["k", "other"])
    def test_columns_of_one_name(self, name: str) -> None:
        """Also those that no input takes: which of them is meant cannot be told."""
        scorer = zrt.ray.Scorer(spec(), lanes=1)
        names = ["x", "k", *{"k", name} - {"k"}, name]
        table = pa.table([list(X), *[K] * (len(names) - 1)], names)
        for given in (table, pd.DataFrame(zip(X, *[K] * (len(names) - 1), strict=True), columns=names)):
            with pytest.raises(ArgumentError, match=f"batch: 2 columns have the name '{name}'"):
                scorer(given)

    def test_model_without_rows(self) -> None:
        scalar = models.parse("(float x) => (float y) { y = Identity(x) }")
        with pytest.raises(UnsupportedError, match="rows feed tensors"):
            zrt.ray.Scorer(spec(scalar))


class TestDatasets:
    @pytest.fixture(autouse=True)
    def quiet(self, cluster: Any) -> None:
        ray.data.DataContext.get_current().enable_progress_bars = False
        ray.data.DataContext.get_current().execution_options.preserve_order = True

    @pytest.mark.parametrize("kind", ["numpy", "pyarrow"])
    def test_map_batches_on_two_actors(self, kind: str) -> None:
        rows = ray.data.from_items([{"x": row, "k": number} for number, row in zip(K, X, strict=True)])
        scored = rows.map_batches(
            zrt.ray.Scorer,
            fn_constructor_args=(spec(),),
            fn_constructor_kwargs={"keep": ["k"], "lanes": 2},
            batch_format=kind,
            batch_size=64,
            concurrency=2,
        )
        made = sorted(scored.take_all(), key=lambda row: row["k"])
        assert [row["k"] for row in made] == K.tolist()
        for name, wanted in local().items():
            assert np.stack([row[name] for row in made]).astype(wanted.dtype).tobytes() == wanted.tobytes()

    def test_error_names_the_row(self) -> None:
        rows = ray.data.from_items([{"x": [1.0, 2.0, 3.0], "k": 1}, {"x": None, "k": 2}], override_num_blocks=1)
        scored = rows.map_batches(zrt.ray.Scorer, fn_constructor_args=(spec(),), batch_format="pyarrow", concurrency=1)
        with pytest.raises(Exception, match="row 1 of the batch cannot be fed: column 'x': it is null"):
            scored.take_all()

    def test_lanes_are_the_cpus_of_the_actor(self) -> None:
        made = ray.remote(zrt.ray.scorer._given_cpus)
        assert ray.get([made.options(num_cpus=number).remote() for number in (0.5, 1, 3)], timeout=60) == [1, 1, 3]
