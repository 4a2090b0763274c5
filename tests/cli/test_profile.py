import json
import platform
import shutil

import pytest

from tests.support import models

CPU = "CPUExecutionProvider"


def test_the_shipped_model_by_operator(zrt_json):
    document = zrt_json("profile", "--runs", 3, "--warmup", 0, "--threads", 1)
    assert (document["runs"], document["by"], document["providers"]) == (3, "op", [CPU])
    assert document["inputs"] == {"image": "float32[1, 1, 8, 8]"}
    rows = {row["name"]: row for row in document["rows"]}
    assert rows["Conv"]["calls"] == 6
    assert sum(row["share"] for row in rows.values()) == pytest.approx(1)
    assert document["operators_ns"] == sum(row["total_ns"] for row in rows.values())
    assert document["run_ns"]["min"] <= document["run_ns"]["mean"] <= document["run_ns"]["max"]
    assert all(row["mean_ns"] == pytest.approx(row["total_ns"] / row["calls"]) for row in rows.values())


def test_by_node_with_the_inputs_of_each(zrt_json, saved):
    [row] = zrt_json("profile", saved(models.double()), "--by", "node", "--shape", "x=8,4", "--runs", 2)["rows"]
    assert (row["calls"], row["provider"]) == (2, CPU)
    assert "float[8, 4]" in row["inputs"]


def test_text_has_the_tables(zrt):
    out = zrt("profile", "--runs", 4, "--provider", "cpu")
    for fact in ("the digit classifier inside zrt: image float32[1, 1, 8, 8]", CPU, "4 runs", "Conv", "share", "calls"):
        assert fact in out
    assert "relu1" in zrt("profile", "--runs", 1, "--by", "node")
    assert max(map(len, out.splitlines())) <= 120


def test_trace_option_writes_a_chrome_trace(zrt, tmp_path):
    path = tmp_path / "trace.json"
    assert str(path) in zrt("profile", "--runs", 2, "--trace", path)
    events = json.loads(path.read_text("utf-8"))["traceEvents"]
    assert [event["name"] for event in events].count("model_run") == 2


needs_compiler = pytest.mark.skipif(
    platform.libc_ver()[0] != "glibc" or shutil.which("cc") is None, reason="needs glibc and a C compiler"
)


@needs_compiler
def test_calls_of_the_allocator_are_counted_where_asked(zrt_json, zrt):
    assert "mallocs" not in zrt_json("profile", "--runs", 1)
    counted = zrt_json("profile", "--runs", 1, "--threads", 1, "--mallocs")["mallocs"]
    assert counted > 6
    assert f"{counted:,.0f} in each run of a lane" in zrt("profile", "--runs", 1, "--threads", 1, "--mallocs")


@needs_compiler
def test_initializer_that_is_fed_does_not_go_with_mallocs(zrt_json, complaint, build, tmp_path):
    model = tmp_path / "model.onnx"
    proto = build("(float[2] x, float[2] w) => (float[2] y) <float[2] w = {1, 2}> { y = Add(x, w) }")
    model.write_bytes(proto.SerializeToString())
    fed = ("profile", model, "--runs", 1, "--input", "w=5")
    assert set(zrt_json(*fed)["inputs"]) == {"x", "w"}
    assert "'w'" in complaint(*fed, "--mallocs", status=2)


def test_options_file_with_profiling_is_refused(complaint, options, tmp_path):
    file = options(f"[session]\nprofile_file_prefix = '{tmp_path / 'whole'}'")
    assert "end_profiling" in complaint("profile", "--options", file, status=1)


def test_trace_is_no_file_of_weights_in_a_folder_of_the_options(complaint, options, tmp_path):
    (tmp_path / "model").mkdir()
    (tmp_path / "weights").mkdir()
    model = models.save_apart(models.weighted(), tmp_path / "model" / "m.onnx", "m.weights")
    kept = (model.parent / "m.weights").rename(tmp_path / "weights" / "m.weights")
    key = '"session.model_external_initializers_file_folder_path"'
    file = options(f"[session.config_entries]\n{key} = '{kept.parent}'")
    before = kept.read_bytes()
    arguments = ("profile", model, "--options", file, "--runs", 1, "--trace", kept, "--overwrite")
    assert "the same file" in complaint(*arguments, status=2)
    assert kept.read_bytes() == before
