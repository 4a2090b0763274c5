"""Synthetic inputs, the same each time, for runs without inputs of the user."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from zrt.errors import AllocationError, UnsupportedError
from zrt.lanes import lane_shapes
from zrt.lanes.lane_shapes import ShapesLike
from zrt.types import ElementType, nbytes
from zrt.values.symbolic_shapes import Shape
from zrt.values.type_info import ValueInfo, format_shape, phrase

FREE_DIMENSION = 1
MADE_UP = "made up"


@dataclass(frozen=True, slots=True)
class FedInput:
    """The description of an input's data."""

    type: str
    shape: Shape
    source: str
    """The origin of the data."""

    def __str__(self) -> str:
        return f"{self.type}{format_shape(self.shape)}"


def input_shapes(inputs: Sequence[ValueInfo], wanted: ShapesLike = None) -> dict[str, Shape]:
    """The shape of each input: the wanted one, else the model's with 1 for each dimension that stays open.

    A wanted shape also resolves the symbolic dimensions that it shares with other inputs. Raises `ArgumentError` for
    one that does not fit.
    """
    for info in inputs:
        if not info.is_tensor:
            raise UnsupportedError(f"input {info.name!r} is {phrase(info.kind)}: only tensors can be made up")
    shapes = lane_shapes.input_shapes(inputs, wanted, FREE_DIMENSION)
    return {info.name: shape for info, shape in zip(inputs, shapes, strict=True)}


def make(element_type: ElementType, shape: Shape, generator: np.random.Generator) -> np.ndarray[Any, Any]:
    """Normal noise for floats; for integers and booleans zeros and ones, the first of them 1.

    Integers are that small because most are indices, masks or token types. Packed types are given as bytes.
    """
    if element_type is ElementType.STRING:
        return np.full(shape, "text", object)
    if element_type.packed:
        return generator.integers(0, 2, nbytes(element_type, shape), np.uint8)
    dtype = element_type.dtype
    if dtype.kind in "iub":
        array = generator.integers(0, 2, shape).astype(dtype)
        array.flat[:1] = 1
        return array
    noise = generator.standard_normal(shape)
    # This type has only an exponent: no sign, no zero.
    return (np.exp2(noise) if element_type is ElementType.FLOAT8E8M0 else noise).astype(dtype)


def make_all(inputs: Sequence[ValueInfo], wanted: dict[str, Shape], seed: int = 0) -> dict[str, np.ndarray[Any, Any]]:
    """An array for each input, of the `wanted` shapes. Raises `AllocationError` if one is too large."""
    generator = np.random.default_rng(seed)
    arrays = {}
    for info in inputs:
        shape = wanted[info.name]
        try:
            arrays[info.name] = make(info.element_type, shape, generator)
        except (MemoryError, ValueError) as error:
            raise AllocationError(f"input {info.name!r} of shape {list(shape)}: {error}") from error
    return arrays
