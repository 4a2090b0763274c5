"""Models to score with."""

from __future__ import annotations

import numpy as np
from onnx import TensorProto

from tests.support.models import build, node, tensor


def affine(batch: int | str = "batch") -> bytes:
    """``y = x @ w + 1`` for rows of 3 numbers, with ``w`` all ones, and ``n = 2 * k`` for one whole number a row."""
    return build(
        [
            node("MatMul", ["x", "w"], ["p"]),
            node("Add", ["p", "one"], ["y"]),
            node("Add", ["k", "k"], ["n"]),
        ],
        [tensor("x", TensorProto.FLOAT, [batch, 3]), tensor("k", TensorProto.INT64, [batch])],
        [tensor("y", TensorProto.FLOAT, [batch, 2]), tensor("n", TensorProto.INT64, [batch])],
        {"w": np.ones((3, 2), np.float32), "one": np.ones(2, np.float32)},
    )


def sums() -> bytes:
    """``s``: the sum of each row, whose length is open."""
    return build(
        [node("ReduceSum", ["x", "axis"], ["s"], keepdims=0)],
        [tensor("x", TensorProto.FLOAT, ["batch", "length"])],
        [tensor("s", TensorProto.FLOAT, ["batch"])],
        {"axis": np.array([1])},
    )


def texts() -> bytes:
    """``t = s`` for a text a row."""
    return build(
        [node("Identity", ["s"], ["t"])],
        [tensor("s", TensorProto.STRING, ["batch"])],
        [tensor("t", TensorProto.STRING, ["batch"])],
    )
