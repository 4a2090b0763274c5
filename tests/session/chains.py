"""Models that are large enough for the cache, and the wait for their entries."""

import threading
from pathlib import Path

import numpy as np

from tests.support import models

CHAIN = "(float[n, 160] x) => (float[n, 160] y) { a = MatMul(x, w) b = Identity(a) y = Relu(b) }"


def chain(scale: float = 1) -> bytes:
    return models.parse(CHAIN, w=np.full((160, 160), scale, np.float32))


def saved(folder: Path) -> Path:
    """A model in a new file of the folder."""
    path = folder / "model.onnx"
    path.write_bytes(chain())
    return path


def finish() -> None:
    """Waits until the entries of all loads are made."""
    for thread in threading.enumerate():
        if thread.name == "zrt-cache":
            thread.join()
