"""``zrt score``: data sets of each format through models, bad rows, interrupted runs."""

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.scoring import models
from tests.support import processes
from zrt.cli import main
from zrt.scoring import blocks, parts

pytest.importorskip("pyarrow", reason="needs the packages of the extra score")

import pyarrow as pa
import pyarrow.csv
import pyarrow.dataset as datasets
import pyarrow.parquet as parquet

ROWS = 1000
X = np.arange(ROWS * 3, dtype=np.float32).reshape(ROWS, 3) / 7
K = np.arange(ROWS)
LISTS = pa.list_(pa.float32())
Y = np.repeat(X.sum(axis=1, keepdims=True) + 1, 2, axis=1)


@pytest.fixture
def model(saved) -> Path:
    return saved(models.affine())


def table(x: Any = None, **more: Any) -> Any:
    rows = pa.FixedSizeListArray.from_arrays(pa.array(X.ravel()), 3) if x is None else x
    return pa.table({"x": rows, "k": K[: len(rows)], "id": [f"row {k}" for k in K[: len(rows)]], **more})


def check(y: Any, n: Any) -> None:
    np.testing.assert_allclose(np.array(y, np.float32), Y, rtol=1e-5)
    np.testing.assert_array_equal(np.array(n), 2 * K)


def write(kind: str, path: Path) -> Path:
    path = path / f"data.{kind}"
    if kind == "parquet":
        parquet.write_table(table(), path, row_group_size=300)
    elif kind == "arrow":
        with pa.ipc.new_file(str(path), table().schema) as writer:
            writer.write_table(table(), max_chunksize=300)
    elif kind == "csv":
        flat = pa.table({f"x{i}": X[:, i] for i in range(3)} | {"k": K})
        pyarrow.csv.write_csv(flat, path)
    elif kind == "npz":
        np.savez(path, x=X, k=K)
    return path


def read(path: Path) -> tuple[Any, Any]:
    kind = path.suffix[1:]
    if kind == "npz":
        with np.load(path) as columns:
            return columns["y"], columns["n"]
    columns = datasets.dataset(path, format=kind).to_table()
    if kind == "csv":
        return np.stack([columns["y_0"], columns["y_1"]], axis=1), columns["n"]
    return columns["y"].to_pylist(), columns["n"]


CSV = ("--input", "x0=x", "--input", "x1=x", "--input", "x2=x")


class TestNames:
    @pytest.mark.parametrize("line", ["0.5,1.5", "7,2,inf", "nan,3"])
    def test_row_of_numbers_in_place_of_names_is_refused(self, line, tmp_path, complaint):
        (tmp_path / "data.csv").write_text(f"{line}\n{line}\n")
        model = tmp_path / "m.onnx"
        model.write_bytes(models.parse("(float[n, k] x) => (float[n, k] y) { y = Neg(x) }"))
        arguments = ("score", model, tmp_path / "data.csv", tmp_path / "r.npz")
        text = complaint(*arguments, "--input", "*=x", status=2)
        assert (
            f"data.csv': its first line has the names of the columns, and these are numbers: {line.replace(',', ', ')};"
            in text
        )
        assert not (tmp_path / "r.npz").exists()

    @pytest.mark.parametrize(("line", "patterns"), [("0,2,5", ["*"]), ("a,0.5", ["*"]), ("0.5,nan", ["0.5", "nan"])])
    def test_numbers_may_be_names(self, line, patterns, tmp_path, score):
        (tmp_path / "data.csv").write_text(f"{line}\n{'3,' * line.count(',')}3\n")
        model = tmp_path / "m.onnx"
        model.write_bytes(models.parse("(float[n, k] x) => (float[n, k] y) { y = Neg(x) }"))
        named = [word for pattern in patterns for word in ("--input", f"{pattern}=x")]
        status, report = score(model, tmp_path / "data.csv", tmp_path / "r.npz", *named)
        assert (status, report["rows"]) == (0, 1)

    def test_columns_are_shown_how_to_be_fed(self, model, tmp_path, complaint):
        (tmp_path / "data.csv").write_text("a,b\n1,2\n")
        assert "--input COLUMN=NAME feeds" in complaint(
            "score", model, tmp_path / "data.csv", tmp_path / "r.npz", status=2
        )


