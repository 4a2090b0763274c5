"""The recipe of a run: the files that decide its results."""

from pathlib import Path

import pytest

from tests.support import models
from zrt._common.config_keys import SessionConfigKey
from zrt.scoring.recipe import recipe


@pytest.mark.parametrize("elsewhere", [False, True])
def test_weights_of_subgraphs_count(tmp_path: Path, elsewhere: bool) -> None:
    model = models.save_apart(models.branches(), tmp_path / "model.onnx", "inner.weights")
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
