"""Sequences and maps: converts lists and dicts to ONNX Runtime's values, and back."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from zrt._common.arguments import require_type, shown, wrong_type
from zrt._native import builtin, ffi, lib, status  # noqa: F401 (builtin gives C numpy's type of arrays)
from zrt._native.cdata import NULL
from zrt._native.handle import Handle
from zrt._native.library import api
from zrt.errors import ArgumentError, DTypeError, Error, UnsupportedError
from zrt.memory import arrays
from zrt.memory.allocators import cpu_memory, default_allocator
from zrt.memory.buffers import Buffer
from zrt.types import ElementType, ValueKind, require_tensors
from zrt.values import empty_sequence
from zrt.values.type_info import phrase, type_name
from zrt.values.value import Value, as_value

KEYS = (ElementType.STRING, ElementType.INT64)
VALUES = (ElementType.STRING, ElementType.INT64, ElementType.FLOAT, ElementType.DOUBLE)


def _names(types: Sequence[ElementType]) -> str:
    return ", ".join(map(type_name, types))


def _make(kind: ValueKind, parts: Sequence[Handle], parents: Sequence[Handle], subject: str) -> Value:
    table = api()
    arguments = ([part.pointer for part in parts], len(parts), int(kind))
    try:
        handle = Handle.make(table.ReleaseValue, parents, table.CreateValue, "OrtValue", *arguments)
    except Error as error:
        raise status.about(subject, error) from error
    return Value(handle)


def mapping(entries: Mapping[Any, Any], key_type: Any, value_type: Any, subject: str) -> Value:
    """See `Value.from_map`."""
    require_type(entries, Mapping, subject, "a dict")
    # Read all items at once: another thread may change the dict between two reads.
    items = list(entries.items())
    if not items and (key_type is None or value_type is None):
        raise ArgumentError(f"{subject}: an empty dict needs a key_type and a value_type")
    keys = _column([key for key, _ in items], key_type, KEYS, f"{subject}, keys")
    values = _column([value for _, value in items], value_type, VALUES, f"{subject}, values")
    # ORT's map would keep one of two entries.
    names = keys.numpy().tolist()
    if len(set(names)) < len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise ArgumentError(f"{subject}, keys: {shown(twice)} occurs twice: a str and bytes may be the same string")
    # ORT copies both.
    return _make(ValueKind.MAP, [keys._open(), values._open()], [], subject)


def _column(items: list[Any], wanted: Any, allowed: Sequence[ElementType], subject: str) -> Value:
    """A tensor with the keys or the values of a map."""
    element_type = _type_of(items, subject) if wanted is None else ElementType.of(wanted)
    if element_type not in allowed:
        raise UnsupportedError(
            f"{subject}: ONNX Runtime makes no map of {type_name(element_type)}, but of {_names(allowed)}"
        )
    for item in items:
        if not _fits(item, element_type):
            raise wrong_type(subject, type_name(element_type), item)
    if element_type is ElementType.STRING:
        return Value.from_strings(items, (len(items),), subject)
    if element_type is ElementType.INT64:
        # numpy wraps its own unsigned numbers, and raises for Python's.
        items = [int(item) for item in items]
    try:
        with np.errstate(over="ignore"):
            array = np.array(items, element_type.dtype)
    except OverflowError as error:
        raise ArgumentError(f"{subject}: {error}") from None
    if array.dtype.kind == "f":
        for item in np.flatnonzero(np.isinf(array)):
            # A long double may be larger than any float, and equals no infinity then.
            if items[item] != float(array[item]):
                raise ArgumentError(f"{subject}: {shown(items[item])} is too large for {type_name(element_type)}")
    return Value.from_array(array, subject)


def _type_of(items: list[Any], subject: str) -> ElementType:
    """The element type that numpy infers from the items."""
    first = items[0]
    if isinstance(first, (str, bytes)):
        return ElementType.STRING
    array = arrays.plain(items, subject)
    if array.dtype.kind in "OSTU":
        raise DTypeError(f"{subject}: expected strings, or numbers of at most 64 bits, all of one kind")
    return arrays.element_type_of(array, subject)


def _fits(item: Any, element_type: ElementType) -> bool:
    """Whether the item has that type. Python's numbers fit any size, and an int fits a float type."""
    if element_type is ElementType.STRING:
        return isinstance(item, (str, bytes))
    whole = isinstance(item, (int, np.integer)) and not isinstance(item, (bool, np.timedelta64))
    return whole if element_type is ElementType.INT64 else whole or isinstance(item, (float, np.floating))


