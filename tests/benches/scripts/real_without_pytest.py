"""Runs `benches.real` over the shipped classifier where pytest is not installed."""

import sys
from unittest.mock import patch

import numpy as np


def image(generator: np.random.Generator) -> dict[str, np.ndarray]:
    return {"image": generator.random((1, 1, 8, 8), np.float32)}


with patch.dict(sys.modules, {"pytest": None}):
    from benches import real

    with patch.object(real, "MODELS", (real.Model("digits", "zrt", "models/digits.onnx", image),)):
        real.main(["--seconds", "0", "--rounds", "1"])