class TestFormats:
    @pytest.mark.parametrize("source", ["parquet", "arrow", "csv", "npz"])
    @pytest.mark.parametrize("target", ["parquet", "arrow", "csv", "npz"])
    def test_each_format_to_each(self, model, tmp_path, source, target, score):
        data, results = write(source, tmp_path), tmp_path / f"results.{target}"
        status, report = score(model, data, results, *(CSV if source == "csv" else ()))
        assert (status, report["rows"], report["bad_rows"]) == (0, ROWS, 0)
        check(*read(results))
        assert not (tmp_path / f"{results.name}.parts").exists()

    def test_npy(self, saved, tmp_path, score):
        np.save(tmp_path / "x.npy", X)
        assert score(saved(models.sums()), tmp_path / "x.npy", tmp_path / "s.npy")[0] == 0
        np.testing.assert_allclose(np.load(tmp_path / "s.npy"), X.sum(axis=1), rtol=1e-5)

    def test_folders(self, model, tmp_path, score):
        (tmp_path / "data").mkdir()
        for index in range(4):
            parquet.write_table(table().slice(index * 250, 250), tmp_path / "data" / f"{index}.parquet")
        assert score(model, tmp_path / "data", tmp_path / "out")[0] == 0
        found = datasets.dataset(tmp_path / "out", format="parquet").to_table()
        check(found["y"].to_pylist(), found["n"])

    def test_texts(self, scored):
        status, report, columns = scored(models.texts(), {"s": ["a", "bé", ""] * 100})
        assert (status, columns["t"]) == (0, ["a", "bé", ""] * 100), report

    @pytest.mark.parametrize("target", ["parquet", "csv", "npz"])
    def test_bfloat16_is_written_as_float32(self, saved, tmp_path, target, score):
        model = saved(models.parse("(bfloat16[n] n) => (bfloat16[n] y) { y = Identity(n) }"))
        np.savez(tmp_path / "data.npz", n=np.array([1.5, -2], np.float32))
        results = tmp_path / f"results.{target}"
        assert score(model, tmp_path / "data.npz", results)[0] == 0
        if target == "npz":
            column = np.load(results)["y"]
            assert (column.dtype, column.tolist()) == (np.float32, [1.5, -2])
        else:
            assert datasets.dataset(results, format=target).to_table()["y"].to_pylist() == [1.5, -2]

    @pytest.mark.parametrize("target", ["npz", "npy"])
    def test_null_of_bfloat16_is_nan(self, saved, tmp_path, target, score):
        model = saved(models.parse("(bfloat16[n] n) => (bfloat16[n] y) { y = Identity(n) }"))
        parquet.write_table(pa.table({"n": pa.array([1.5, None], pa.float32())}), tmp_path / "data.parquet")
        results = tmp_path / f"results.{target}"
        assert score(model, tmp_path / "data.parquet", results, "--skip-bad")[0] == 0
        found = np.load(results)
        np.testing.assert_array_equal(found["y"] if target == "npz" else found, np.array([1.5, np.nan], np.float32))

    def test_kept_columns(self, scored):
        _, _, columns = scored(models.affine(), table(), "--keep", "id", row_group_size=300)
        assert list(columns) == ["id", "y", "n"]
        assert columns["id"] == [f"row {k}" for k in K]

    def test_kept_numbers_of_a_csv_stay_numbers(self, model, tmp_path, score):
        (tmp_path / "data.csv").write_text("x0,x1,x2,k,id,zip\n1,2,3,4,1,007\n1,2,3,5,,010\n1,2,3,6,3,100\n")
        for target in ("results.parquet", "results.csv"):
            score(model, tmp_path / "data.csv", tmp_path / target, *CSV, "--keep", "id", "--keep", "zip")
        table = parquet.read_table(tmp_path / "results.parquet")
        assert (str(table["id"].type), table["id"].to_pylist()) == ("int64", [1, None, 3])
        assert table["zip"].to_pylist() == ["007", "010", "100"]
        first = (tmp_path / "results.csv").read_text().splitlines()[1]
        assert first.startswith('1,"007",')

    def test_words_for_no_number_stay_texts_among_texts(self, model, saved, tmp_path, score):
        """NA is a country."""
        lines = ["x0,x1,x2,k,country,size", "1,2,3,4,NA,NA", '1,2,3,5,"",7', "1,2,3,6,null,null", "1,NA,3,7,DE,9"]
        (tmp_path / "data.csv").write_text("\n".join(lines))
        results = tmp_path / "results.parquet"
        status, report = score(model, tmp_path / "data.csv", results, *CSV, "--keep", "country", "--keep", "size")
        assert (status, report["bad"]) == (1, [{"row": 3, "reason": "column 'x1': it is null"}])
        table = parquet.read_table(results)
        assert table["country"].to_pylist() == ["NA", "", "null"]
        assert (str(table["size"].type), table["size"].to_pylist()) == ("int64", [None, 7, None])
        texts = saved(models.texts(), "texts.onnx")
        assert score(texts, tmp_path / "data.csv", results, "--input", "country=s", "--overwrite")[0] == 0
        assert parquet.read_table(results)["t"].to_pylist() == ["NA", "", "null", "DE"]

    def test_kept_texts_of_some_mebibytes(self, scored):
        texts = ["x" * (5 << 20), "y", "z" * (3 << 20)]
        lines = ["x0,x1,x2,k,id", *(f"1,2,3,4,{text}" for text in texts)]
        status, _, columns = scored(models.affine(), lines, *CSV, "--keep", "id", source="data.csv")
        assert (status, columns["id"]) == (0, texts)

    def test_kept_texts_of_several_lines(self, tmp_path, scored):
        """pyarrow reads a file in blocks of 8 MiB, which may begin within a text."""
        texts = [f"{'line' * 80}\n" * 5 + str(k) for k in range(10_000)]
        rows = {f"x{i}": np.ones(10_000) for i in range(3)} | {"k": np.arange(10_000), "id": texts}
        pyarrow.csv.write_csv(pa.table(rows), tmp_path / "data.csv")
        assert (tmp_path / "data.csv").stat().st_size > 15 << 20
        status, report, columns = scored(models.affine(), None, *CSV, "--keep", "id", source="data.csv")
        assert (status, report["rows"], columns["id"]) == (0, 10_000, texts), report

    def test_name_of_several_lines(self, model, tmp_path, monkeypatch, score):
        """It stands at the head of each part."""
        monkeypatch.setattr(parts, "PART_BYTES", 1000)
        name = 'i "d"\n2'
        parquet.write_table(table(**{name: K}), tmp_path / "data.parquet")
        assert score(model, tmp_path / "data.parquet", tmp_path / "results.csv", "--keep", name)[0] == 0
        parse = pyarrow.csv.ParseOptions(newlines_in_values=True)
        assert pyarrow.csv.read_csv(tmp_path / "results.csv", parse_options=parse)[name].to_pylist() == K.tolist()

    def test_kept_texts_count_for_the_size_of_a_part(self, tmp_path, monkeypatch, scored):
        monkeypatch.setattr(parts, "PART_BYTES", 1 << 20)
        x = pa.FixedSizeListArray.from_arrays(pa.array(np.tile(X.ravel(), 10)), 3)
        rows = {"x": x, "k": np.tile(K, 10), "id": ["text" * 200] * 10 * ROWS}
        scored(models.affine(), rows, "--keep", "id", "--batch", 64, target="results")
        # 8 MB of texts and 0.2 MB of outputs; a chunk of 8,192 rows is cut at the ends of blocks only.
        assert len(list((tmp_path / "results").glob("*.parquet"))) >= 3

    def test_texts_of_outputs_count_for_the_size_of_a_part(self, tmp_path, monkeypatch, scored):
        monkeypatch.setattr(parts, "PART_BYTES", 1 << 20)
        assert scored(models.texts(), {"s": ["text" * 250] * 8000}, "--batch", 64, target="results")[0] == 0
        assert len(list((tmp_path / "results").glob("*.parquet"))) >= 3

    def test_kept_columns_of_numpy(self, scored):
        rows = {"x": X, "k": K, "id": K + 7, "pair": np.stack([K, K], axis=1)}
        status, report, columns = scored(models.affine(), rows, "--keep", "id", "--keep", "pair", source="data.npz")
        assert (status, columns["id"]) == (0, list(range(7, ROWS + 7))), report
        assert columns["pair"][3] == [3, 3]

    def test_columns_of_a_pattern_in_the_shape_of_the_input(self, scored):
        """In the order of the file, which is not that of the names."""
        model = models.parse("(float[n, 2, 3] image) => (float[n, 2, 3] y) { y = Identity(image) }")
        lines = ["p0,p10,p1,other,p3,p4,p2", "0,1,2,9,3,4,5"]
        status, report, columns = scored(model, lines, "--input", "p*=image", source="data.csv")
        assert (status, columns["y"]) == (0, [[[0, 1, 2], [3, 4, 5]]]), report
        for pattern, words in (
            ("p?=image", "input 'image' takes rows of shape [2, 3], which 5 columns do not make"),
            ("q*=image", "no column 'q*'"),
        ):
            status, report, _ = scored(model, lines, "--overwrite", "--input", pattern, source="data.csv")
            assert status == 2
            assert words in report

    @pytest.mark.parametrize("bad", [False, True])
    @pytest.mark.parametrize("target", ["r.parquet", "r.arrow", "r.csv", "r.npz"])
    def test_bytes_do_not_tell_where_parts_were_cut(self, saved, tmp_path, target, bad, monkeypatch, score):
        model = saved(models.sums())
        rows = [None if bad and number % 97 == 5 else row for number, row in enumerate(X.tolist())]
        parquet.write_table(table(pa.array(rows, LISTS)), tmp_path / "data.parquet", row_group_size=300)
        more = () if target == "r.npz" else ("--keep", "id")
        made = []
        for cut in (1, 100, 1000, 1 << 20):
            monkeypatch.setattr(parts, "PART_BYTES", cut)
            arguments = (model, tmp_path / "data.parquet", tmp_path / target, "--overwrite", "--skip-bad", *more)
            assert score(*arguments, "--batch", 10)[0] == 0
            made.append((tmp_path / target).read_bytes())
        assert len(set(made)) == 1


