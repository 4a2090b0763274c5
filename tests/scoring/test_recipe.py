"""The recipe of a run: the files that decide its results."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest

from tests.support import models
from zrt._common.config_keys import SessionConfigKey
from zrt.scoring.recipe import recipe


@pytest.fixture
def model(tmp_path: Path) -> Path:
    """A model whose only weights are in its subgraphs, and in a file of their own."""
    inner = onnx.helper.make_graph(
        [onnx.helper.make_node("Identity", ["w"], ["y"])],
        "branch",
        [],
        [models.tensor("y", models.FLOAT, [64])],
        [onnx.numpy_helper.from_array(np.ones(64, np.float32), "w")],
    )
    content = models.build(
        [onnx.helper.make_node("If", ["c"], ["z"], then_branch=inner, else_branch=inner)],
        [models.tensor("c", onnx.TensorProto.BOOL, [])],
        [models.tensor("z", models.FLOAT, [64])],
    )
    path = tmp_path / "model.onnx"
    onnx.save_model(
        onnx.load_model_from_string(content),
        path,
        save_as_external_data=True,
        location="inner.weights",
        size_threshold=0,
    )
    return path


@pytest.mark.parametrize("elsewhere", [False, True])
def test_weights_of_subgraphs_count(model: Path, tmp_path: Path, elsewhere: bool) -> None:
    weights, options = tmp_path / "inner.weights", {}
    if elsewhere:
        (tmp_path / "folder").mkdir()
        weights = weights.rename(tmp_path / "folder" / weights.name)
        key = SessionConfigKey.MODEL_EXTERNAL_INITIALIZERS_FILE_FOLDER_PATH
        options = {"config_entries": {key: str(weights.parent)}}
    before = recipe(model, options, None, [], [], {})
    assert recipe(model, options, None, [], [], {}) == before
    weights.write_bytes(bytes(weights.stat().st_size))
    assert recipe(model, options, None, [], [], {})["MODEL"] != before["MODEL"]
