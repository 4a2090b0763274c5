"""`OptionData`: options written as plain data, JSON or TOML, and read back."""

from __future__ import annotations

import math
import os
import types
from collections.abc import Callable, Mapping, Sequence
from dataclasses import MISSING, Field, field, fields
from enum import Enum
from typing import Any, Literal, Self, Union, get_args, get_origin

from zrt._common import installation
from zrt._common.arguments import choose, path_bytes, require_type, text, wrong_type
from zrt.errors import ArgumentError, UnknownNameError, UnsupportedError


def data_field(kind: Any, **arguments: Any) -> Any:
    """A field that `OptionData` reads and writes as `kind`; `arguments` are those of `dataclasses.field`.

    `kind` is bool, int, float, str, `os.PathLike`, an enum, a `Literal`, a list or a mapping of these, or a union.
    `object` stands for values that cannot be written as data; a field without a kind is one of them.
    """
    return field(metadata={"data": kind}, **arguments)


class OptionData:
    """Options that can be written as plain data; options read from that data are equal.

    The data holds the fields by name. A field that is None is left out; enums are written by name, paths as strings.
    Writing a value that is not data (an array, a logger, a function, a device, a pointer) raises an
    `UnsupportedError` that names the field.
    """

    __slots__ = ()

    def to_dict(self) -> dict[str, Any]:
        """The fields by name, as data for JSON or TOML."""
        data = {}
        for name, item in self._data_fields().items():
            value = getattr(self, name)
            if _left_out(value, item):
                continue
            subject = f"{type(self).__name__}.{name}"
            good = checked(value, _kind(item), subject)
            if good is None:
                raise UnsupportedError(f"{subject}: None is left out, and would come back as {item.default!r}")
            data[name] = _written(good)
        self._refuse_addresses()
        return data

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Self:
        """Options from their fields by name, with the same checks as when the options are used.

        Raises `UnknownNameError` for an unknown field, `DTypeError` and `ArgumentError` for a value that the field does
        not take, `UnsupportedError` for a field that cannot be given as data.
        """
        items = cls._data_fields()
        require_keys(data, items, cls.__name__)
        for name, item in items.items():
            if name not in data and item.default is MISSING and item.default_factory is MISSING:
                raise ArgumentError(f"{cls.__name__}: {name} is missing")
        options = cls(
            **{name: checked(value, _kind(items[name]), f"{cls.__name__}.{name}") for name, value in data.items()}
        )
        options._check()
        options._refuse_addresses()
        return options

    def _changes(self) -> dict[str, Any]:
        """`to_dict` without the fields that have their defaults."""
        kind: Any = type(self)
        default = kind().to_dict()
        return {name: value for name, value in self.to_dict().items() if default.get(name) != value}

    def to_json(self) -> str:
        """`to_dict` as JSON."""
        import json

        return json.dumps(self.to_dict(), indent=2)

    @classmethod
    def from_json(cls, document: str) -> Self:
        """`from_dict` of a JSON document; raises `ArgumentError` where it cannot be parsed."""
        import json

        return cls._parsed(document, json.loads, "JSON")

    def to_toml(self) -> str:
        """`to_dict` as TOML. Needs the tomli-w package (``zrt-onnx[toml]``)."""
        data = self.to_dict()
        try:
            import tomli_w
        except ImportError:
            raise installation.missing("tomli-w", "toml", "writing TOML") from None
        return tomli_w.dumps(data)

    @classmethod
    def from_toml(cls, document: str) -> Self:
        """`from_dict` of a TOML document; raises `ArgumentError` where it cannot be parsed."""
        import tomllib

        return cls._parsed(document, tomllib.loads, "TOML")

    @classmethod
    def _parsed(cls, document: Any, parse: Callable[[str], Any], form: str) -> Self:
        require_type(document, str, cls.__name__, "a document as a str")
        try:
            data = parse(document)
        except (ValueError, RecursionError) as error:
            raise ArgumentError(f"{cls.__name__}: this is not {form}: {error}") from None
        return cls.from_dict(data)

    @classmethod
    def _data_fields(cls) -> Mapping[str, Field[Any]]:
        """The fields by name, those of the constructor."""
        kind: Any = cls
        return {item.name: item for item in fields(kind) if item.init}

    def addresses(self) -> tuple[str, ...]:
        """The names of the fields that hold an address: a number that is valid in this process only."""
        return ()

    def _refuse_addresses(self) -> None:
        for name in self.addresses():
            raise UnsupportedError(f"{type(self).__name__}.{name}: an address is valid in this process only")

    def _check(self) -> None:
        """Raises the errors that using the options would raise."""


