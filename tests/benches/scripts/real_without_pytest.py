"""Runs `benches.real` over the shipped classifier where pytest is not installed."""

import sys

sys.modules["pytest"] = None  # type: ignore[assignment]

import numpy as np  # noqa: E402

from benches import real  # noqa: E402


def image(generator: np.random.Generator) -> dict[str, np.ndarray]:
    return {"image": generator.random((1, 1, 8, 8), np.float32)}


real.MODELS = (real.Model("digits", "zrt", "models/digits.onnx", image),)  # type: ignore[misc]
real.main(["--seconds", "0", "--rounds", "1"])
