"""Fields of `SessionOptions` and `RunOptions`: the function of the C API that sets each one, and its converter.

`flag`, `number`, `choice` and the other functions here make the fields, as those of `zrt.providers.option` make the
fields of providers. The default of a field is ONNX Runtime's own: a field that has it is left to ONNX Runtime.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from enum import IntEnum
from functools import cache
from typing import Any, TypeAlias

from zrt._common.arguments import INT32_MAX, boolean, choose, integer, path_bytes, text, wrong_type
from zrt._common.records import field
from zrt._common.serialization import OptionData, data_field
from zrt._native import status
from zrt._native.handle import Handle
from zrt._native.library import api, load_api
from zrt.errors import ArgumentError, Error

Call: TypeAlias = "tuple[str, str, tuple[Any, ...]]"
"""A call of a function of ``OrtApi``: its subject in messages, the function's name, and the arguments that follow the
options object."""


Calls = Callable[[Any, str], Iterable[Call]]
"""From a field's value and name to the calls that set it; raises for a value that the field does not take."""


def option(data: Any, calls: Calls, default: Any = None) -> Any:
    """A field that `calls` set; `data` is its type in `to_dict`, without None."""
    kind = data | None if default is None else data
    return field(default=default, metadata={"data": kind, "calls": calls})


def converted(function: str, convert: Callable[[Any, str], Any], data: Any, default: Any = None) -> Any:
    """A field whose converted value is the one argument of the function."""
    return option(data, lambda value, name: [(name, function, (convert(value, name),))], default)


def flag(function: str, *, default: bool | None = None) -> Any:
    """True or False."""
    return converted(function, boolean, bool, default)


def switch(on: str | None, off: str, *, default: bool) -> Any:
    """True or False, each of which has a function; `on` is None where True is ONNX Runtime's own default."""

    def calls(value: Any, name: str) -> Iterable[Call]:
        function = on if boolean(value, name) else off
        return [] if function is None else [(name, function, ())]

    return option(bool, calls, default)


def number(function: str, high: int = INT32_MAX, *, default: int | None = None) -> Any:
    """An int between 0 and `high`."""
    return converted(function, lambda value, name: integer(value, name, 0, high), int, default)


def choice(function: str, kind: type[IntEnum], *, default: IntEnum | None = None) -> Any:
    """A member of an enum: itself, its number, or its name in any case."""
    return converted(function, lambda value, name: int(choose(kind, value, name)), kind | str, default)


def string(function: str) -> Any:
    """A str."""
    return converted(function, text, str)


def path(function: str, convert: Callable[[Any, str], bytes] = path_bytes) -> Any:
    """A path."""
    return converted(function, convert, str | os.PathLike[str])


def sizes(function: str) -> Any:
    """A dict of sizes by name, with a call for each."""

    def calls(value: Any, name: str) -> Iterable[Call]:
        if not isinstance(value, Mapping):
            raise wrong_type(name, "a dict of sizes", value)
        return [
            (name, function, (text(key, name), integer(size, f"{name}[{key!r}]", 0, 2**63 - 1)))
            for key, size in value.items()
        ]

    return field(default_factory=dict, metadata={"data": Mapping[str, int], "calls": calls})


def entry(function: str, key: str, convert: Callable[[Any, str], bytes | None], data: Any, default: Any = None) -> Any:
    """A field that is a config entry in ONNX Runtime; without the entry where the converter returns None."""

    def calls(value: Any, name: str) -> Iterable[Call]:
        written = convert(value, name)
        return [] if written is None else [(name, function, (key.encode(), written))]

    return option(data, calls, default)


def config_flag(key: str, *, default: bool | None = None) -> Any:
    """True or False as a config entry of the session; False has none where it is the default."""

    def convert(value: Any, name: str) -> bytes | None:
        if boolean(value, name):
            return b"1"
        return b"0" if default is None else None

    return entry("AddSessionConfigEntry", key, convert, bool, default)


def opaque(**arguments: Any) -> Any:
    """A field that cannot be written as data, and that its class passes to ONNX Runtime itself."""
    return data_field(object | None, default=None, **arguments)


@cache
def _setters(kind: Any) -> tuple[tuple[str, Any, Calls], ...]:
    """The name, the default and the calls of each field that has calls."""
    items = kind._data_fields().items()
    return tuple((name, item.default, item.metadata["calls"]) for name, item in items if "calls" in item.metadata)


def calls_of(options: OptionData) -> list[Call]:
    """The calls that set the fields of `options`; the default of a field is ONNX Runtime's own and needs none."""
    made: list[Call] = []
    for name, default, calls in _setters(type(options)):  # type: ignore[arg-type]  # a class is hashable
        value = getattr(options, name)
        if value is not default:
            made.extend(calls(value, name))
    return made


def apply(handle: Handle, calls: Iterable[Call], owner: str | None = None) -> None:
    """Makes the calls; with `owner`, the name of a class, an error names its field."""
    for subject, function, arguments in calls:
        setter = getattr(load_api(), function, None) or getattr(api(), function)
        try:
            status.check(setter(handle.pointer, *arguments))
        except Error as error:
            if owner is None:
                raise
            raise ArgumentError(f"{owner}.{subject}: {error}") from error
