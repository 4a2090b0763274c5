"""A target that is the same file as an input."""

import os
from pathlib import Path

import pytest

from zrt._common.files import replacing, require_other
from zrt.errors import ArgumentError


@pytest.fixture
def model(tmp_path):
    path = tmp_path / "model.onnx"
    path.write_bytes(b"a model")
    return path


@pytest.mark.parametrize("link", [os.symlink, os.link])
def test_another_name_of_an_input_is_refused(model, tmp_path, link):
    link(model, tmp_path / "other.onnx")
    with pytest.raises(ArgumentError, match=r"OUTPUT: '.*other\.onnx' is the same file as the input '.*model\.onnx'"):
        require_other(tmp_path / "other.onnx", [model], "OUTPUT")


def test_the_same_path_is_refused(model, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ArgumentError, match="the same file"):
        require_other("./model.onnx", [model], "OUTPUT")


def test_other_files_and_new_ones_are_allowed(model, tmp_path):
    (tmp_path / "copy.onnx").write_bytes(b"a model")
    require_other(tmp_path / "copy.onnx", [model], "OUTPUT")
    require_other(tmp_path / "new.onnx", [model, tmp_path / "missing.onnx"], "OUTPUT")


def write_new(target, *beside, unnamed=None, inputs=()):
    """Replaces files; one is `unnamed` beforehand, as those that an execution provider writes."""
    with replacing(str(target), *beside, inputs=inputs) as paths:
        more = [] if unnamed is None else [Path(paths[0]).with_name(unnamed)]
        for path in [*map(Path, paths), *more]:
            path.write_text("new")


def test_ctrl_c_between_two_files_replaces_both(tmp_path, monkeypatch):
    for name in ("model.onnx", "model.weights"):
        (tmp_path / name).write_text("old")
    replace, calls = os.replace, []

    def interrupted(source, target):
        replace(source, target)
        calls.append(target)
        if len(calls) == 1:
            raise KeyboardInterrupt

    monkeypatch.setattr(os, "replace", interrupted)
    with pytest.raises(KeyboardInterrupt):
        write_new(tmp_path / "model.onnx", "model.weights")
    assert {path.name: path.read_text() for path in tmp_path.iterdir()} == {
        "model.onnx": "new",
        "model.weights": "new",
    }


def test_inputs_are_not_replaced_by_files_of_other_names(tmp_path):
    kept = tmp_path / "kept.bin"
    kept.write_text("old")
    with pytest.raises(ArgumentError, match="the same file"):
        write_new(tmp_path / "m", unnamed="kept.bin", inputs=[kept])
    assert {each.name for each in tmp_path.iterdir()} == {"kept.bin"}
    assert kept.read_text() == "old"
