"""Values of the caller's for the inputs of a lane's trial runs, where made-up data will not do."""

from __future__ import annotations

import cmath
import math
from collections.abc import Collection, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np

from zrt._common.arguments import require_type, shown
from zrt._native import status
from zrt.errors import ArgumentError, DTypeError, ShapeError
from zrt.session.feeds import as_array, require_names
from zrt.types import ElementType, pack
from zrt.values.symbolic_shapes import Shape
from zrt.values.type_info import ValueInfo, type_name

SamplesLike: TypeAlias = "Mapping[str, Any] | None"
Samples: TypeAlias = "dict[str, np.ndarray[Any, Any]]"


def checked_samples(
    samples: SamplesLike, infos: Sequence[ValueInfo], shapes: Sequence[Shape], carried: Collection[str]
) -> Samples:
    """Copies of the samples by input, of the inputs' types and `shapes`; packed types as packed bytes.

    A single number stands for every element. The inputs in `carried` are those of a state. Raises the error of a wrong
    name, type or shape.
    """
    if samples is None:
        return {}
    require_type(samples, Mapping, "samples", "a dict by input")
    by_name = dict(samples)
    require_names(by_name, infos, "input", "samples")
    for name in by_name:
        if name in carried:
            raise ArgumentError(f"samples: input {name!r} is part of the state, which begins with StatePorts.initial")
    return {
        info.name: _sample(info, shape, by_name[info.name])
        for info, shape in zip(infos, shapes, strict=True)
        if info.name in by_name
    }


def write_sample(array: np.ndarray[Any, Any], sample: np.ndarray[Any, Any]) -> None:
    """Writes a sample into the array of an input."""
    array[...] = sample.reshape(array.shape)


def _sample(info: ValueInfo, shape: Shape, sample: Any) -> np.ndarray[Any, Any]:
    subject = f"samples: input {info.name!r}"
    array = number(info, sample, subject) if type(sample) in (bool, int, float) else as_array(info, sample, subject)
    if array.shape not in (shape, ()):
        raise ShapeError(f"{subject}: expected the shape {list(shape)} or a single number, got {list(array.shape)}")
    try:
        full = np.empty(shape, array.dtype)
    except MemoryError as error:
        raise status.no_memory(subject, error) from error
    full[...] = array
    return pack(full, info.element_type) if info.element_type.packed else full


def number(info: ValueInfo, plain: bool | int | float, subject: str) -> np.ndarray[Any, Any]:
    """A number of Python's as one of the input's type; raises `DTypeError` if the type does not hold it."""
    wanted = info.element_type.dtype
    error = DTypeError(f"{subject}: expected {type_name(info.element_type)}, got {shown(plain)}")
    if wanted is None or isinstance(plain, bool) != (info.element_type is ElementType.BOOL):
        raise error
    try:
        with np.errstate(over="ignore"):
            array = np.asarray(plain, wanted)
        # An integer type takes whole numbers only. Other types round, but not to infinity.
        exact = array.item() == plain or (
            isinstance(array.item(), (float, complex)) and cmath.isfinite(array) == math.isfinite(plain)
        )
    except (OverflowError, TypeError, ValueError):
        raise error from None
    if not exact:
        raise error
    return array