def sequence(content: Sequence[Any], element_type: Any, key_type: Any, subject: str) -> Value:
    """See `Value.from_sequence`."""
    if isinstance(content, (str, bytes)) or not isinstance(content, Sequence):
        raise wrong_type(subject, "a list", content)
    wanted = None if element_type is None else ElementType.of(element_type)
    keys = None if key_type is None else ElementType.of(key_type) or None
    items = list(content)
    if not items:
        if wanted is None:
            raise ArgumentError(f"{subject}: an empty list needs an element_type")
        _check(wanted, keys or ElementType.UNDEFINED, subject)
        return Value(empty_sequence.sequence(wanted, keys, subject))
    if not keys and all(type(item) is np.ndarray and item.dtype is items[0].dtype for item in items):
        over = _over(tuple(items), wanted, subject)
        if over is not None:
            return over
    values = [_element(item, wanted, keys, f"{subject}, element {index}") for index, item in enumerate(items)]
    first = values[0]
    if first.kind not in (ValueKind.TENSOR, ValueKind.MAP):
        raise UnsupportedError(
            f"{subject}: ONNX Runtime has sequences of tensors and of maps, not of {phrase(first.kind)}"
        )
    kind = ValueKind.MAP if keys else first.kind
    described = (kind, wanted or first.element_type, keys or first.key_type)
    _check(described[1], described[2], subject)
    for index, value in enumerate(values):
        if (value.kind, value.element_type, value.key_type) != described:
            raise DTypeError(
                f"{subject}, element {index}: expected {_describe(*described)}, "
                f"got {_describe(value.kind, value.element_type, value.key_type)}"
            )
        if not value.memory.is_host:
            raise UnsupportedError(
                f"{subject}, element {index} lies on {value.memory.name}: a sequence holds host memory"
            )
    handles = [value._open() for value in values]
    # ORT copies maps, and shares the memory of tensors.
    return _make(ValueKind.SEQUENCE, handles, handles if first.is_tensor else [], subject)


def _over(items: tuple[np.ndarray[Any, Any], ...], wanted: ElementType | None, subject: str) -> Value | None:
    """A sequence over the memory of arrays of one type; None where some have to be copied or refused."""
    if wanted is not None and items[0].dtype != wanted.dtype:
        return None
    handle = Handle.own(NULL, api().ReleaseValue, [Handle.pin(items)])
    code = lib.zrt_sequence_over(api(), cpu_memory().pointer, id(items), handle.reference)
    if code == status.MISALIGNED:
        return None
    if code:
        raise status.about(subject, status.to_error(code))
    handle.pointer = ffi.cast("OrtValue *", handle.reference.pointer)
    return Value(handle)


def _describe(kind: ValueKind, element_type: ElementType, key_type: ElementType) -> str:
    if kind is ValueKind.MAP:
        return f"a map({type_name(key_type)}, {type_name(element_type)})"
    return f"{phrase(kind)} of {type_name(element_type)}"


def _check(element_type: ElementType, key_type: ElementType, subject: str) -> None:
    """Refuses element types that ORT's sequences cannot hold."""
    if key_type:
        if key_type not in KEYS or element_type is not ElementType.FLOAT:
            raise UnsupportedError(
                f"{subject}: ONNX Runtime makes no sequence of {_describe(ValueKind.MAP, element_type, key_type)}, "
                f"but of maps of {_names(KEYS)} to float32"
            )
    elif element_type.packed:
        # Before 1.29 ORT's copy of an element reads and writes beyond the memory of the packed bytes.
        raise UnsupportedError(f"{subject}: ONNX Runtime cannot read back sequences of {type_name(element_type)}")
    else:
        require_tensors(element_type, subject)


def _element(thing: Any, element_type: ElementType | None, key_type: ElementType | None, subject: str) -> Value:
    """One element of a sequence as a value, which borrows its memory if it can."""
    if isinstance(thing, (Value, Buffer)):
        return as_value(thing, subject)
    if isinstance(thing, Mapping):
        return mapping(thing, key_type, element_type, subject)
    if element_type is ElementType.STRING and not isinstance(thing, np.ndarray):
        return Value.from_strings(thing, None, subject)
    array = arrays.plain(thing, subject)
    if arrays.element_type_of(array, subject) is ElementType.STRING:
        return Value.from_strings(thing, None, subject)
    return Value.from_array(arrays.native(array), subject)


def elements(value: Value) -> list[Value]:
    """See `Value.elements`."""
    handle = value._of(ValueKind.SEQUENCE, ValueKind.MAP)
    value._on_host()
    if value.kind is ValueKind.SEQUENCE:
        _check(value.element_type, value.key_type, "this value")
    table = api()
    allocator = default_allocator()
    count = status.fetch(table.GetValueCount, "size_t", handle.pointer)
    return [
        Value(Handle.make(table.ReleaseValue, [], table.GetValue, "OrtValue", handle.pointer, index, allocator))
        for index in range(count)
    ]


def to_list(value: Value) -> list[Any]:
    """See `Value.to_list`."""
    handle = value._of(ValueKind.SEQUENCE)
    value._on_host()
    items: list[Any] | None = read(handle, value.kind, value.element_type, value.key_type)
    # numpy has no array of some element: this raises the error.
    return [element.numpy() for element in elements(value)] if items is None else items


def to_dict(value: Value) -> dict[Any, Any]:
    """See `Value.to_dict`."""
    handle = value._of(ValueKind.MAP)
    value._on_host()
    entries: dict[Any, Any] = read(handle, value.kind, value.element_type, value.key_type)
    return entries


def read(handle: Handle, kind: ValueKind, element_type: ElementType, key_type: ElementType) -> Any:
    """The list of a sequence, or the dict of a map, which are copies; None where an element has no array."""
    if kind is ValueKind.SEQUENCE:
        _check(element_type, key_type, "this value")
    dtype = 0 if key_type else id(element_type.dtype)
    results: list[Any] = []
    code = lib.zrt_container_read(api(), handle.pointer, int(element_type), dtype, id(results))
    if code == status.VALUES:
        return None
    status.check(code)
    return results[0]
