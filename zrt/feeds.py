"""The feeds of a run: names matched, types and shapes checked, arrays made right where they can be."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np

from zrt import arrays, shapes
from zrt.buffers import Buffer
from zrt.errors import AllocationError, ArgumentError, DTypeError, UnknownNameError, UnsupportedError
from zrt.metadata import ValueInfo, type_name
from zrt.types import ElementType
from zrt.values import Value, as_value

Feed: TypeAlias = "np.ndarray[Any, Any] | Value | Buffer"
Feeds: TypeAlias = "Mapping[str, Any] | Sequence[Any]"


def names_of(infos: Sequence[ValueInfo]) -> str:
    """The names for a message."""
    return ", ".join(repr(info.name) for info in infos) or "none"


def by_name(
    feeds: Feeds, inputs: Sequence[ValueInfo], initializers: Sequence[ValueInfo]
) -> list[tuple[ValueInfo, Any]]:
    """Each fed input with what is fed, in the session's order; overridable initializers only where they are fed."""
    if isinstance(feeds, Mapping):
        given = dict(feeds)
    elif isinstance(feeds, Sequence) and not isinstance(feeds, (str, bytes, memoryview)):
        each = list(feeds)
        if len(each) != len(inputs):
            raise ArgumentError(f"feeds: the model has {len(inputs)} inputs ({names_of(inputs)}), got {len(each)}")
        given = {info.name: feed for info, feed in zip(inputs, each, strict=True)}
    else:
        raise DTypeError(f"feeds: expected a dict or a list of arrays, got {type(feeds).__name__}")
    known = {info.name for info in (*inputs, *initializers)}
    for name in given:
        if name not in known:
            raise UnknownNameError(f"feeds: the model has no input {name!r}; it has {names_of(inputs)}")
    missing = [info for info in inputs if info.name not in given]
    if missing:
        raise ArgumentError(f"feeds: input {names_of(missing)} is missing")
    return [(info, given[info.name]) for info in (*inputs, *initializers) if info.name in given]


def check_kind(info: ValueInfo, subject: str) -> None:
    """Refuses what is no tensor of numbers in the model."""
    if not info.is_tensor:
        raise UnsupportedError(f"{subject} is a {info.kind.name.lower()}: only tensors of numbers can be given")
    if info.element_type is ElementType.STRING:
        raise UnsupportedError(f"{subject} holds strings: only tensors of numbers can be given")


def check_type(info: ValueInfo, element_type: ElementType, subject: str) -> None:
    """Refuses another element type than the model's: nothing is cast in silence."""
    if element_type is not info.element_type:
        raise DTypeError(f"{subject}: expected {type_name(info.element_type)}, got {type_name(element_type)}")


def right_array(info: ValueInfo, feed: Any) -> np.ndarray[Any, Any]:
    """The feed as an array that ORT can read: contiguous, native, of the model's type and a shape it admits."""
    subject = f"input {info.name!r}"
    check_kind(info, subject)
    if info.element_type.packed:
        raise DTypeError(f"{subject}: ONNX Runtime packs {info.element_type.name}; feed a Value.from_packed")
    try:
        array = np.asarray(feed)
    except (ValueError, TypeError) as error:
        raise DTypeError(f"{subject}: {error}") from error
    if array.dtype == object:
        raise DTypeError(f"{subject}: expected {type_name(info.element_type)}, got objects ({type(feed).__name__})")
    check_type(info, arrays.element_type_of(array, subject), subject)
    shapes.check(info, array.shape, subject)
    try:
        return arrays.native(array)
    except MemoryError as error:
        raise AllocationError(f"{subject}: {error}") from error


def right_value(info: ValueInfo, feed: Feed) -> Value:
    """The feed as a value over its own memory: what would need a copy is refused."""
    subject = f"input {info.name!r}"
    check_kind(info, subject)
    value = as_value(feed, subject)
    check_type(info, value.element_type, subject)
    shapes.check(info, value.shape, subject)
    return value
