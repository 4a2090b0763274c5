"""The feeds and the results of a run as the official package takes and gives them."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np

from zrt.errors import ArgumentError, DTypeError, ZrtError
from zrt.memory import arrays
from zrt.types import ElementType, ValueKind, pack
from zrt.values.sparse import SparseTensor
from zrt.values.type_info import ValueInfo, content
from zrt.values.value import Value

# The official package has arrays of bytes for this type.
AS_BYTES = ElementType.FLOAT8E4M3FN
# The kinds of numpy's dtypes whose arrays become an `OrtValue` as they are.
_NUMERIC = "biuf"


def is_array(info: ValueInfo) -> bool:
    """Whether `zrt.Session.run` returns an output of this declaration as the array that the official package has."""
    return info.kind is ValueKind.TENSOR and not info.element_type.packed and info.element_type is not AS_BYTES


def is_numeric(info: ValueInfo) -> bool:
    """Whether numpy has an array of numbers for an output of this declaration."""
    fits = info.shape is not None and len(info.shape) <= arrays.MOST_DIMENSIONS
    return fits and is_array(info) and info.element_type.dtype.kind in _NUMERIC


def are_numbers(results: list[Any]) -> bool:
    """Whether all results of a run are arrays of numbers."""
    return all(type(each) is np.ndarray and each.dtype.kind in _NUMERIC for each in results)


def official(result: Any) -> Any:
    """The official package's form of a result of `zrt.Session.run`, or of a value; None is an absent optional."""
    if isinstance(result, Value):
        if result.kind is ValueKind.SPARSE_TENSOR:
            return _sparse(result)
        if result.kind is ValueKind.SEQUENCE:
            return result.to_list()
        if result.kind is ValueKind.MAP:
            return result.to_dict()
        result = result.unpack() if result.element_type.packed else result.numpy()
    if isinstance(result, np.ndarray):
        return result.view(np.uint8) if result.dtype == AS_BYTES.dtype else result.view()
    return _sparse(Value.from_sparse(result)) if isinstance(result, SparseTensor) else result


def result(value: Value | None) -> Any:
    """The official package's form of a run's result; it shares memory with no feed."""
    answer = official(value)
    # Only the array of an output that is an input too lies on a feed's memory, and is read-only.
    return answer.copy() if isinstance(answer, np.ndarray) and not answer.flags.writeable else answer


def _sparse(value: Value) -> Any:
    # Few programs have sparse tensors, and the module imports those of devices, which take time.
    from zrt.onnxruntime.forms import SparseTensor

    return SparseTensor._of(value)


def values(feeds: Mapping[str, Any], inputs: Iterable[ValueInfo]) -> dict[str, Value]:
    """The feeds as values, without those that are None: each stands for an absent optional."""
    declared = {info.name: content(info) for info in inputs}
    return {name: value(declared.get(name), name, feed) for name, feed in feeds.items() if feed is not None}


def value(info: ValueInfo | None, name: str, feed: Any) -> Value:
    """One feed as a value of its own type, which may differ from the declared one: ONNX Runtime compares them."""
    if isinstance(feed, np.ndarray):
        return _array(feed, name)
    if hasattr(type(feed), "_to_zrt"):
        content: Value = feed._to_zrt()
        return content
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
    return _collection(Value.from_sequence, maps, ElementType.FLOAT, None, name)


def tensor_type(dtype: np.dtype[Any]) -> ElementType:
    """The element type of arrays of a dtype; raises `RuntimeError` where ONNX Runtime has no such tensors."""
    try:
        element_type = ElementType.of(dtype)
    except DTypeError:
        # The official package takes records for texts.
        element_type = ElementType.STRING if dtype.kind == "V" else ElementType.COMPLEX64
    if element_type.refused:
        raise RuntimeError(f"ONNX Runtime has no tensors of the type of the array, {dtype}")
    return element_type


