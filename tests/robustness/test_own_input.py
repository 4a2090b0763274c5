"""No function writes over the model that it reads, nor over the file of its weights, under this or another name."""

import os
import re
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import zrt
from tests.robustness.sums import QUIET
from tests.support import models
from zrt.errors import ArgumentError, FileError

BESIDE = "session.optimized_model_external_initializers_file_name"
LEAST = "session.optimized_model_external_initializers_min_size_in_bytes"

Write = Callable[[Path, Path], object]


def optimizing(model: Path, output: Path, **entries: str) -> zrt.Session:
    return zrt.Session(model, zrt.SessionOptions(optimized_model_filepath=output, config_entries=entries))


def beside(output: Path) -> Path:
    return output.absolute().with_name("new.onnx")


FILES = ["model.weights", "model.onnx"]
WRITES: dict[str, Write] = {
    "save_optimized": zrt.save_optimized,
    "save_optimized in memory": lambda model, output: zrt.save_optimized(
        model.read_bytes(), output, external_data_dir=model.parent
    ),
    "compile": lambda model, output: zrt.compile(model, output, QUIET),
    "Session": optimizing,
    "edit": lambda model, output: zrt.edit(model, zrt.SessionOptions(optimized_model_filepath=output)),
    "weights of save_optimized": lambda model, output: zrt.save_optimized(
        model, beside(output), weights_file=output.name, weights_from=0
    ),
    "weights of compile": lambda model, output: zrt.compile(
        *(model, beside(output), QUIET), external_initializers_file=output.name, external_initializers_size_threshold=0
    ),
    "weights of Session": lambda model, output: optimizing(model, beside(output), **{BESIDE: output.name, LEAST: "0"}),
}


@pytest.fixture
def model(tmp_path: Path) -> Path:
    """A model whose weights are in a file beside it."""
    return models.save_apart(models.weighted(), tmp_path / "model.onnx", "model.weights")


def content_of(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir() if not path.is_symlink()}


@pytest.fixture(params=["the same", "relative", "symlink", "hard link"])
def named(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[Path], Path]:
    """Another name of a file."""

    def name(path: Path) -> Path:
        monkeypatch.chdir(tmp_path)
        if request.param == "the same":
            return path
        if request.param == "relative":
            return Path(path.name)
        other = path.with_name(f"other{path.suffix}")
        (os.symlink if request.param == "symlink" else os.link)(path, other)
        return other

    return name


@pytest.mark.parametrize(
    ("write", "of"),
    [(write, of) for write in WRITES for of in FILES if (write, of) != ("save_optimized in memory", "model.onnx")],
)
def test_input_is_kept(write: str, of: str, model: Path, named: Callable[[Path], Path]) -> None:
    output = named(model.with_name(of))
    before = content_of(model.parent)
    with pytest.raises(ArgumentError, match=f"is the same file as the input '.*{re.escape(of)}'"):
        WRITES[write](model, output)
    assert content_of(model.parent) == before


@pytest.mark.skipif(sys.platform != "linux", reason="macOS takes no such name")
def test_weights_in_a_folder_whose_name_is_no_text_are_kept(tmp_path: Path) -> None:
    folder = tmp_path / os.fsdecode(b"d\xff")
    folder.mkdir()
    path = models.save_apart(models.weighted(), folder / "m.onnx", "m.weights")
    before = content_of(folder)
    arguments = {"external_data_dir": folder}
    with pytest.raises(ArgumentError, match="is the same file as the input"):
        zrt.compile(path.read_bytes(), folder / "n.onnx", QUIET, external_initializers_file="m.weights", **arguments)
    with pytest.raises(ArgumentError, match="is the same file as the input"):
        zrt.Session(path.read_bytes(), zrt.SessionOptions(optimized_model_filepath=folder / "m.weights"), **arguments)
    assert content_of(folder) == before
    session = zrt.Session(path.read_bytes(), zrt.SessionOptions(trusted_folders=[tmp_path]), **arguments)
    assert session.run([np.zeros(64, np.float32)])[0].tolist() == list(range(64))


