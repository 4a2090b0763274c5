"""Arguments as the official package converts them: a wrong type is a `TypeError` that names the argument."""

from __future__ import annotations

import operator
import os
from collections.abc import Callable, ItemsView, KeysView, Mapping, ValuesView
from types import GeneratorType
from typing import Any, TypeVar

from zrt._common.arguments import shown, wrong_type
from zrt.errors import DTypeError

Kind = TypeVar("Kind")

INT8 = (-(2**7), 2**7 - 1)
INT16 = (-(2**15), 2**15 - 1)
INT32 = (-(2**31), 2**31 - 1)
UINT32 = (0, 2**32 - 1)
INT64 = (-(2**63), 2**63 - 1)
UINT64 = (0, 2**64 - 1)


def integer(value: Any, subject: str, limits: tuple[int, int] = INT32) -> int:
    """A number within `limits`: an int, or an object that converts itself to one, but no float and no text."""
    number: int = value
    kind = type(value)
    if kind is not int:
        if issubclass(kind, (float, str, bytes, bytearray)) or not (
            hasattr(kind, "__index__") or hasattr(kind, "__int__")
        ):
            raise wrong_type(subject, "an int", value)
        try:
            number = operator.index(value)
        except TypeError:
            number = int(value)
    if not limits[0] <= number <= limits[1]:
        raise wrong_type(subject, f"an int between {limits[0]} and {limits[1]}", value)
    return number


def boolean(value: Any, subject: str) -> bool:
    """True or False: of a bool, of None, and of an object with a truth value of its own."""
    if value is None or hasattr(type(value), "__bool__"):
        return bool(value)
    raise wrong_type(subject, "True or False", value)


def string(value: Any, subject: str) -> str:
    """A text, which may be given as UTF-8 in bytes."""
    try:
        if isinstance(value, str):
            # One with half of a character cannot be passed on.
            return value.encode().decode()
        if isinstance(value, (bytes, bytearray)):
            return value.decode()
    except (UnicodeEncodeError, UnicodeDecodeError) as error:
        raise DTypeError(f"{subject}: {shown(value)} is no UTF-8: {error.reason}") from None
    raise wrong_type(subject, "a str", value)


def path(value: Any, subject: str) -> str:
    """A path as a text: a str, bytes, or an object with a path."""
    return string(os.fspath(value) if isinstance(value, os.PathLike) else value, subject)


def instance(value: Any, kind: type[Kind], subject: str) -> Kind:
    """An object of the class `kind`."""
    if not isinstance(value, kind):
        raise wrong_type(subject, f"an object of the class {kind.__name__}", value)
    return value


def function(value: Any, subject: str) -> Any:
    """A function, or None."""
    if value is not None and not callable(value):
        raise wrong_type(subject, "a function", value)
    return value


# Besides sequences, lists may be given as these.
_LISTED = (set, frozenset, GeneratorType, map, zip, KeysView, ValuesView, ItemsView)


def listed(values: Any) -> Any:
    """A list of a set, a view of a dict or of what can be read once; everything else as it is."""
    return list(values) if isinstance(values, _LISTED) else values


def elements(values: Any, subject: str, convert: Callable[[Any, str], Kind]) -> list[Kind]:
    """The elements of a sequence, each converted; a text is no sequence."""
    if not isinstance(values, (list, tuple)):
        values = listed(values)
        if isinstance(values, (str, bytes, Mapping)) or not hasattr(type(values), "__getitem__"):
            raise wrong_type(subject, "a sequence", values)
    subject = f"{subject}: an element"
    return [convert(value, subject) for value in values]


def strings(values: Any, subject: str) -> list[str]:
    """A sequence of texts."""
    return elements(values, subject, string)


def instances(values: Any, kind: type[Kind], subject: str) -> list[Kind]:
    """A sequence of objects of the class `kind`."""
    return elements(values, subject, lambda value, subject: instance(value, kind, subject))


def integers(values: Any, subject: str, limits: tuple[int, int] = INT64) -> list[int]:
    """A sequence of numbers within `limits`."""
    return elements(values, subject, lambda value, subject: integer(value, subject, limits))


def mapping(value: Any, subject: str) -> dict[str, Any]:
    """A mapping with texts as its keys, or an object with `items` and `[]` like a data frame."""
    if not (hasattr(type(value), "__getitem__") and hasattr(value, "items")):
        raise wrong_type(subject, "a mapping", value)
    return {string(key, f"{subject}: a key"): element for key, element in value.items()}


def texts(value: Any, subject: str) -> dict[str, str]:
    """A mapping from texts to texts."""
    return {key: string(text, f"{subject}[{key!r}]") for key, text in mapping(value, subject).items()}