def _array(array: np.ndarray[Any, Any], name: str) -> Value:
    element_type = tensor_type(array.dtype)
    if element_type is ElementType.STRING:
        texts = [each if isinstance(each, (str, bytes)) else str(each) for each in array.reshape(-1).tolist()]
        try:
            return Value.from_strings(texts, array.shape, name)
        except ArgumentError as error:
            # Python's own error of a text that is no UTF-8, which the official package raises.
            cause = error.__context__
            if not isinstance(cause, (UnicodeEncodeError, UnicodeDecodeError)):
                raise
        cause.reason += f", in input {name!r}"
        try:
            raise cause
        finally:
            # The error's traceback holds this frame.
            del cause
    plain = arrays.native(np.asarray(array))
    if element_type.packed:
        return Value.from_packed(pack(plain, element_type), element_type, plain.shape, name)
    return Value.from_array(plain, name)


def _list(info: ValueInfo | None, feed: list[Any]) -> np.ndarray[Any, Any]:
    """A list as an array of the declared type."""
    if info is None or info.kind is not ValueKind.TENSOR:
        raise RuntimeError("The graph is missing type information needed to construct the ORT tensor")
    dtype = np.dtype(np.uint8) if info.element_type is AS_BYTES else info.element_type.dtype
    try:
        return np.array(feed, dtype)
    except (ValueError, TypeError, OverflowError) as error:
        raise RuntimeError("Could not create tensor from given input list") from error


def as_arrays(feeds: dict[str, Any], inputs: Iterable[ValueInfo]) -> dict[str, Any]:
    """The feeds with an array in the place of each list for a tensor, and the content of each `OrtValue`."""
    for info in inputs:
        feed = feeds.get(info.name)
        if isinstance(feed, list):
            if info.kind is ValueKind.TENSOR:
                feeds[info.name] = _list(info, feed)
        elif (content := getattr(type(feed), "__zrt_feed__", None)) is not None:
            feeds[info.name] = content(feed)
    return feeds


def settled(feeds: dict[str, Any]) -> dict[str, Any]:
    """The feeds of a run that begins later. The caller may write into a strided array by then, or change a shape."""
    return {name: arrays.native(feed).view() if type(feed) is np.ndarray else feed for name, feed in feeds.items()}


def _sequence(info: ValueInfo, name: str, feed: list[Any]) -> Value:
    maps = info.element is not None and info.element.kind is ValueKind.MAP
    if not maps and not all(isinstance(each, np.ndarray) for each in feed):
        raise RuntimeError("CreateSequenceOfTensors: Input is not a tensor")
    return _collection(Value.from_sequence, feed, info.element_type, info.key_type or None, name)


def _map(info: ValueInfo | None, name: str, feed: dict[Any, Any]) -> Value:
    if not feed:
        raise RuntimeError("Size of dictionary is empty, unable to run the prediction.")
    value_type = info.element_type if info is not None and info.kind is ValueKind.MAP else ElementType.FLOAT
    entries = _of_floats(feed, name) if value_type is ElementType.FLOAT else feed
    return _collection(Value.from_map, entries, None, value_type, name)


def _of_floats(feed: dict[Any, Any], name: str) -> dict[Any, float]:
    """The map with keys of one kind, which the first decides, and with floats as its values."""
    first = next(iter(feed))
    if not isinstance(first, str) and not hasattr(first, "__float__"):
        raise RuntimeError(f"Key type must be int or string (not {type(first)}) for input '{name}'.")
    key_kind, convert = ("string", str) if isinstance(first, str) else ("int64", _int64)

    def converted(role: str, value: Any, converter: Callable[[Any], Any], kind: str) -> Any:
        try:
            return converter(value)
        except (TypeError, OverflowError):
            raise RuntimeError(f"input {name!r}: a {role} of type {type(value)} is no {kind}") from None

    with np.errstate(over="ignore"):
        return {
            converted("key", key, convert, key_kind): converted("value", value, _float, "float")
            for key, value in feed.items()
        }


def _int64(value: Any) -> int:
    number = operator.index(value)
    if not -(2**63) <= number < 2**63:
        raise OverflowError
    return number


def _float(value: Any) -> float:
    if isinstance(value, (str, bytes)):
        raise TypeError
    # A number beyond float32 is infinite, as in C++.
    return float(np.float32(float(value)))


def _collection(make: Any, feed: Any, first: Any, second: Any, name: str) -> Value:
    try:
        value: Value = make(feed, first, second, f"input {name!r}")
    except ZrtError as error:
        raise RuntimeError(str(error)) from error
    return value
