from __future__ import annotations

import json

import onnx
import pytest

import zrt as package
from tests.support import models


@pytest.fixture
def options(tmp_path):
    """A file of options that says how far to optimize."""
    path = tmp_path / "options.json"
    path.write_text(json.dumps({"session": {"graph_optimization_level": "ENABLE_BASIC"}}))
    return path


def nodes(path):
    return [node.op_type for node in onnx.load(path).graph.node]


def test_without_provider_writes_the_optimized_model(zrt, zrt_json, tmp_path):
    path = tmp_path / "fast.onnx"
    out = zrt("compile", path)
    assert "the digit classifier inside zrt: optimized for the CPU in" in out
    assert str(path) in out
    assert "FusedConv" in nodes(path)
    found = zrt_json("compile", path, "--level", "enable_basic", "--provider", "cpu", "--threads", 1)
    assert "FusedConv" not in nodes(path)
    assert found["output"] == str(path)
    assert found["files"] == {str(path): path.stat().st_size}
    assert not found["compiled"]
    assert found["time_ns"] > 0


def test_options_file_sets_the_optimization_level(zrt, saved, tmp_path, options):
    path = tmp_path / "fast.onnx"
    zrt("compile", path, "--options", options)
    assert "FusedConv" not in nodes(path)


def test_weights_go_into_a_file_beside_the_model(zrt_json, tmp_path):
    path = tmp_path / "fast.onnx"
    found = zrt_json("compile", path, "--weights", "fast.weights", "--weights-from", 2000)
    assert set(found["files"]) == {str(path), str(tmp_path / "fast.weights")}
    outside = [info.name for info in package.list_initializers(path) if info.location]
    assert len(outside) == 2


@pytest.mark.azure
def test_provider_option_uses_the_compile_api(zrt_json, complaint, tmp_path):
    path = tmp_path / "compiled.onnx"
    arguments = ("compile", path, "--provider", "azure", "--weights", "compiled.weights", "--embed")
    found = zrt_json(*arguments)
    assert found["compiled"]
    assert set(found["files"]) == {str(path), str(tmp_path / "compiled.weights")}
    assert "Conv" in nodes(path)
    assert "Unable to compile any nodes" in complaint(*arguments, "--require-compiled", status=1)
    assert "is there already" in complaint(*arguments, "--no-overwrite", status=1)


def test_no_overwrite_keeps_an_existing_file(zrt, complaint, saved, tmp_path):
    model = saved(models.add(["n"]))
    path = tmp_path / "fast.onnx"
    path.write_bytes(b"precious")
    assert "is there already" in complaint("compile", model, path, "--no-overwrite", status=1)
    assert path.read_bytes() == b"precious"
    zrt("compile", model, path)
    assert nodes(path) == ["Add"]


@pytest.mark.parametrize(
    ("arguments", "status", "words"),
    [
        (("--embed",), 2, "name one"),
        (("--require-compiled",), 2, "name one"),
        (("--level", "most"), 2, "most"),
        (("--weights-from", "-1"), 2, "-1"),
        (("--provider", "nonesuch"), 2, "nonesuch"),
        (("--weights", "a/b"), 1, "a/b"),
    ],
    ids=str,
)
def test_contradictory_arguments_are_wrong_usage(complaint, tmp_path, arguments, status, words):
    path = tmp_path / "fast.onnx"
    assert words in complaint("compile", path, *arguments, status=status)
    assert not path.exists()


def test_rich_is_not_needed(zrt, missing, tmp_path):
    missing("rich")
    assert "optimized" in zrt("compile", tmp_path / "fast.onnx")


def test_invalid_model_is_named(complaint, saved, tmp_path):
    broken = saved(b"no model", "broken.onnx")
    assert "broken.onnx" in complaint("compile", broken, tmp_path / "fast.onnx", status=1)


def test_missing_folder_fails(complaint, tmp_path):
    assert "no such folder" in complaint("compile", tmp_path / "none" / "fast.onnx", status=2)
