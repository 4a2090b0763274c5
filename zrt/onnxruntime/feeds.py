"""The feeds and the results of a run as the official package takes and gives them."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np

from zrt.errors import DTypeError, ZrtError
from zrt.memory import arrays
from zrt.types import ElementType, ValueKind, pack
from zrt.values import Value
from zrt.values.type_info import ValueInfo, content

# The official package has arrays of bytes for this type.
_AS_BYTES = ElementType.FLOAT8E4M3FN


def returns_as_official(info: ValueInfo) -> bool:
    """Whether `zrt.Session.run` returns an output of this declaration in the official package's form."""
    if info.kind is ValueKind.TENSOR:
        return not info.element_type.packed and info.element_type is not _AS_BYTES
    return info.kind in (ValueKind.SEQUENCE, ValueKind.MAP)


def values(feeds: Mapping[str, Any], inputs: Iterable[ValueInfo]) -> dict[str, Value]:
    """The feeds as values, without those that are None: each stands for an absent optional."""
    declared = {info.name: content(info) for info in inputs}
    return {name: value(declared.get(name), name, feed) for name, feed in feeds.items() if feed is not None}


def value(info: ValueInfo | None, name: str, feed: Any) -> Value:
    """One feed as a value of its own type, which may differ from the declared one: ONNX Runtime compares them."""
    if isinstance(feed, np.ndarray):
        return _array(feed, name)
    if hasattr(type(feed), "_to_zrt"):
        made: Value = feed._to_zrt()
        return made
    if isinstance(feed, list):
        if info is not None and info.kind is ValueKind.SEQUENCE:
            return _sequence(info, name, feed)
        return _array(_list(info, feed), name)
    if isinstance(feed, dict):
        return _map(info, name, feed)
    if not isinstance(feed, Iterable) or isinstance(feed, memoryview):
        raise RuntimeError(f"Unable to handle object of type {type(feed)}")
    maps = []
    for each in feed:
        if not isinstance(each, dict):
            raise RuntimeError(f"Input must be a list of dictionaries or a single numpy array for input '{name}'.")
        maps.append(each)
    return _made(Value.from_sequence, maps, ElementType.FLOAT, None, name)


def _array(array: np.ndarray[Any, Any], name: str) -> Value:
    try:
        kind = ElementType.of(array.dtype)
    except DTypeError:
        # The official package takes records for texts.
        kind = ElementType.STRING if array.dtype.kind == "V" else ElementType.COMPLEX64
    if kind.refused:
        raise RuntimeError(f"Numpy_type {array.dtype.num} can't be converted to MLDataType.")
    if kind is ElementType.STRING:
        flat = array.reshape(-1).tolist()
        return Value.from_strings([_text(each) for each in flat], array.shape, name)
    plain = arrays.native(np.asarray(array))
    if kind.packed:
        return Value.from_packed(pack(plain, kind), kind, plain.shape, name)
    return Value.from_array(plain, name)


def _text(thing: Any) -> str | bytes:
    return thing if isinstance(thing, (str, bytes)) else str(thing)


def _list(info: ValueInfo | None, feed: list[Any]) -> np.ndarray[Any, Any]:
    """A list as an array of the declared type."""
    if info is None or info.kind is not ValueKind.TENSOR:
        raise RuntimeError("The graph is missing type information needed to construct the ORT tensor")
    dtype = np.dtype(np.uint8) if info.element_type is _AS_BYTES else info.element_type.dtype
    try:
        return np.array(feed, dtype)
    except (ValueError, TypeError, OverflowError) as error:
        raise RuntimeError("Could not create tensor from given input list") from error


def as_arrays(feeds: dict[str, Any], inputs: Iterable[ValueInfo]) -> dict[str, Any] | None:
    """The feeds with an array in the place of each list for a tensor, and what zrt takes in the place of each
    `OrtValue`; None if there are neither lists nor `OrtValue`s.
    """
    arrays = {}
    for info in inputs:
        feed = feeds.get(info.name)
        if isinstance(feed, list):
            if info.kind is ValueKind.TENSOR:
                arrays[info.name] = _list(info, feed)
        elif (held := getattr(type(feed), "__zrt_feed__", None)) is not None:
            arrays[info.name] = held(feed)
    return {**feeds, **arrays} if arrays else None


def _sequence(info: ValueInfo, name: str, feed: list[Any]) -> Value:
    maps = info.element is not None and info.element.kind is ValueKind.MAP
    if not maps and not all(isinstance(each, np.ndarray) for each in feed):
        raise RuntimeError("CreateSequenceOfTensors: Input is not a tensor")
    return _made(Value.from_sequence, feed, info.element_type, info.key_type or None, name)


def _map(info: ValueInfo | None, name: str, feed: dict[Any, Any]) -> Value:
    if not feed:
        raise RuntimeError("Size of dictionary is empty, unable to run the prediction.")
    value_type = info.element_type if info is not None and info.kind is ValueKind.MAP else ElementType.FLOAT
    given = _of_floats(feed, name) if value_type is ElementType.FLOAT else feed
    return _made(Value.from_map, given, None, value_type, name)


def _of_floats(feed: dict[Any, Any], name: str) -> dict[Any, float]:
    """The map with keys of one kind, which the first decides, and with floats as its values."""
    first = next(iter(feed))
    if not isinstance(first, str) and not hasattr(first, "__float__"):
        raise RuntimeError(f"Key type must be int or string (not {type(first)}) for input '{name}'.")
    kind, convert = ("string", str) if isinstance(first, str) else ("int64_t", _int64)

    def made(role: str, value: Any, converter: Callable[[Any], Any]) -> Any:
        try:
            return converter(value)
        except (TypeError, OverflowError):
            found = f"Unexpected {role} type  {type(value)}, it cannot be linked to C type {kind}"
            raise RuntimeError(f"{found} for input '{name}'.") from None

    return {made("key", key, convert): made("value", value, _float) for key, value in feed.items()}


def _int64(value: Any) -> int:
    number = operator.index(value)
    if not -(2**63) <= number < 2**63:
        raise OverflowError
    return number


def _float(value: Any) -> float:
    if isinstance(value, (str, bytes)):
        raise TypeError
    return float(value)


def _made(make: Any, feed: Any, first: Any, second: Any, name: str) -> Value:
    try:
        made: Value = make(feed, first, second, f"input {name!r}")
    except ZrtError as error:
        raise RuntimeError(str(error)) from error
    return made


def result(value: Value | None) -> Any:
    """The object for one output: an array, a list, a dict, a sparse tensor, or None for an absent optional."""
    if value is None:
        return None
    if value.kind is ValueKind.SEQUENCE:
        return value.to_list()
    if value.kind is ValueKind.MAP:
        return value.to_dict()
    if value.kind is ValueKind.SPARSE_TENSOR:
        from zrt.onnxruntime.state.sparse import SparseTensor

        return SparseTensor._of(value)
    if value.element_type.packed:
        return value.unpack()
    array = value.numpy()
    return array.view(np.uint8) if value.element_type is _AS_BYTES else array
