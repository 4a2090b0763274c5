"""Strings as inputs and outputs: `Session.run` beside onnxruntime's `run`."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

import zrt
from benches.support import ONE_THREAD, Compare, Entry, Group, ort_session
from zrt.bench.harness import python_contender

COUNTS = (1, 400, 10_000)
# numpy's two kinds of arrays of strings.
KINDS = {"objects": object, "fixed width": str}
VECTOR = ["n"]


def labels() -> onnx.ModelProto:
    """A number for each string."""
    node = helper.make_node(
        "LabelEncoder",
        ["x"],
        ["y"],
        domain="ai.onnx.ml",
        keys_strings=["word0"],
        values_int64s=[1],
        default_int64=0,
    )
    return _model(node, TensorProto.INT64)


def same() -> onnx.ModelProto:
    """The strings themselves."""
    return _model(helper.make_node("Identity", ["x"], ["y"]), TensorProto.STRING)


def _model(node: onnx.NodeProto, kind: int) -> onnx.ModelProto:
    x = helper.make_tensor_value_info("x", TensorProto.STRING, VECTOR)
    y = helper.make_tensor_value_info("y", kind, VECTOR)
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("ai.onnx.ml", 2)]
    return helper.make_model(helper.make_graph([node], "graph", [x], [y]), opset_imports=opsets, ir_version=9)


MODELS = {"strings in": labels, "strings in and out": same}


@pytest.fixture(
    scope="module", params=[(model, count, kind) for model in MODELS for count in COUNTS for kind in KINDS], ids=str
)
def group(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Group:
    model, count, kind = request.param
    path = Path(tmp_path_factory.mktemp("strings") / "model.onnx")
    onnx.save_model(MODELS[model](), path)
    feeds = {"x": np.array([f"word{number}" for number in range(count)], KINDS[kind])}
    theirs = ort_session(path).run
    own = zrt.Session(path, zrt.SessionOptions(**ONE_THREAD)).run
    (expected,) = theirs(None, feeds)

    def check() -> None:
        (result,) = own(feeds)
        assert result.tolist() == expected.tolist()

    entries = [
        Entry(python_contender("official", "official", theirs, None, feeds), lambda: None),
        Entry(python_contender("session_run", "session_run", own, feeds), check),
    ]
    return Group(f"strings: {model}, {count:,} in an array of {kind}", entries)


@pytest.mark.parametrize("way", ["official", "session_run"])
def test_strings(compare: Compare, group: Group, way: str) -> None:
    compare(group, way)
