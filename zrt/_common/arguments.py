"""Checks plain arguments and converts them to the form that C takes."""

from __future__ import annotations

import math
import operator
import os
import re
import reprlib
import threading
from collections.abc import Iterable, Mapping, Sequence
from enum import IntEnum
from typing import Any, TypeVar

from zrt.errors import ArgumentError, DTypeError

Choice = TypeVar("Choice", bound=IntEnum)

INT32_MAX = 2**31 - 1
FLOAT32_MAX = (2 - 2**-23) * 2.0**127

# The most characters that an error message shows of one object.
LONGEST = 80


class _Short(reprlib.Repr):
    """Short reprs: of containers the first elements, of arrays at any depth only the type and the shape."""

    def repr1(self, thing: Any, level: int) -> str:
        kind = type(thing)
        if hasattr(kind, "__array__") and getattr(thing, "shape", None) != ():
            return f"{kind.__name__} of shape {getattr(thing, 'shape', '?')}"
        if kind in (list, tuple, dict, set, frozenset):
            return super().repr1(thing, level)
        if kind in (str, bytes, bytearray):
            thing = thing[:LONGEST]
        return f"{thing!r:.{LONGEST}}"


_short = _Short()


def shown(thing: object) -> str:
    """An object for an error message: its repr, shortened and without arrays, or its type if its repr raises."""
    try:
        return _short.repr(thing)[:LONGEST]
    except Exception:
        return f"an object of type {type(thing).__name__}"


def wrong_type(subject: str, wanted: str, value: object) -> DTypeError:
    """The error for an argument of a wrong type; arrays and mappings, which may be large, are not shown."""
    kind = type(value)
    # Another package may have a class of this name.
    came = kind.__name__ if kind.__name__ != wanted else f"{kind.__module__}.{kind.__name__}"
    if not hasattr(kind, "__array__") and not isinstance(value, Mapping):
        came = f"{came} {shown(value)}"
    return DTypeError(f"{subject}: expected {wanted}, got {came}")


def require_type(value: object, kind: Any, subject: str, wanted: str) -> None:
    """Raises for a value of another type; a text alone is no sequence."""
    if not isinstance(value, kind) or (kind in (Sequence, Iterable) and isinstance(value, (str, bytes))):
        raise wrong_type(subject, wanted, value)


def choose(kind: type[Choice], value: Any, subject: str) -> Choice:
    """A member of `kind` from itself, its number or its name in any case."""
    try:
        if isinstance(value, str):
            return kind[value.upper()]
        if isinstance(value, bool):
            raise ValueError
        return kind(value)
    except (KeyError, ValueError, TypeError):
        names = ", ".join(member.name for member in kind)
        raise ArgumentError(f"{subject}: {shown(value)} is none of {names}") from None


def integer(value: Any, subject: str, low: int = 0, high: int = INT32_MAX) -> int:
    """An int between `low` and `high`, which is never a bool."""
    if isinstance(value, bool) or not issubclass(type(value), int):
        raise wrong_type(subject, "an int", value)
    # A subclass may override comparison: check the number that C reads.
    number = operator.index(value)
    if not low <= number <= high:
        raise ArgumentError(f"{subject}: {shown(number)} is not between {low} and {high}")
    return number


def as_float32(value: Any) -> float:
    """A number that a float32 can hold; infinity can be held."""
    try:
        number = float(value)
    except OverflowError:
        number = None
    # A long double may be larger than any float, and equals no infinity then.
    if number is None or (abs(number) > FLOAT32_MAX and not (math.isinf(number) and number == value)):
        raise ArgumentError(f"{shown(value)} is larger than any float32")
    return number


def seconds(value: Any, subject: str, low: float = 0) -> float:
    """A duration in seconds, at least `low`."""
    kind = type(value)
    if kind is bool or not issubclass(kind, (int, float)):
        raise wrong_type(subject, "seconds", value)
    # A subclass may override everything but these: they return the number in its memory.
    number = operator.index(value) if issubclass(kind, int) else float.__float__(value)
    if not low <= number <= threading.TIMEOUT_MAX:
        raise ArgumentError(f"{subject}: {shown(number)} seconds cannot be waited for")
    return float(number)


