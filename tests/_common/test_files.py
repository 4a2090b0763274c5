"""A target that is the same file as an input."""

import os

import pytest

from zrt._common.files import require_other
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
