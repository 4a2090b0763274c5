"""The inputs of a measurement: what the user gives, and synthetic data for the rest."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any, Final

import numpy as np

from zrt.bench import synthetic
from zrt.bench.synthetic import MADE_UP, FedInput
from zrt.errors import AllocationError, ArgumentError, DTypeError, OrtError, UnknownNameError
from zrt.lanes import samples
from zrt.session import feeds
from zrt.types import ElementType
from zrt.values.symbolic_shapes import Shape
from zrt.values.type_info import ValueInfo, type_name
from zrt.values.value import Value

BOOLEANS: Final = {"true": True, "1": True, "false": False, "0": False}


@dataclass(frozen=True, slots=True)
class UserInputs:
    """The data that the user gives, by the inputs' names."""

    arrays: Mapping[str, np.ndarray[Any, Any]] = field(default_factory=dict)
    source: str = "from a file"
    """The origin of the arrays."""
    values: Mapping[str, Sequence[str]] = field(default_factory=dict)
    """Values as text: one fills the input, several are its elements in order."""
    shapes: Mapping[str, Shape] = field(default_factory=dict)
    """Shapes of the inputs that are no arrays; a dimension that stays open becomes 1."""


@dataclass(frozen=True, slots=True)
class Inputs:
    """The inputs of a model."""

    infos: dict[str, ValueInfo]
    arrays: dict[str, np.ndarray[Any, Any]]
    """By name; packed types as bytes."""
    described: dict[str, FedInput]

    @property
    def shapes(self) -> dict[str, Shape]:
        """The shape of each input."""
        return {name: fed.shape for name, fed in self.described.items()}

    def feeds(self) -> dict[str, np.ndarray[Any, Any] | Value]:
        """The arrays as feeds of `Session.run`; those of packed types as values over their bytes."""
        kinds = {name: self.infos[name].element_type for name in self.arrays}
        return {
            name: Value.from_packed(array, kinds[name], self.shapes[name]) if kinds[name].packed else array
            for name, array in self.arrays.items()
        }

    @contextmanager
    def first_run(self) -> Iterator[None]:
        """Adds a note to the error of a run inside, since few models take any data."""
        try:
            yield
        except OrtError as error:
            names = [repr(name) for name, fed in self.described.items() if fed.source == MADE_UP]
            if names:
                error.add_note(
                    f"made up: {', '.join(names)}. The model may need other data: --input and --shape give it"
                )
            raise

    def copy(self) -> Inputs:
        """The same in memory of its own."""
        return replace(self, arrays={name: array.copy() for name, array in self.arrays.items()})


def make_inputs(
    declared: Sequence[ValueInfo], user: UserInputs, overridable: Sequence[ValueInfo] = (), seed: int = 0
) -> Inputs:
    """The user's inputs, and synthetic ones in place of missing ones.

    Raises `ArgumentError` and `DTypeError` for what does not fit. `overridable` are initializers that may be fed too.
    Another `seed` makes other synthetic inputs.
    """
    infos = {info.name: info for info in (*declared, *overridable)}
    for name in (*user.arrays, *user.values):
        if name not in infos:
            raise UnknownNameError(f"the model has no input {name!r}; it has {feeds.names_of(declared)}")
    given = {name: feeds.right_array(infos[name], array) for name, array in user.arrays.items()}
    known = {name: _shape_of(infos[name], texts) for name, texts in user.values.items() if name not in user.shapes}
    known |= {name: array.shape for name, array in given.items()}
    required = {info.name for info in declared}
    named = {name: shape for name, shape in known.items() if shape is not None and name in required}
    shapes = synthetic.input_shapes(declared, {**user.shapes, **named})
    for name, texts in user.values.items():
        smallest = tuple(dim if isinstance(dim, int) else synthetic.FREE_DIMENSION for dim in infos[name].shape or ())
        given[name] = _filled(infos[name], texts, shapes.get(name, smallest))
    arrays = synthetic.make_all(declared, shapes, seed) | given
    shapes |= {name: array.shape for name, array in given.items()}
    sources = dict.fromkeys(required, MADE_UP) | dict.fromkeys(user.values, "given")
    sources |= dict.fromkeys(user.arrays, user.source)
    kinds = {name: type_name(infos[name].element_type) for name in arrays}
    return Inputs(infos, arrays, {name: FedInput(kinds[name], shapes[name], sources[name]) for name in arrays})


def _shape_of(info: ValueInfo, texts: Sequence[str]) -> Shape | None:
    """The shape that the number of values tells, for a model that leaves it open; else None."""
    if info.shape is None:
        return () if len(texts) == 1 else (len(texts),)
    return (len(texts),) if len(texts) > 1 and len(info.shape) == 1 and not isinstance(info.shape[0], int) else None


def _filled(info: ValueInfo, texts: Sequence[str], shape: Shape) -> np.ndarray[Any, Any]:
    """An array of the values."""
    if len(texts) not in (1, math.prod(shape)):
        raise ArgumentError(f"input {info.name!r}: {len(texts)} values for the shape {list(shape)}")
    if info.element_type.packed:
        raise ArgumentError(f"input {info.name!r} is of type {type_name(info.element_type)}, which takes no values")
    values = [_value(info, text) for text in texts]
    dtype = object if info.element_type is ElementType.STRING else info.element_type.dtype
    try:
        return np.full(shape, values[0], dtype) if len(texts) == 1 else np.array(values, dtype).reshape(shape)
    except (MemoryError, ValueError) as error:
        raise AllocationError(f"input {info.name!r} of shape {list(shape)}: {error}") from error


def _value(info: ValueInfo, text: str) -> Any:
    kind = info.element_type
    try:
        if kind is ElementType.STRING:
            return text
        if kind is ElementType.BOOL:
            return BOOLEANS[text.strip().lower()]
        return samples.number(info, int(text) if kind.dtype.kind in "iu" else float(text), "")[()]
    except (KeyError, ValueError, DTypeError):
        raise ArgumentError(
            f"input {info.name!r}: {text!r} is no value of type {type_name(kind)}; a file's name ends in .npy"
        ) from None
