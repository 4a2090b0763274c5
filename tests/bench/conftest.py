from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest


@pytest.fixture
def saved(tmp_path: Path) -> Callable[[bytes], Path]:
    """Writes a model to a file."""

    def save(model: bytes, name: str = "model.onnx") -> Path:
        path = tmp_path / name
        path.write_bytes(model)
        return path

    return save
