"""Arguments as the official package's binding (pybind11) converts them: a wrong type is a `TypeError`."""

from __future__ import annotations

import operator
from collections.abc import Mapping
from typing import Any, TypeVar

from zrt._common.arguments import wrong_type

Kind = TypeVar("Kind")

INT32 = (-(2**31), 2**31 - 1)
UINT32 = (0, 2**32 - 1)
INT64 = (-(2**63), 2**63 - 1)
UINT64 = (0, 2**64 - 1)


def integer(value: Any, subject: str, limits: tuple[int, int] = INT32) -> int:
    """A number within `limits`: an int, or what converts itself to one, but for floats and texts."""
    kind = type(value)
    if issubclass(kind, (float, str, bytes, bytearray)) or not (hasattr(kind, "__index__") or hasattr(kind, "__int__")):
        raise wrong_type(subject, "an int", value)
    try:
        number = operator.index(value)
    except TypeError:
        number = int(value)
    if not limits[0] <= number <= limits[1]:
        raise wrong_type(subject, f"an int between {limits[0]} and {limits[1]}", value)
    return number


def boolean(value: Any, subject: str) -> bool:
    """True or False: of a bool, of None, and of what has a truth value of its own."""
    if value is None or hasattr(type(value), "__bool__"):
        return bool(value)
    raise wrong_type(subject, "True or False", value)


def string(value: Any, subject: str) -> str:
    """A text, which may be given as UTF-8 in bytes."""
    if isinstance(value, str):
        return str(value)
    if isinstance(value, (bytes, bytearray)):
        return value.decode()
    raise wrong_type(subject, "a str", value)


def instance(value: Any, kind: type[Kind], subject: str) -> Kind:
    """An object of the class `kind`."""
    if not isinstance(value, kind):
        raise wrong_type(subject, f"an object of the class {kind.__name__}", value)
    return value


def strings(value: Any, subject: str) -> dict[str, str]:
    """A mapping from texts to texts."""
    if not isinstance(value, Mapping):
        raise wrong_type(subject, "a mapping of strings", value)
    return {string(key, f"{subject}: a key"): string(text, f"{subject}[{key!r}]") for key, text in value.items()}
