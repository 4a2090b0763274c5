"""Graphs saved to files."""

import os
import sys
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

import zrt
from tests.graph.conftest import QUIET
from zrt.errors import ArgumentError, ModelError

FEEDS = {"x": np.ones((1, 4), np.float32)}


def outside(path: Path) -> set[str]:
    model = onnx.load(path, load_external_data=False)
    return {tensor.name for tensor in model.graph.initializer if tensor.external_data}


@pytest.mark.parametrize("borrow", [False, True])
@pytest.mark.parametrize(
    ("threshold", "names"),
    [
        (0, {"w0", "w1", "w2", "b0", "b1", "b2"}),
        (128, {"w0", "w1", "w2", "b0", "b1"}),
        (1024, {"w1"}),
        (1 << 20, set()),
    ],
)
def test_size_threshold_of_external_weights(
    borrow: bool, threshold: int, names: set[str], three_layers: Any, tmp_path: Path
) -> None:
    graph, path = three_layers(borrow), tmp_path / "net.onnx"
    graph.save(path, external_data=True, size_threshold=threshold)
    assert outside(path) == names
    assert (tmp_path / "net.onnx.data").exists()
    onnx.checker.check_model(path, full_check=True)
    assert onnx.load(path) != graph.to_onnx() or not names
    assert zrt.Graph.from_onnx(path).to_onnx() == graph.to_onnx()
    np.testing.assert_array_equal(zrt.Session(path, QUIET).run(FEEDS)[0], graph.session(QUIET).run(FEEDS)[0])


def test_saving_again_replaces_both_files(three_layers: Any, tmp_path: Path) -> None:
    path = tmp_path / "net.onnx"
    for _ in range(2):
        three_layers().save(path, external_data=True, location="weights", size_threshold=0)
    once = (tmp_path / "weights").stat().st_size
    three_layers().save(path, external_data=True, location="weights", size_threshold=0)
    assert (tmp_path / "weights").stat().st_size == once
    assert sorted(os.listdir(tmp_path)) == ["net.onnx", "weights"]


@pytest.mark.skipif(sys.platform != "linux", reason="macOS has no such names")
def test_names_that_are_not_utf8(three_layers: Any, tmp_path: Path) -> None:
    """A model's file may have any name, but the model itself holds the name of the file of weights."""
    path = os.fsencode(tmp_path) + b"/\xff.onnx"
    with pytest.raises(ArgumentError, match=r"location: .*UTF-8"):
        three_layers().save(path, external_data=True)
    assert not list(tmp_path.iterdir())
    three_layers().save(path, external_data=True, location="weights")
    assert zrt.Session(Path(os.fsdecode(path)), QUIET).run(FEEDS)
    graph = zrt.Graph.from_onnx(Path(os.fsdecode(path)))
    graph.save(path)
    assert graph.session(QUIET).run(FEEDS)


def test_weights_of_subgraphs_become_external(tmp_path: Path) -> None:
    graph = zrt.Graph()
    flag = graph.input("flag", "bool", ())
    branches = [graph.subgraph(name) for name in ("then", "other")]
    for number, branch in enumerate(branches):
        branch.output(branch.op("Identity", branch.initializer("w", np.full(1000, number, np.float32))))
    graph.output(graph.op("If", flag, then_branch=branches[0], else_branch=branches[1]), "float32", (1000,))
    path = tmp_path / "net.onnx"
    graph.save(path, external_data=True)
    assert path.stat().st_size < 1000
    assert (tmp_path / "net.onnx.data").stat().st_size >= 8000
    for positive in (True, False):
        [result] = zrt.Session(path, QUIET).run([np.array(positive)])
        np.testing.assert_array_equal(result, np.full(1000, not positive))


def test_failed_save_changes_nothing(three_layers: Any, tmp_path: Path) -> None:
    path = tmp_path / "net.onnx"
    path.write_bytes(b"precious")
    graph = three_layers()
    graph.remove_input("x")
    with pytest.raises(ModelError, match="'x'"):
        graph.save(path)
    assert path.read_bytes() == b"precious"
    assert os.listdir(tmp_path) == ["net.onnx"]


def test_missing_external_weights_raise(three_layers: Any, tmp_path: Path) -> None:
    path = tmp_path / "net.onnx"
    three_layers().save(path, external_data=True)
    (tmp_path / "net.onnx.data").unlink()
    with pytest.raises(ModelError, match=r"net.onnx"):
        zrt.Graph.from_onnx(path)
    with pytest.raises(ModelError, match=r"'w1' and others.*external_data_dir"):
        zrt.Graph.from_onnx(path.read_bytes())
