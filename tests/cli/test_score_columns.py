"""``zrt score`` of odd columns, and of data sets that change: each row has its own result, or is reported."""

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.scoring import models
from zrt.scoring import parts, sources
from zrt.scoring import score as scoring

pytest.importorskip("pyarrow", reason="needs the packages of the extra score")

import pyarrow as pa
import pyarrow.parquet as parquet


def undecodable(*texts: bytes) -> Any:
    """A column of texts that no check has seen."""
    return pa.array(texts, pa.binary()).view(pa.string())


class TestRowsOfOddColumns:
    @pytest.mark.parametrize("wider", [pa.int64(), pa.float64()], ids=str)
    def test_files_of_a_folder_have_numbers_of_other_types(self, tmp_path, wider, scored):
        (tmp_path / "data").mkdir()
        narrow, wide = (pa.int8(), [2**40]) if wider == pa.int64() else (pa.float32(), [1e300, 0.1])
        for name, values in (("a", pa.array([1], narrow)), ("b", pa.array(wide, wider))):
            parquet.write_table(pa.table({"x": values, "k": values}), tmp_path / "data" / f"{name}.parquet")
        model = models.same("int64[n]" if wider == pa.int64() else "double[n]")
        status, report, columns = scored(model, None, "--keep", "k", source="data")
        assert (status, columns) == (0, {"k": [1, *wide], "y": [1, *wide]}), report

    @pytest.mark.parametrize("permutation", [None, [1, 0]])
    @pytest.mark.parametrize("bad", [None, [1.0, None, 3.0, 4.0]])
    def test_tensors_with_nulls(self, permutation, bad, scored):
        kind = pa.fixed_shape_tensor(pa.float32(), [2, 2], permutation=permutation)
        rows = pa.array([[1, 2, 3, 4], bad, [5, 6, 7, 8]], kind.storage_type)
        data = {"x": pa.ExtensionArray.from_storage(kind, rows)}
        status, report, columns = scored(models.same("float[n, a, b]"), data, source="data.arrow")
        assert (status, [each["row"] for each in report["bad"]]) == (1, [1]), report
        whole = np.array([[[1, 2], [3, 4]], [[5, 6], [7, 8]]])
        wanted = whole if permutation is None else whole.transpose(0, 2, 1)
        assert columns["y"] == wanted.tolist()

    def test_line_without_anything_is_a_row_of_one_column(self, scored):
        """So zrt reads its own results."""
        model = models.same("float[n]")
        assert scored(model, {"x": [1.0, None, 3.0]}, "--skip-bad", target="r.csv")[0] == 0
        status, report, _ = scored(model, None, "--input", "y=x", source="r.csv")
        assert (status, report["rows"], [each["row"] for each in report["bad"]]) == (1, 3, [1])

    @pytest.mark.parametrize(
        ("kind", "column", "good"),
        [
            ("string[n]", undecodable(b"a", b"b\xff", b"c"), ["a", "c"]),
            ("string[n]", pa.array([b"a", b"b\xff", b"c"]), ["a", "c"]),
            ("float[n]", undecodable(b"1", b"2\xff", b"3"), [1, 3]),
            ("string[n, 2]", pa.array([["a", "b"], ["c", None], ["d", "e"]]), [["a", "b"], ["d", "e"]]),
        ],
        ids=["text", "bytes", "number", "list"],
    )
    def test_bad_text_does_not_end_the_run(self, kind, column, good, scored):
        status, report, columns = scored(models.same(kind), {"x": column})
        assert (status, columns["y"]) == (1, good), report
        assert [each["row"] for each in report["bad"]] == [1]

    def test_zero_characters_at_the_end_of_texts_stay(self, scored):
        status, report, columns = scored(models.same("string[n]"), {"x": ["a\0", "\0", "b"]})
        assert (status, columns["y"]) == (0, ["a\0", "\0", "b"]), report

    def test_lists_of_nothing_are_rows(self, scored):
        text = "(int64[n, l] x) => (int64[n] y) <int64[1] a = {1}> { y = ReduceSum <keepdims = 0> (x, a) }"
        status, report, columns = scored(models.parse(text), {"x": [[1, 2], [], [3]]})
        assert (status, columns["y"]) == (0, [3, 0, 3]), report

    @pytest.mark.parametrize("kind", [pa.timestamp("ns"), pa.time64("ns"), pa.decimal128(21, 2)], ids=str)
    def test_column_that_is_no_number_is_named_by_its_type(self, kind, scored):
        status, report, _ = scored(models.same("int64[n]"), {"x": pa.array([1, 2]).cast(kind)})
        assert status == 2
        assert f"column 'x': {kind} cannot be fed as int64 to input 'x'" in report

    @pytest.mark.parametrize("rows", [[None, [1.0, 2.0], [3.0, 4.0]], [[1.0, 2.0], [3.0, 4.0], [None, 1.0]]], ids=str)
    def test_nulls_alone_in_a_chunk_have_the_shape_of_other_rows(self, rows, monkeypatch, scored):
        if rows[0]:
            monkeypatch.setattr(parts, "PART_BYTES", 1)
        data = {"x": pa.array(rows, pa.list_(pa.float32()))}
        status, report, columns = scored(models.same("float[n, l]"), data, "--skip-bad", row_group_size=1)
        wanted = [None if row is None or None in row else row for row in rows]
        assert (status, columns["y"]) == (0, wanted), report

    @pytest.mark.parametrize(("target", "size"), [("r.parquet", 1 << 20), ("r.arrow", 1)])
    def test_kept_dictionaries_differ_from_file_to_file(self, tmp_path, target, size, monkeypatch, scored):
        monkeypatch.setattr(parts, "PART_BYTES", size)
        monkeypatch.setattr("zrt.scoring.arrow_files.GROUP_BYTES", 1)
        (tmp_path / "data").mkdir()
        texts = [[f"{file} {row}" for row in range(100)] for file in range(2)]
        for file in range(2):
            kept = pa.DictionaryArray.from_arrays(pa.array(range(100), pa.int8()), texts[file])
            parquet.write_table(pa.table({"x": np.arange(100.0), "k": kept}), tmp_path / "data" / f"{file}.parquet")
        status, report, columns = scored(models.same("double[n]"), None, "--keep", "k", source="data", target=target)
        assert (status, columns["k"]) == (0, texts[0] + texts[1]), report

    def test_kept_texts_of_views(self, scored):
        """Polars writes them."""
        data = {"x": [1.0, None, 3.0], "k": pa.array(["a", "b", "c" * 30], pa.string_view())}
        files = {"source": "data.arrow", "target": "r.arrow"}
        status, report, columns = scored(models.same("float[n]"), data, "--keep", "k", **files)
        assert (status, [each["row"] for each in report["bad"]]) == (1, [1])
        assert columns["k"] == ["a", "c" * 30]

    @pytest.mark.parametrize("target", ["r.parquet", "r.arrow", "r.csv"])
    def test_kept_arrays_of_numpy_that_arrow_does_not_have_are_named_before_the_run(self, target, scored):
        data = {"x": np.zeros(2, np.float32), "k": np.zeros(2, complex)}
        status, report, _ = scored(models.same("float[n]"), data, "--keep", "k", source="data.npz", target=target)
        assert status == 2
        assert f"column 'k' cannot be kept: {target[2:]} files cannot hold its type complex128" in report

    def test_kept_numbers_in_the_order_of_other_machines(self, scored):
        data = {"x": np.zeros(2, np.float32), "k": np.array([1, 2], ">i4")}
        status, report, columns = scored(models.same("float[n]"), data, "--keep", "k", source="data.npz")
        assert (status, columns["k"]) == (0, [1, 2]), report

    @pytest.mark.parametrize("target", ["r.parquet", "r.arrow", "r.csv"])
    @pytest.mark.parametrize("kind", ["union", "run_end_encoded", "struct"])
    def test_kept_column_that_the_format_cannot_hold_is_named_before_the_run(
        self, tmp_path, kind, target, monkeypatch, scored
    ):
        kept = {
            "union": pa.UnionArray.from_sparse(pa.array([0, 1], pa.int8()), [pa.array([1, 2]), pa.array(["a", "b"])]),
            "run_end_encoded": pa.RunEndEncodedArray.from_arrays(pa.array([2], pa.int32()), pa.array([5])),
            "struct": pa.array([{"a": 1}, None]),
        }[kind]
        data = {"x": pa.array([1, 2], pa.float32()), "k": kept}
        fits = target == "r.arrow" or (target == "r.parquet" and kind == "struct")
        if not fits:
            monkeypatch.setattr(scoring, "score", None)
        files = {"source": "data.arrow", "target": target}
        status, report, columns = scored(models.same("float[n]"), data, "--keep", "k", **files)
        if fits:
            assert (status, report["rows"], len(columns["k"])) == (0, 2, 2)
            return
        assert status == 2
        assert re.search(rf"column 'k' cannot be kept: {target[2:]} files cannot hold its type .*{kind}", str(report))
        assert not (tmp_path / target).exists()

    def test_booleans_of_a_csv(self, scored):
        """So zrt reads its own results."""
        model, lines = models.same("bool[n]"), ["x", "true", "False", "1", "0", "TRUE"]
        assert scored(model, lines, source="data.csv", target="a.csv")[0] == 0
        status, report, columns = scored(model, None, "--input", "y=x", source="a.csv")
        assert (status, columns["y"]) == (0, [True, False, True, False, True]), report
        # A text that is none is a bad row, and the others keep theirs.
        texts = [*lines, "2", "yes"]
        status, report, columns = scored(model, texts, "--skip-bad", source="data.csv", target="b.parquet")
        assert (status, columns["y"]) == (0, [True, False, True, False, True, None, None])
        assert [each["reason"] for each in report["bad"]] == [f"column 'x': {text!r} is no bool" for text in texts[-2:]]

    @pytest.mark.parametrize("values", [[1, 2], [1, None], [1.5, None], [True, None]])
    def test_column_of_numbers_is_no_column_of_texts(self, values, scored):
        status, report, _ = scored(models.texts(), {"s": values})
        assert status == 2
        assert re.search("column 's': (int64|double|bool) cannot be fed as object to input 's'", str(report))

    def test_bytes_are_no_numbers(self, scored):
        status, report, _ = scored(models.same("float[n]"), {"x": [b"1", None]})
        reasons = [each["reason"] for each in report["bad"]]
        assert (status, reasons) == (1, ["column 'x': |S1 cannot be fed as float32", "column 'x': it is null"])

    def test_kept_texts_count_for_the_size_of_a_row_group(self, tmp_path, monkeypatch, scored):
        """All rows of one are in memory at a time."""
        monkeypatch.setattr("zrt.scoring.arrow_files.GROUP_BYTES", 1 << 20)
        rows = {"x": np.arange(5000.0), "id": ["text" * 250] * 5000, "lists": [[1.0] * 100] * 5000}
        status, report, columns = scored(models.same("double[n]"), rows, "--keep", "id", "--keep", "lists")
        assert (status, columns["y"]) == (0, list(range(5000))), report
        assert parquet.ParquetFile(tmp_path / "r.parquet").num_row_groups == 5