def duration(value: Any, subject: str) -> float:
    """A duration in seconds, above 0."""
    number = seconds(value, subject)
    if not number:
        raise ArgumentError(f"{subject}: 0 seconds are too short")
    return number


def byte_count(value: Any, subject: str) -> int:
    """A number of bytes, at least 1: an int, or a text such as "512MiB" (512 * 1024²), "1.5 GB" or "4096"."""
    if not isinstance(value, str):
        return integer(value, subject, 1, 2**62)
    match = re.fullmatch(r" *(\d{1,18})(?:\.(\d{1,18}))? *(?:([KMGT])(i?)B|B)? *", value, re.ASCII | re.IGNORECASE)
    if match is None:
        raise ArgumentError(f"{subject}: expected bytes such as 512MiB, 2GB or 4096, got {shown(value)}")
    decimals = match[2] or ""
    unit = (1024 if match[4] else 1000) ** (" KMGT".index(match[3].upper()) if match[3] else 0)
    return integer(int(match[1] + decimals) * unit // 10 ** len(decimals), subject, 1, 2**62)


def memory_bounds(value: Any, subject: str) -> str:
    """Checks a value of `memory`."""
    require_type(value, str, subject, '"bounded"')
    if value != "bounded":
        raise ArgumentError(f'{subject}: {value!r} is not "bounded"')
    return "bounded"


def boolean(value: Any, subject: str) -> bool:
    """True or False; numbers and other objects are refused."""
    if not isinstance(value, bool):
        raise wrong_type(subject, "True or False", value)
    return value


def text(value: Any, subject: str) -> bytes:
    """A string as UTF-8, without NUL."""
    if not issubclass(type(value), str):
        raise wrong_type(subject, "a str", value)
    try:
        # A subclass may override `encode`.
        encoded = str.encode(value)
    except UnicodeEncodeError:
        raise ArgumentError(f"{subject}: {shown(value)} cannot be written as UTF-8") from None
    if b"\0" in encoded:
        raise ArgumentError(f"{subject}: {shown(value)} holds a NUL character")
    return encoded


def texts(value: Any, subject: str, wanted: str = "a list of names", kind: Any = Sequence) -> list[str]:
    """Several strings without NUL, which `value` of this `kind` holds; one string alone is refused."""
    require_type(value, kind, subject, wanted)
    return [text(each, subject).decode() for each in value]


def path_bytes(value: Any, subject: str) -> bytes:
    """A path in the encoding of the system, without NUL."""
    try:
        path = os.fsencode(value)
    except TypeError:
        raise wrong_type(subject, "a path", value) from None
    except UnicodeEncodeError:
        raise ArgumentError(f"{subject}: {shown(value)} cannot be written in the system's encoding") from None
    if b"\0" in path:
        raise ArgumentError(f"{subject}: {shown(value)} holds a NUL character")
    return path


def absolute(path: str) -> str:
    """The absolute path: that of `os.path.abspath`, but ``..`` behind a link leads where it leads the system."""
    parts = path.split(os.sep)
    if os.pardir in parts:
        end = len(parts) - parts[::-1].index(os.pardir)
        path = os.path.join(os.path.realpath(os.sep.join(parts[:end])), *parts[end:])
    return os.path.abspath(path)


def paths(value: Any, subject: str) -> list[bytes]:
    """Several paths in the encoding of the system; one path alone is refused."""
    require_type(value, Sequence, subject, "a list of paths")
    return [path_bytes(each, subject) for each in value]


def require_folder(path: bytes, subject: str) -> None:
    """Raises if the folder of a path to write does not exist: ORT would silently write nothing."""
    folder = os.path.dirname(path) or b"."
    if not os.path.isdir(folder):
        raise ArgumentError(f"{subject}: there is no folder {os.fsdecode(folder)!r}")


def entries(value: Any, subject: str) -> list[tuple[bytes, bytes]]:
    """The entries of a mapping of strings to strings, as UTF-8."""
    require_type(value, Mapping, subject, "a dict of strings")
    return [(text(key, subject), text(entry, f"{subject}[{key!r}]")) for key, entry in value.items()]