class TestShapes:
    def test_rows_of_different_lengths(self, saved, tmp_path, score):
        rows = [[1.0] * (1 + number // 3 % 4) for number in range(100)]
        parquet.write_table(pa.table({"x": rows}), tmp_path / "x.parquet")
        assert score(saved(models.sums()), tmp_path / "x.parquet", tmp_path / "s.npy")[0] == 0
        assert np.load(tmp_path / "s.npy").tolist() == [len(row) for row in rows]

    def test_nested_lists_become_tensors(self, scored):
        status, report, columns = scored(models.affine(), table(pa.array(X.tolist())))
        assert status == 0, report
        check(columns["y"], columns["n"])


BAD = {3: None, 500: [1.0], 501: [1.0, None, 2.0], 999: [1.0] * 4}
GOOD = [number for number in range(ROWS) if number not in BAD]
SOME_BAD = table(pa.array([BAD.get(number, row) for number, row in enumerate(X.tolist())], LISTS))


class TestBadRows:
    def test_are_left_out_and_reported(self, scored):
        status, report, columns = scored(models.affine(), SOME_BAD, "--keep", "k")
        assert (status, report["bad_rows"]) == (1, len(BAD))
        assert [one["row"] for one in report["bad"]] == list(BAD)
        assert report["bad"][1]["reason"] == "column 'x': shape [1], not shape [3]"
        assert columns["k"] == GOOD
        np.testing.assert_allclose(columns["y"], Y[GOOD], rtol=1e-5)

    def test_have_nulls(self, scored):
        status, report, columns = scored(models.affine(), SOME_BAD, "--skip-bad", "--keep", "id")
        assert (status, report["bad_rows"]) == (0, len(BAD))
        assert columns["id"] == [f"row {k}" for k in K]
        for name in ("y", "n"):
            assert [row for row, value in enumerate(columns[name]) if value is None] == list(BAD)
        np.testing.assert_allclose([columns["y"][row] for row in GOOD], Y[GOOD], rtol=1e-5)

    @pytest.mark.parametrize(("more", "good"), [((), [0, 2, 3]), (("--skip-bad",), [0, 1, 2, 3])])
    def test_kept_column_of_numpy_has_several_numbers_a_row(self, more, good, scored):
        x, pairs = np.ones((4, 2)), np.arange(8).reshape(4, 2)
        x[1, 0] = 1e300
        rows = {"x": x, "pairs": pairs}
        _, report, columns = scored(models.sums(), rows, "--keep", "pairs", *more, source="data.npz")
        assert [bad["row"] for bad in report["bad"]] == [1]
        assert columns["pairs"] == pairs[good].tolist()

    def test_all_rows_bad(self, scored):
        status, report, columns = scored(models.affine(), table(pa.nulls(20, LISTS)), "--skip-bad")
        assert (status, report["bad_rows"], columns["y"]) == (0, 20, [None] * 20)
        status, report, columns = scored(models.affine(), None, target="b.parquet")
        assert (status, report["bad_rows"], columns) == (1, 20, {"y": [], "n": []})

    def test_bad_row_alone_in_its_part_of_the_file(self, scored):
        """The made-up row has an element, which this model needs."""
        text = "(float[n, t] x) => (float[n] y) <int64 first = {0}> { y = Gather<axis=1>(x, first) }"
        rows = {"x": pa.array([[1, 2], [3, 4], None], LISTS)}
        status, report, columns = scored(models.parse(text), rows, "--skip-bad", row_group_size=2)
        assert (status, columns["y"]) == (0, [1, 3, None]), report

    @pytest.mark.parametrize("batch", [1, 2, 64])
    @pytest.mark.parametrize(
        ("text", "rows", "kind"),
        [
            ("(float[n, l] x) => (float[n, l] y) { y = Relu(x) }", [[2.0] * 4], LISTS),
            ("(string[n] x) => (string[n] y) { y = Identity(x) }", ["a", "b"], pa.string()),
            ("(string[n] x) => (string[n] y) { y = Identity(x) }", [], pa.string()),
        ],
        ids=["open size", "texts", "no text"],
    )
    def test_run_of_bad_rows_alone_has_the_shapes_of_others(self, text, rows, kind, batch, scored):
        data = {"x": pa.array([None, *rows, None], kind)}
        status, report, columns = scored(models.parse(text), data, "--skip-bad", "--batch", batch, "--lanes", 1)
        assert (status, report["bad_rows"], columns["y"]) == (0, 2, [None, *rows, None]), report

    @pytest.mark.parametrize("good", [[], [[[1.0] * 9]]], ids=["alone", "before another"])
    def test_nulls_of_a_model_that_refuses_a_made_up_row(self, good, monkeypatch, scored):
        """The kernel is larger than a row of open sizes that are 1."""
        text = "(float[n, 1, t] x) => (float[n, 1, u] y) <float[1, 1, 3] w = {1, 1, 1}> { y = Conv(x, w) }"
        monkeypatch.setattr("zrt.scoring.score.CHUNK_ROWS", 2)
        rows = {"x": pa.array([None] * 5 + good, pa.list_(LISTS))}
        more = ("--skip-bad", "--batch", "1", "--checkpoint", "0.000001s")
        status, report, columns = scored(models.parse(text), rows, *more)
        assert (status, report["bad_rows"]) == (0, 5)
        assert columns["y"] == [None] * 5 + [[[3.0] * 7] for _ in good]

    def test_data_set_without_rows_has_results_without_rows(self, tmp_path, scored):
        rows = {"s": pa.array([], pa.string()), "id": pa.array([], pa.int16())}
        assert scored(models.texts(), rows, "--keep", "id")[0] == 0
        found = parquet.read_table(tmp_path / "r.parquet")
        assert (found.num_rows, found.column_names, str(found["id"].type)) == (0, ["id", "t"], "int16")

    def test_data_set_without_rows_for_a_model_that_refuses_zeros(self, tmp_path, scored):
        """The made-up row that tells the shapes of results is one of zeros."""
        text = """(int64[n] k) => (float[n] y) <int64 one = {1}, float[2] table = {5, 6}> {
            before = Sub(k, one)
            double = Add(before, before)
            far = Add(double, before)
            y = Gather(table, far)
        }"""
        assert scored(models.parse(text), {"k": pa.array([], pa.int64())})[0] == 0
        found = parquet.read_table(tmp_path / "r.parquet")
        assert (found.num_rows, [str(each) for each in found.schema.types]) == (0, ["float"])

    @pytest.mark.parametrize("kind", ["parquet", "csv", "npz"])
    def test_results_without_rows_have_the_kept_columns(self, tmp_path, kind, scored):
        rows = {
            "npz": {"x": np.full((20, 3), 1e300), "k": K[:20], "id": K[:20]},
            "csv": ["x0,x1,x2,k,id", "1,?,3,4,5"],
            "parquet": table(pa.nulls(20, LISTS)),
        }[kind]
        more = CSV if kind == "csv" else ()
        assert scored(models.affine(), rows, "--keep", "id", *more, source=f"data.{kind}")[0] == 1
        found = parquet.read_table(tmp_path / "r.parquet")
        assert (found.num_rows, found.column_names) == (0, ["id", "y", "n"])
        assert str(found["id"].type) == ("string" if kind == "parquet" else "int64")

    @pytest.mark.parametrize("place", [0, 64, 100, 936])
    def test_whole_batches_of_bad_rows_beside_kept_columns(self, place, scored):
        rows = [None if place <= number < place + 64 else row for number, row in enumerate(X.tolist())]
        status, _, columns = scored(models.affine(), table(pa.array(rows, LISTS)), "--keep", "id", "--batch", 64)
        assert status == 1
        assert columns["id"] == [f"row {number}" for number, row in enumerate(rows) if row is not None]

    @pytest.mark.parametrize("more", [(), ("--skip-bad",)])
    def test_batches_do_not_depend_on_the_time_that_runs_take(self, saved, tmp_path, monkeypatch, more, score):
        """The results of this model tell which rows were in a batch."""
        text = """(float[n, l] x) => (float[n] y) <int64[1] a = {1}, int64[1] b = {0}> {
            s = ReduceSum <keepdims = 0> (x, a)
            m = ReduceSum <keepdims = 1> (s, b)
            y = Sub(s, m)
        }"""
        model = saved(models.parse(text))
        generator = np.random.default_rng(0)
        rows = [
            None if bad else [float(number)] * (2 + number // 700 % 2)
            for number, bad in enumerate(generator.random(5000) < 0.01)
        ]
        parquet.write_table(pa.table({"x": rows}), tmp_path / "data.parquet")
        made = []
        for seconds in (1e-9, 0.001, 0.05, 10):
            monkeypatch.setattr(blocks, "BLOCK_S", seconds)
            arguments = (model, tmp_path / "data.parquet", tmp_path / "results.parquet", "--overwrite", "--batch", 10)
            score(*arguments, *more)
            made.append((tmp_path / "results.parquet").read_bytes())
        assert len(set(made)) == 1

    def test_texts_that_are_no_numbers(self, scored):
        lines = ["x0,x1,x2,k", "1,2,3,0", "1,two,3,1", "1,,3,2", "1,2,nan,3", "1,2,3,3.5", "4,5,6,5"]
        status, report, columns = scored(models.affine(), lines, *CSV, source="bad.csv", target="r.csv")
        assert (status, [one["row"] for one in report["bad"]]) == (1, [1, 2, 4])
        assert report["bad"][0]["reason"] == "column 'x1': 'two' is no float32"
        assert columns["n"] == [0, 6, 10]

    @pytest.mark.parametrize("last", ["7", "?"])
    def test_notations_of_programs_are_no_numbers(self, last, scored):
        """The texts of the other rows make no difference."""
        lines = ["x0,x1,x2,k", "1,2,3,0x10", "1,2,3,1_0", "1,2,3,٣", "1,0x1p3,3,4", "1,2,3,-5", f"1,2,3,{last}"]
        _, report, _ = scored(models.affine(), lines, *CSV, source="bad.csv", target="r.csv")
        assert [one["row"] for one in report["bad"]][:4] == [0, 1, 2, 3]
        assert report["bad"][0]["reason"] == "column 'k': '0x10' is no int64"

    @pytest.mark.parametrize("lists", [[[1.0, 2.0]] * 2, [[1.0, 2.0], [1.0] * 3], [[1.0, 2.0], None]], ids=str)
    def test_lists_beside_numbers(self, lists, scored):
        rows = {"x0": [1.0, 2.0], "x1": pa.array(lists, LISTS), "x2": [1.0, 1.0], "k": [1, 2]}
        status, report, _ = scored(models.affine(), rows, *CSV, target="r.csv")
        assert (status, [one["row"] for one in report["bad"]]) == (1, [0, 1])
        assert report["bad"][0]["reason"].startswith("column 'x1': shape [")


class TestMistakes:
    @pytest.mark.parametrize(
        ("arguments", "message"),
        [
            (["--input", "nope=x"], "no column 'nope'"),
            (["--input", "x=nope"], "no input 'nope'"),
            (["--keep", "nope"], "no column 'nope'"),
            (["--lanes", "1025"], "--lanes: 1025 is not between 1 and 1024"),
            (["--input", "id=k"], ""),
        ],
    )
    def test_of_columns(self, arguments, message, scored):
        status, report, _ = scored(models.affine(), table(), *arguments)
        if message:
            assert status == 2
            assert message in report
        else:
            assert (status, report["bad_rows"]) == (1, ROWS)

    def test_column_of_another_kind(self, scored):
        status, report, _ = scored(models.affine(), {"x": X, "k": K / 2}, source="data.npz", target="r.npz")
        assert status == 2
        assert "column 'k': float64 cannot be fed as int64 to input 'k'" in report

    @pytest.mark.parametrize(
        ("target", "arguments", "message"),
        [
            ("r.npy", [], "2 outputs"),
            ("r.npz", ["--keep", "id"], "--keep"),
            ("r.npz", ["--skip-bad"], "output 'n' has no nulls in numpy"),
        ],
    )
    def test_of_numpy_results(self, target, arguments, message, scored):
        status, report, _ = scored(models.affine(), table(), *arguments, target=target)
        assert status == 2
        assert message in report

    def test_of_results_in_the_data_set(self, model, tmp_path, score):
        (tmp_path / "rows").mkdir()
        data = write("parquet", tmp_path / "rows")
        before = data.read_bytes()
        for source, target in ((data, data), (data.parent, data.parent), (data.parent, data.parent / "r.parquet")):
            status, report = score(model, source, target, "--output-format", "parquet")
            assert status == 2
            assert "is part of the data set" in report
        assert [(file.name, file.read_bytes()) for file in data.parent.iterdir()] == [(data.name, before)]

    def test_of_results_that_the_data_set_links_to(self, model, tmp_path, score):
        results = tmp_path / "results"
        assert score(model, write("parquet", tmp_path), results)[0] == 0
        [part] = results.glob("*.parquet")
        before = part.read_bytes()
        (tmp_path / "rows").mkdir()
        (tmp_path / "rows" / "link.parquet").symlink_to(part)
        status, report = score(model, tmp_path / "rows", results, "--overwrite", "--input", "y=x", "--input", "n=k")
        assert status == 2
        assert "is part of the data set" in report
        assert part.read_bytes() == before

    def test_of_csv_results(self, scored):
        x = pa.FixedSizeListArray.from_arrays(pa.array(X.ravel()), 3)
        rows = {"x": x, "k": K, "y_0": K, "nested": [[k] for k in K]}
        for column, message in (
            ("y_0", "two columns of a CSV file would be 'y_0'"),
            ("nested", "column 'nested' cannot be kept: csv files cannot hold its type list<"),
        ):
            status, report, _ = scored(models.affine(), rows, "--keep", column, target="r.csv")
            assert status == 2
            assert message in report

    @pytest.mark.parametrize("kind", ["parquet", "npz"])
    @pytest.mark.parametrize("batch", [2**31, 2**64])
    def test_batch_of_too_many_rows(self, model, tmp_path, kind, batch, score):
        status, report = score(model, write(kind, tmp_path), tmp_path / "r.parquet", "--batch", batch)
        assert status == 2
        assert "argument --batch: expected a whole number from 1 to 2147483647" in report

    @pytest.mark.parametrize(("package", "arguments"), [("pyarrow", ()), ("ray", ("--ray", "local"))])
    def test_missing_package_is_a_failure(self, model, tmp_path, package, arguments, monkeypatch, score):
        data = write("parquet", tmp_path)
        monkeypatch.setitem(sys.modules, package, None)
        status, report = score(model, data, tmp_path / "r.parquet", *arguments)
        assert status == 1
        assert f"needs the {package} package" in report

    def test_missing_and_unreadable_files(self, model, tmp_path, score):
        assert score(model, tmp_path / "none.parquet", tmp_path / "r.parquet")[0] == 1
        assert score(model, tmp_path / "none", tmp_path / "r.parquet")[0] == 2
        (tmp_path / "wrong.parquet").write_bytes(b"nothing")
        status, report = score(model, tmp_path / "wrong.parquet", tmp_path / "r.parquet")
        assert status == 1
        assert "wrong.parquet" in report


def test_text_names_bad_rows(model, tmp_path, capsys):
    rows = [None, *X[1:].tolist()]
    parquet.write_table(table(pa.array(rows, LISTS)), tmp_path / "bad.parquet")
    assert main(["score", str(model), str(tmp_path / "bad.parquet"), str(tmp_path / "r.parquet")]) == 1
    out = capsys.readouterr().out
    assert f"{ROWS} rows in" in out
    assert "rows per second" in out
    assert "left out, because it cannot be fed: 1 row" in out
    assert "row 0: column 'x': it is null" in out


@pytest.mark.slow
def test_memory_does_not_grow_with_the_data(tmp_path):
    """Eight times as many rows take little more memory: the data set has 180 MB more."""
    (tmp_path / "model.onnx").write_bytes(models.sums())
    code = (
        "import resource, sys, zrt.cli; status = zrt.cli.main(sys.argv[1:]); "
        "print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss); sys.exit(status)"
    )
    peaks = []
    for count in (100_000, 800_000):
        group = pa.array(np.ones(50_000 * 64, np.float32))
        rows = pa.table({"x": pa.FixedSizeListArray.from_arrays(group, 64)})
        with parquet.ParquetWriter(
            tmp_path / "x.parquet", rows.schema, use_dictionary=False, compression="none"
        ) as file:
            for _ in range(count // 50_000):
                file.write_table(rows)
        arguments = ("score", "model.onnx", "x.parquet", f"{count}.npy", "--batch", 256)
        done = processes.run(sys.executable, "-c", code, *arguments, cwd=tmp_path, timeout=120)
        assert done.returncode == 0, done.stderr
        peaks.append(int(done.stdout.split()[-1]) / 1024)
    assert peaks[1] - peaks[0] < 90, peaks