def test_file_of_numpy_that_is_replaced_while_it_is_read(saved, tmp_path, monkeypatch, score):
    """The results would be those of the old one, and the record that of the new one."""
    opened = sources.open_source

    def replaced(path: Path, kind: str) -> Any:
        source = opened(path, kind)
        np.savez(tmp_path / "new.npz", x=np.ones(3, np.float32))
        (tmp_path / "new.npz").replace(path)
        return source

    np.savez(tmp_path / "data.npz", x=np.zeros(3, np.float32))
    monkeypatch.setattr(sources, "open_source", replaced)
    status, report = score(saved(models.same("float[n]")), tmp_path / "data.npz", tmp_path / "r.npz")
    assert status == 1
    assert "data.npz' changed while it was read: remove " in report
    assert not (tmp_path / "r.npz").exists()


@pytest.mark.parametrize("content", ["x\n1\n", "x\n1\n2\n3\n4\n", "x\n7\n8\n9\n"])
def test_data_set_that_changes_while_it_is_read(saved, tmp_path, content, monkeypatch, score):
    data, whole = tmp_path / "data.csv", scoring.score
    data.write_text("x\n1\n2\n3\n")

    def changed(*arguments: Any, **named: Any) -> None:
        (tmp_path / "new").write_text(content)
        (tmp_path / "new").replace(data)
        whole(*arguments, **named)

    monkeypatch.setattr(scoring, "score", changed)
    status, report = score(saved(models.same("float[n]")), data, tmp_path / "r.npz")
    assert status == 1
    assert "data.csv' changed while it was read: remove " in report
    assert "--resume" not in report
    assert not (tmp_path / "r.npz").exists()