def require_keys(data: Any, known: Mapping[str, Any], subject: str) -> None:
    """Raises where `data` is not a mapping, or has a key that is not in `known`."""
    require_type(data, Mapping, subject, "fields by name")
    for key in data:
        if key not in known:
            import difflib

            near = difflib.get_close_matches(str(key), known, 1)
            hint = f"did you mean {near[0]!r}?" if near else f"there are {', '.join(known)}"
            raise UnknownNameError(f"{subject}: there is no field {key!r}; {hint}")


# The types of values that can be data.
_PLAIN = (bool, int, float, str, os.PathLike, Enum, Mapping, list, tuple, type(None))
# The types of the values that are taken for a kind, where they are not the kind itself.
_VALUES: dict[Any, Any] = {Literal: str, float: (int, float), **dict.fromkeys((Sequence, list, tuple), (list, tuple))}


def _kinds(kind: Any) -> tuple[Any, ...]:
    """The alternatives of a union, or the type alone."""
    union = get_origin(kind) in (Union, types.UnionType)
    return get_args(kind) if union else (kind,)


def _kind(item: Field[Any]) -> Any:
    return item.metadata.get("data", object)


def _left_out(value: Any, item: Field[Any]) -> bool:
    """Whether to write nothing: for None, and for the default of a field that cannot be data."""
    if value is None:
        return item.default is None
    if any(
        _is_data(kind) and all(any(map(_is_data, _kinds(of))) for of in get_args(kind)) for kind in _kinds(_kind(item))
    ):
        return False
    return value is item.default or (isinstance(value, (Mapping, list, tuple)) and not value)


def checked(value: Any, kind: Any, subject: str) -> Any:
    """The value converted for a field of that kind; raises an error that names the subject where it does not fit."""
    kinds = _kinds(kind)
    if value is None and type(None) in kinds:
        return None
    for one in kinds:
        if isinstance(one, type) and issubclass(one, Enum):
            choice: Any = one
            return choose(choice, value, subject)
    for one in kinds:
        if _fits(value, one):
            return _taken(value, one, subject)
    if not isinstance(value, _PLAIN):
        raise UnsupportedError(f"{subject}: {type(value).__name__} cannot be written as data")
    if not any(map(_is_data, kinds)):
        raise UnsupportedError(f"{subject}: it cannot be given as data")
    names = " or ".join(one.__name__ if isinstance(one, type) else str(one) for one in kinds if _is_data(one))
    raise wrong_type(subject, names, value)


def _plain_type(kind: Any) -> Any:
    """`kind` without its type arguments; `object` for a kind that is not a class."""
    origin = get_origin(kind) or kind
    return origin if isinstance(origin, type) or origin is Literal else object


def _is_data(kind: Any) -> bool:
    origin = _plain_type(kind)
    if origin is Literal or origin in (bool, int, float, str, os.PathLike):
        return True
    return issubclass(origin, (Enum, Mapping, Sequence)) and origin is not bytes


def _fits(value: Any, kind: Any) -> bool:
    """Whether the value is of that kind; the items of a list or a mapping are not checked."""
    origin = _plain_type(kind)
    if not _is_data(kind) or (isinstance(value, bool) and origin is not bool):
        return False
    return isinstance(value, _VALUES.get(origin, origin))


def _taken(value: Any, kind: Any, subject: str) -> Any:
    """The converted value, with its items checked."""
    origin, inner = _plain_type(kind), get_args(kind)
    if origin is Literal:
        if value not in inner:
            raise ArgumentError(f"{subject}: {value!r} is none of {', '.join(map(str, inner))}")
    elif origin is float:
        if not math.isfinite(value):
            raise ArgumentError(f"{subject}: {value} is not finite")
        return float(value)
    elif origin is os.PathLike:
        path = os.fsdecode(path_bytes(value, subject))
        text(path, subject)
        return path
    elif origin is str:
        text(value, subject)
    elif issubclass(origin, Mapping):
        of = inner[1] if inner else object
        return {text(key, subject).decode(): checked(item, of, f"{subject}[{key!r}]") for key, item in value.items()}
    elif issubclass(origin, Sequence):
        of = inner[0] if inner else object
        items = [checked(item, of, f"{subject}[{index}]") for index, item in enumerate(value)]
        return items if origin is list else tuple(items)
    return value


def _written(value: Any) -> Any:
    """A checked value in the types of JSON and TOML."""
    if isinstance(value, Enum):
        return value.name
    if isinstance(value, Mapping):
        return {key: _written(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_written(item) for item in value]
    return value
