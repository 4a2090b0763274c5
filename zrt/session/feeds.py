"""The feeds of a run: match names, check types and shapes, convert arrays."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np

from zrt._common.arguments import shown, wrong_type
from zrt._native import status
from zrt.errors import ArgumentError, DTypeError, UnknownNameError, UnsupportedError
from zrt.memory import arrays
from zrt.types import ElementType, ValueKind
from zrt.values import symbolic_shapes
from zrt.values.type_info import ValueInfo, is_plain, phrase, type_name

Feeds: TypeAlias = "Mapping[str, Any] | Sequence[Any]"


def names_of(infos: Sequence[ValueInfo]) -> str:
    """The quoted names, for a message."""
    return ", ".join(repr(info.name) for info in infos) or "none"


def require_names(
    names: Iterable[object], infos: Sequence[ValueInfo], role: str, subject: str, more: Sequence[ValueInfo] = ()
) -> None:
    """Raises for a name that none of `infos` and `more` has; `role` is "input" or "output"."""
    known = {info.name for info in (*infos, *more)}
    for name in names:
        if name not in known:
            raise UnknownNameError(f"{subject}: the model has no {role} {shown(name)}; it has {names_of(infos)}")


def by_name(
    feeds: Feeds, inputs: Sequence[ValueInfo], initializers: Sequence[ValueInfo]
) -> list[tuple[ValueInfo, Any]]:
    """Each fed input with its feed, in the session's order; overridable initializers only if they are fed.

    An input of optional type may be missing or None. Tensors of other libraries are returned as arrays, or as values
    where numpy has none. An object with a method `__zrt_feed__`, such as an `OrtValue` of the drop-in, stands for the
    feed that this method returns.
    """
    if isinstance(feeds, Mapping):
        # Any other mapping than a dict is read item by item, as its class defines them.
        named = dict(feeds) if type(feeds) is dict else {name: feeds[name] for name in feeds}
    elif isinstance(feeds, Sequence) and not isinstance(feeds, (str, bytes, memoryview)):
        each = list(feeds)
        if len(each) != len(inputs):
            raise ArgumentError(f"feeds: the model has {len(inputs)} inputs ({names_of(inputs)}), got {len(each)}")
        named = {info.name: feed for info, feed in zip(inputs, each, strict=True)}
    else:
        raise wrong_type("feeds", "a dict or a list of arrays", feeds)
    require_names(named, inputs, "input", "feeds", initializers)
    optional = {info.name for info in inputs if info.kind is ValueKind.OPTIONAL}
    missing = [info for info in inputs if info.name not in named and info.name not in optional]
    if missing:
        raise ArgumentError(f"feeds: input {names_of(missing)} is missing")
    return [
        (info, _adopted(info, named[info.name]))
        for info in (*inputs, *initializers)
        if info.name in named and not (named[info.name] is None and info.name in optional)
    ]


def _adopted(info: ValueInfo, feed: Any) -> Any:
    """The feed; for a tensor of another library an array over its memory, or a value where numpy has none."""
    if isinstance(feed, np.ndarray):
        return feed
    held = getattr(type(feed), "__zrt_feed__", None)
    if held is not None:
        return held(feed)
    if not hasattr(type(feed), "__dlpack__"):
        return feed
    from zrt.interop import dlpack
    from zrt.values.value import Value

    return feed if isinstance(feed, Value) else dlpack.as_feed(feed, f"input {info.name!r}")


def unbindable(info: ValueInfo) -> str:
    """Why no memory can be bound for an input or output; "" for tensors of numbers."""
    if not info.is_tensor:
        return f"is {phrase(info.kind)}"
    return "holds strings" if info.element_type is ElementType.STRING else ""


def check_kind(
    info: ValueInfo, subject: str, rule: str = "without a copy only tensors of numbers can be given"
) -> None:
    """Raises unless the model declares a tensor of numbers: only these can use the memory of an array."""
    reason = unbindable(info)
    if reason:
        raise UnsupportedError(f"{subject} {reason}: {rule}")


def check_type(info: ValueInfo, element_type: ElementType, subject: str) -> None:
    """Raises for another element type than the model's: zrt casts nothing implicitly."""
    if element_type is not info.element_type:
        raise DTypeError(f"{subject}: expected {type_name(info.element_type)}, got {type_name(element_type)}")


def right_array(info: ValueInfo, feed: Any) -> np.ndarray[Any, Any]:
    """The feed as an array that ORT can read: contiguous, aligned, native, of the model's type and shape."""
    subject = f"input {info.name!r}"
    array = as_array(info, feed, subject)
    symbolic_shapes.check(info, array.shape, subject)
    try:
        array = arrays.native(array)
    except MemoryError as error:
        raise status.no_memory(subject, error) from error
    # C compares the dtype objects, of which numpy may have several for one type.
    return array if array.dtype is info.element_type.dtype else array.view(info.element_type.dtype)


def need_values(fed: Sequence[tuple[ValueInfo, Any]]) -> bool:
    """Whether a feed is a `Value` or a `Buffer`, or its input takes no plain array: the run then feeds values."""
    if all(type(feed) is np.ndarray and is_plain(info) for info, feed in fed):
        # Most processes feed arrays only, and need neither class.
        return False
    from zrt.memory.buffers import Buffer
    from zrt.values.value import Value

    return any(isinstance(feed, (Value, Buffer)) or not is_plain(info) for info, feed in fed)


def as_array(info: ValueInfo, feed: Any, subject: str) -> np.ndarray[Any, Any]:
    """The feed as an array of the model's type, whatever its shape and its layout in memory."""
    arrays.check_unmasked(feed, subject)
    try:
        array = np.asarray(feed)
    except MemoryError as error:
        raise status.no_memory(subject, error) from error
    except (ValueError, TypeError, OverflowError) as error:
        raise DTypeError(f"{subject}: {error}") from error
    if array.dtype == object:
        raise DTypeError(f"{subject}: expected {type_name(info.element_type)}, got objects ({type(feed).__name__})")
    check_type(info, arrays.element_type_of(array, subject), subject)
    return array
