"""Sequences and maps as inputs and outputs: zrt and its drop-in beside the official package.

A classifier of scikit-learn's has a map of scores for each row, which `ZipMap` makes. The models compute next to
nothing, so that the conversions decide.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

import zrt
from benches.support import DROP_IN, ONE_THREAD, Compare, Entry, Group, ort_session
from zrt.bench.harness import python_contender

COUNTS = (1, 100, 1000)
PACKAGES = {"official": "onnxruntime", "drop_in": DROP_IN}
_TENSOR = helper.make_tensor_type_proto(TensorProto.FLOAT, ["n", 3])
_TENSORS = helper.make_sequence_type_proto(_TENSOR)


def scores(labels: dict[str, list[Any]]) -> onnx.ModelProto:
    """A map of three scores for each row."""
    key = TensorProto.STRING if "classlabels_strings" in labels else TensorProto.INT64
    score = helper.make_map_type_proto(key, helper.make_tensor_type_proto(TensorProto.FLOAT, []))
    node = helper.make_node("ZipMap", ["x"], ["y"], domain="ai.onnx.ml", **labels)
    return _model(node, _TENSOR, helper.make_sequence_type_proto(score))


def split() -> onnx.ModelProto:
    """A tensor for each row."""
    return _model(helper.make_node("SplitToSequence", ["x"], ["y"], axis=0), _TENSOR, _TENSORS)


def joined() -> onnx.ModelProto:
    """One tensor of the rows of all tensors."""
    return _model(helper.make_node("ConcatFromSequence", ["x"], ["y"], axis=0), _TENSORS, _TENSOR)


def _model(node: onnx.NodeProto, x: onnx.TypeProto, y: onnx.TypeProto) -> onnx.ModelProto:
    infos = [helper.make_value_info("x", x)], [helper.make_value_info("y", y)]
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("ai.onnx.ml", 1)]
    return helper.make_model(helper.make_graph([node], "graph", *infos), opset_imports=opsets, ir_version=9)


MODELS: dict[str, Callable[[], onnx.ModelProto]] = {
    "maps of numbers": lambda: scores({"classlabels_int64s": [0, 1, 2]}),
    "maps of strings": lambda: scores({"classlabels_strings": ["setosa", "versicolor", "virginica"]}),
    "a sequence out": split,
    "a sequence in": joined,
}


def tolist(result: Any) -> Any:
    """The numbers of a result, without arrays."""
    if isinstance(result, list):
        return [tolist(each) for each in result]
    return result.tolist() if isinstance(result, np.ndarray) else result


@pytest.fixture(scope="module", params=[(model, count) for model in MODELS for count in COUNTS], ids=str)
def group(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Group:
    model, count = request.param
    path = Path(tmp_path_factory.mktemp("containers") / "model.onnx")
    onnx.save_model(MODELS[model](), path)
    rows = np.random.default_rng(0).random((count, 3), np.float32)
    feeds = {"x": list(rows.reshape(count, 1, 3)) if model == "a sequence in" else rows}
    ways = {key: ort_session(path, package).run for key, package in PACKAGES.items()}
    own = zrt.Session(path, zrt.SessionOptions(**ONE_THREAD)).run
    expected = tolist(ways["official"](None, feeds))

    def entry(key: str, call: Callable[..., Any], *arguments: Any) -> Entry:
        def check() -> None:
            assert tolist(call(*arguments)) == expected

        return Entry(python_contender(key, key, call, *arguments), check)

    entries = [entry(key, run, None, feeds) for key, run in ways.items()] + [entry("session_run", own, feeds)]
    return Group(f"{model}: {count:,}", entries)


@pytest.mark.parametrize("way", ["official", "drop_in", "session_run"])
def test_containers(compare: Compare, group: Group, way: str) -> None:
    compare(group, way)
