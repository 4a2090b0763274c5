"""`OptionData`: options as plain data, JSON or TOML, and back."""

from __future__ import annotations

import inspect
import math
import os
import sys
import types
from collections import ChainMap
from collections.abc import Mapping, Sequence
from enum import Enum
from typing import Any, Literal, Self, Union, get_args, get_origin

from zrt._common.arguments import choose, path_bytes, text
from zrt.errors import ArgumentError, DTypeError, UnknownNameError, UnsupportedError


class OptionData:
    """Options that are plain data, and come back from it equal.

    What they are made from by name are the fields. One that is None is left out; enums go by name, paths as
    strings. What is no data (arrays, loggers, functions, devices, pointers) is an `UnsupportedError` that names the
    field.
    """

    __slots__ = ()

    def to_dict(self) -> dict[str, Any]:
        """The fields by name, as data for JSON or TOML."""
        data = {}
        for name, field in _fields(type(self)).items():
            value = getattr(self, name)
            if _left_out(value, field):
                continue
            subject = f"{type(self).__name__}.{name}"
            good = checked(value, field.annotation, subject)
            if good is None:
                raise UnsupportedError(f"{subject}: None is left out, and would come back as {field.default!r}")
            data[name] = _written(good)
        self._refuse_addresses()
        return data

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Self:
        """Options from their fields by name, which are checked as at use.

        Raises `UnknownNameError` for a key that is no field, `DTypeError` and `ArgumentError` for a value that the
        field does not take, `UnsupportedError` for a field that no data can give.
        """
        fields = _fields(cls)
        require_keys(data, fields, cls.__name__)
        for name, field in fields.items():
            if field.default is inspect.Parameter.empty and name not in data:
                raise ArgumentError(f"{cls.__name__}: {name} is missing")
        made = cls(
            **{name: checked(value, fields[name].annotation, f"{cls.__name__}.{name}") for name, value in data.items()}
        )
        made._check()
        made._refuse_addresses()
        return made

    def to_json(self) -> str:
        """`to_dict` as JSON."""
        import json

        return json.dumps(self.to_dict(), indent=2)

    @classmethod
    def from_json(cls, document: str) -> Self:
        """`from_dict` of JSON; an `ArgumentError` for what is none."""
        import json

        try:
            data = json.loads(_document(document, cls))
        except (ValueError, RecursionError) as error:
            raise ArgumentError(f"{cls.__name__}: this is not JSON: {error}") from None
        return cls.from_dict(data)

    def to_toml(self) -> str:
        """`to_dict` as TOML. Needs the tomli-w package (``zrt[toml]``)."""
        data = self.to_dict()
        try:
            import tomli_w
        except ImportError:
            raise UnsupportedError('writing TOML needs the tomli-w package: pip install "zrt[toml]"') from None
        return tomli_w.dumps(data)

    @classmethod
    def from_toml(cls, document: str) -> Self:
        """`from_dict` of TOML; an `ArgumentError` for what is none."""
        import tomllib

        try:
            data = tomllib.loads(_document(document, cls))
        except (ValueError, RecursionError) as error:
            raise ArgumentError(f"{cls.__name__}: this is not TOML: {error}") from None
        return cls.from_dict(data)

    def addresses(self) -> tuple[str, ...]:
        """The fields that are set and point into this process: numbers, but no data."""
        return ()

    def _refuse_addresses(self) -> None:
        for name in self.addresses():
            raise UnsupportedError(f"{type(self).__name__}.{name}: an address means something in this process alone")

    def _check(self) -> None:
        """Refuses what use would refuse."""


