"""As much of torch as the ONNX path of silero-vad uses, over numpy: torch with its libraries has several gigabytes.

A tensor is a numpy array with the methods of torch's that the path calls.
"""

from __future__ import annotations

import contextlib
from types import SimpleNamespace
from typing import Any

import numpy as np


class Tensor(np.ndarray):
    """An array of float32 made from a sequence."""

    def __new__(cls, values: Any) -> Tensor:
        return from_numpy(np.array(values, np.float32))

    def dim(self) -> int:
        return self.ndim

    def float(self) -> Tensor:
        return from_numpy(self.astype(np.float32))

    def numpy(self) -> np.ndarray[Any, Any]:
        return self.view(np.ndarray)

    def cpu(self) -> Tensor:
        return self

    def unsqueeze(self, dim: int) -> Tensor:
        return from_numpy(np.expand_dims(self.numpy(), dim))

    def squeeze(self, dim: int) -> Tensor:
        return from_numpy(np.squeeze(self.numpy(), dim)) if self.shape[dim] == 1 else self


def from_numpy(array: np.ndarray[Any, Any]) -> Tensor:
    return array.view(Tensor)


def is_tensor(value: object) -> bool:
    return isinstance(value, Tensor)


def zeros(*shape: Any) -> Tensor:
    return from_numpy(np.zeros(shape[0] if isinstance(shape[0], tuple) else shape, np.float32))


def cat(tensors: list[Tensor], dim: int = 0) -> Tensor:
    return from_numpy(np.concatenate([tensor.numpy() for tensor in tensors], dim))


def set_num_threads(count: int) -> None:
    """Without effect: numpy computes in the caller's thread."""


def device(name: str) -> str:
    return name


def _pad(tensor: Tensor, widths: tuple[int, int], mode: str = "constant", value: float = 0.0) -> Tensor:
    """Lengthens the last dimension."""
    before = [(0, 0)] * (tensor.ndim - 1)
    return from_numpy(np.pad(tensor.numpy(), [*before, widths], mode, constant_values=value))


class no_grad(contextlib.nullcontext[None], contextlib.ContextDecorator):  # noqa: N801
    """Without effect: no gradient is computed here."""


nn = SimpleNamespace(functional=SimpleNamespace(pad=_pad))