def test_weights_of_constants_and_subgraphs_are_kept(tmp_path: Path) -> None:
    models.save_apart(models.branches(), tmp_path / "m.onnx", "inner.weights")
    assert (tmp_path / "inner.weights").stat().st_size >= 256
    with pytest.raises(ArgumentError, match="the same file"):
        zrt.save_optimized(tmp_path / "m.onnx", tmp_path / "inner.weights")
    assert (tmp_path / "inner.weights").stat().st_size >= 256


def test_files_of_the_same_names_in_the_current_folder_are_replaced(
    model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    here = tmp_path / "here"
    here.mkdir()
    (here / "model.weights").write_bytes(b"old")
    monkeypatch.chdir(here)
    zrt.save_optimized(model, "model.onnx", weights_file="model.weights", weights_from=0)
    assert (here / "model.weights").stat().st_size >= 256


def test_optimized_model_replaces_a_file_as_a_whole(tmp_path: Path) -> None:
    path, entries = tmp_path / "m.ort", {"session.save_model_format": "ORT"}
    optimizing(models.weighted(), path, **entries)
    before = path.read_bytes()
    os.link(path, tmp_path / "held")
    optimizing(models.parse("(float[8] x) => (float[8] z) { z = Neg(x) }"), path, **entries)
    assert (tmp_path / "held").read_bytes() == before
    assert zrt.Session(path).run([np.ones(8, np.float32)])[0].tolist() == [-1] * 8
    # A link stays.
    os.symlink(path, tmp_path / "link.ort")
    optimizing(models.weighted(), tmp_path / "link.ort", **entries, **{BESIDE: "./no file"})
    assert (path.read_bytes(), (tmp_path / "link.ort").is_symlink()) == (before, True)
    with pytest.raises(FileError, match=f"optimized_model_filepath: '{tmp_path}/nnn.*too long"):
        optimizing(models.weighted(), tmp_path / ("n" * 300))
    with pytest.raises(ArgumentError, match="'/dev/null' is no plain file"):
        optimizing(models.weighted(), Path(os.devnull), **entries)
    assert sorted(os.listdir(tmp_path)) == ["held", "link.ort", "m.ort"]
    zrt.Session(models.weighted(), zrt.SessionOptions(optimized_model_filepath=""))


@pytest.mark.parametrize("engine", [None, "onnx"])
def test_edited_model_is_written_at_the_end_of_the_edit(tmp_path: Path, engine: str | None) -> None:
    edited = zrt.edit(models.weighted(), zrt.SessionOptions(optimized_model_filepath=tmp_path / "e.onnx"))
    assert not os.listdir(tmp_path)
    edited.finalize(engine=engine)
    assert zrt.Session(tmp_path / "e.onnx").run([np.zeros(64, np.float32)])[0].tolist() == list(range(64))


def test_in_place_is_asked_for_by_name(model: Path) -> None:
    expected = zrt.Session(model).run([np.ones(64, np.float32)])[0]
    zrt.save_optimized(model, model, in_place=True, weights_file="model.weights", weights_from=0)
    np.testing.assert_array_equal(zrt.Session(model).run([np.ones(64, np.float32)])[0], expected)


def test_in_place_writes_to_the_file_that_a_link_leads_to(model: Path, tmp_path: Path) -> None:
    link = tmp_path / "link.onnx"
    link.symlink_to(model)
    before = model.read_bytes()
    zrt.save_optimized(link, link, in_place=True)
    assert link.is_symlink()
    assert model.read_bytes() != before


def test_other_existing_files_are_replaced(model: Path, tmp_path: Path) -> None:
    for name in ("old.onnx", "old.weights"):
        (tmp_path / name).write_bytes(b"old")
    before = model.read_bytes()
    zrt.save_optimized(model, tmp_path / "old.onnx", weights_file="old.weights", weights_from=0)
    assert (tmp_path / "old.weights").stat().st_size >= 256
    assert model.read_bytes() == before
    zrt.Session(tmp_path / "old.onnx")