class _UnseenMeta(type):
    def __getattr__(cls, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return cls


class _Unseen(metaclass=_UnseenMeta):
    """Stands for a type, or a module of types, that only type checkers look up."""

    def __class_getitem__(cls, _: Any) -> Any:
        return cls


class _Names(ChainMap[str, Any]):
    """The names that annotations may use."""

    def __missing__(self, name: str) -> Any:
        return _Unseen


def _fields(kind: type) -> dict[str, inspect.Parameter]:
    """What `kind` is made from, by name, with the types themselves for annotations."""
    modules = [vars(sys.modules[base.__module__]) for base in kind.__mro__]
    # A public class reports another module than the one that defines it, and that its methods know.
    functions = [value for base in kind.__mro__ for value in vars(base).values() if inspect.isfunction(value)]
    names = _Names(*(function.__globals__ for function in functions), *modules)
    fields = {}
    for name, parameter in inspect.signature(kind).parameters.items():
        annotation = parameter.annotation
        while isinstance(annotation, str):
            annotation = eval(annotation, {}, names)
        fields[name] = parameter.replace(annotation=annotation)
    return fields


def require_keys(data: Any, known: Mapping[str, Any], subject: str) -> None:
    """Refuses what is no mapping, and a key that is not among the known ones."""
    if not isinstance(data, Mapping):
        raise DTypeError(f"{subject}: expected fields by name, got {type(data).__name__}")
    for key in data:
        if key not in known:
            import difflib

            near = difflib.get_close_matches(str(key), known, 1)
            hint = f"did you mean {near[0]!r}?" if near else f"there are {', '.join(known)}"
            raise UnknownNameError(f"{subject}: there is no field {key!r}; {hint}")


def _document(document: Any, kind: type) -> str:
    if not isinstance(document, str):
        raise DTypeError(f"{kind.__name__}: expected a document as a str, got {type(document).__name__}")
    return document


# What data can be.
_PLAIN = (bool, int, float, str, os.PathLike, Enum, Mapping, list, tuple, type(None))


def _kinds(annotation: Any) -> tuple[Any, ...]:
    """The alternatives of a union, or the type alone."""
    union = get_origin(annotation) in (Union, types.UnionType)
    return get_args(annotation) if union else (annotation,)


def _left_out(value: Any, field: inspect.Parameter) -> bool:
    """Whether nothing is to be written: None, or what a field that takes no data holds of itself."""
    if value is None:
        return field.default is None
    if any(
        _is_data(kind) and all(any(map(_is_data, _kinds(of))) for of in get_args(kind))
        for kind in _kinds(field.annotation)
    ):
        return False
    return value is field.default or (isinstance(value, (Mapping, list, tuple)) and not value)


def checked(value: Any, annotation: Any, subject: str) -> Any:
    """The value as a field of that type holds it; what is no data, or of another type, is refused by its subject."""
    kinds = _kinds(annotation)
    if value is None and type(None) in kinds:
        return None
    for kind in kinds:
        if isinstance(kind, type) and issubclass(kind, Enum):
            choice: Any = kind
            return choose(choice, value, subject)
    for kind in kinds:
        if _fits(value, kind):
            return _taken(value, kind, subject)
    if not isinstance(value, _PLAIN):
        raise UnsupportedError(f"{subject}: {type(value).__name__} cannot be written as data")
    if not any(map(_is_data, kinds)):
        raise UnsupportedError(f"{subject}: it cannot be given as data")
    names = " or ".join(kind.__name__ if isinstance(kind, type) else str(kind) for kind in kinds if _is_data(kind))
    raise DTypeError(f"{subject}: expected {names}, got {type(value).__name__} {value!r}")


def _plain_type(kind: Any) -> Any:
    """`kind` without its arguments."""
    origin = get_origin(kind) or kind
    return origin if isinstance(origin, type) or origin is Literal else object


def _is_data(kind: Any) -> bool:
    origin = _plain_type(kind)
    if origin is Literal or origin in (bool, int, float, str, os.PathLike):
        return True
    return issubclass(origin, (Enum, Mapping, Sequence)) and origin is not bytes


def _fits(value: Any, kind: Any) -> bool:
    """Whether the value is of that kind, looking no deeper."""
    origin = _plain_type(kind)
    if not _is_data(kind):
        return False
    if origin is Literal:
        return isinstance(value, str)
    if origin is float:
        return isinstance(value, (int, float)) and not isinstance(value, bool)
    if issubclass(origin, Sequence) and origin is not str:
        return isinstance(value, (list, tuple))
    if issubclass(origin, Mapping):
        return isinstance(value, Mapping)
    return isinstance(value, origin) and (origin is bool or not isinstance(value, bool))


def _taken(value: Any, kind: Any, subject: str) -> Any:
    """A value of that kind, all of it checked."""
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
    """A checked value as JSON and TOML have it."""
    if isinstance(value, Enum):
        return value.name
    if isinstance(value, Mapping):
        return {key: _written(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_written(item) for item in value]
    return value
