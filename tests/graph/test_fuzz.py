"""Damaged models: they raise errors of zrt and never crash."""

from pathlib import Path
from typing import Any

import pytest
from onnx import TensorProto

import zrt
from tests.graph.conftest import QUIET
from zrt.errors import ModelError


@pytest.mark.parametrize("which", ["three layers", "branching"])
def test_mutated_models_raise_only_errors_of_zrt(
    which: str, three_layers: Any, branching: Any, script: Any, tmp_path: Path
) -> None:
    graph = three_layers(sizes=(4, 3, 3, 3)) if which == "three layers" else branching()
    graph.save(tmp_path / "model.onnx")
    script("mutate.py", tmp_path / "model.onnx")


def test_name_that_is_not_utf8_raises(three_layers: Any) -> None:
    data = three_layers().to_bytes().replace(b"logits", b"log\xff\xfes")
    with pytest.raises(ModelError, match="not UTF-8"):
        zrt.Graph.from_onnx(data)


def test_weights_that_do_not_match_their_shape_raise(three_layers: Any) -> None:
    for empty in (TensorProto(data_type=1, dims=[32]), TensorProto(data_type=1, dims=[32], raw_data=b"1234")):
        model = three_layers().to_onnx()
        tensor = next(tensor for tensor in model.graph.initializer if tensor.name == "b0")
        empty.name = tensor.name
        tensor.CopyFrom(empty)
        graph = zrt.Graph.from_onnx(model)
        with pytest.raises(zrt.Error, match="b0"):
            graph.session(QUIET)
        with pytest.raises(ModelError):
            graph.check()
