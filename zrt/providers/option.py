"""One option of a provider: its meaning, the check of its value, and the string that ORT gets.

`flag`, `number`, `choice` and the other functions here make the fields of the typed providers. Each takes the option's
meaning, and these keywords: `key`, ORT's name where it differs from the field's; `source`, the file of ORT's source
where it is not that of the provider's other keys; `route`.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from enum import Enum
from typing import Any

from zrt._common.arguments import INT32_MAX, boolean, integer, path_bytes, text, wrong_type
from zrt._common.records import field, record
from zrt.errors import ArgumentError

UINT64_MAX = 2**64 - 1

ARENA_STRATEGIES = ("kNextPowerOfTwo", "kSameAsRequested")
"""The ways in which arenas grow, in the order of ORT's numbers."""


class Route(Enum):
    """The place to which an option is passed."""

    PROVIDER = "to the provider"
    SESSION = "to the session's config entries, where the provider reads it"
    DROPPED = "nowhere: ORT's C API reads it and drops it"


@record(frozen=True)
class Option:
    """The option of a field of a typed provider."""

    meaning: str
    """Its effect in a few words."""
    type: str
    """The type of its value, as the guide names it."""
    write: Callable[[Any, str], str]
    """Makes ORT's string of a value; raises an error about the subject for a bad value."""
    key: str = ""
    """ORT's name of the option; empty where it is the field's name."""
    source: str = ""
    """The file of ORT's source that reads the key; empty where it is that of the provider's other keys."""
    route: Route = Route.PROVIDER
    """The place to which it is passed."""

    @property
    def is_address(self) -> bool:
        """Whether it is a pointer, which is valid in this process only."""
        return self.type == ADDRESS


ADDRESS = "address"


def flag(meaning: str, *, words: tuple[str, str] = ("0", "1"), **where: Any) -> Any:
    """True or False; `words` are the provider's spellings of False and True."""
    return _made(meaning, "bool", bool, lambda value, subject: words[boolean(value, subject)], where)


def number(meaning: str, low: int = 0, high: int = INT32_MAX, *, default: int | None = None, **where: Any) -> Any:
    """An int between `low` and `high`."""
    return _made(meaning, "int", int, lambda value, subject: str(integer(value, subject, low, high)), where, default)


def size(meaning: str, **where: Any) -> Any:
    """A number of bytes."""
    return _made(meaning, "bytes", int, lambda value, subject: str(integer(value, subject, 0, UINT64_MAX)), where)


def string(meaning: str, **where: Any) -> Any:
    """A text."""
    return _made(meaning, "str", str, _string, where)


def path(meaning: str, **where: Any) -> Any:
    """A file or a folder."""

    def write(value: Any, subject: str) -> str:
        return _string(os.fsdecode(path_bytes(value, subject)), subject)

    return _made(meaning, "path", str | os.PathLike[str], write, where)


def choice(meaning: str, *values: str, **where: Any) -> Any:
    """One of ORT's names, given in any case."""
    names = {value.lower(): value for value in values}

    def write(value: Any, subject: str) -> str:
        if not isinstance(value, str):
            raise wrong_type(subject, f"one of {', '.join(values)}", value)
        if value.lower() not in names:
            raise ArgumentError(f"{subject}: {value!r} is none of {', '.join(values)}")
        return names[value.lower()]

    return _made(meaning, " or ".join(f'"{value}"' for value in values), str, write, where)


def address(meaning: str, *, hexadecimal: bool = False, **where: Any) -> Any:
    """A pointer as an int; the caller keeps its target alive."""

    def write(value: Any, subject: str) -> str:
        pointer = integer(value, subject, 1, UINT64_MAX)
        return hex(pointer) if hexadecimal else str(pointer)

    return _made(meaning, ADDRESS, int, write, where)


def listed(meaning: str, separator: str = ",", **where: Any) -> Any:
    """Several names: a list, or one text with ORT's separators."""

    def write(value: Any, subject: str) -> str:
        if isinstance(value, str):
            return _string(value, subject)
        if not isinstance(value, Sequence):
            raise wrong_type(subject, "a list of names", value)
        names = [_string(name, f"{subject}[{index}]") for index, name in enumerate(value)]
        return _string(separator.join(names), subject)

    return _made(meaning, "list of str", Sequence[str] | str, write, where)


def document(meaning: str, **where: Any) -> Any:
    """A JSON document: its text, or a dict."""

    def write(value: Any, subject: str) -> str:
        if not isinstance(value, Mapping):
            return _string(value, subject)
        # Deferred: few providers take a document.
        import json

        try:
            return json.dumps(value)
        except (TypeError, ValueError) as error:
            raise ArgumentError(f"{subject}: it cannot be written as JSON: {error}") from None

    return _made(meaning, "dict or JSON", Mapping[str, Any] | str, write, where)


def _string(value: Any, subject: str) -> str:
    written = text(value, subject).decode()
    if not written:
        raise ArgumentError(f"{subject}: it is empty, which ONNX Runtime refuses; leave it out")
    return written


def _made(
    meaning: str,
    kind: str,
    data: Any,
    write: Callable[[Any, str], str],
    where: dict[str, Any],
    default: Any = None,
) -> Any:
    metadata = {"option": Option(meaning, kind, write, **where), "data": data | None if default is None else data}
    return field(default=default, metadata=metadata)
