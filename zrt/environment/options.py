"""Options of ONNX Runtime as fields of dataclasses: the values that a field takes, and the way in which ORT gets them.

`flag`, `number`, `choice` and the other functions here make the fields of `SessionOptions`, `RunOptions`,
`ThreadingOptions` and the typed providers. Each takes the default, which is ORT's own (a field that has it is left to
ORT), and the way: the `function` of the C API that takes the value, or the `key` of ORT's that it is written under.
From the field follow the checks, the calls, the strings by keys, and the type in JSON and TOML (`OptionData`).
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import field, fields
from enum import Enum, IntEnum
from functools import cache
from typing import Any, NamedTuple, TypeAlias

from zrt._common.arguments import INT32_MAX, boolean, choose, integer, path_bytes, require_type, text, wrong_type
from zrt._common.public import public_in
from zrt._native import status
from zrt._native.handle import Handle
from zrt._native.library import api, load_api
from zrt.environment.cpu_budget import pool_threads
from zrt.environment.cpu_limits import machine_cpus
from zrt.environment.pool_options import MOST_THREADS
from zrt.errors import ArgumentError, OrtError

INT64_MAX = 2**63 - 1
UINT64_MAX = 2**64 - 1

ARENA_STRATEGIES = ("kNextPowerOfTwo", "kSameAsRequested")
"""The ways in which arenas grow, in the order of ORT's numbers."""

ADDRESS = "address"

# A group of processors: numbers, or a range.
_PROCESSORS = r"(?P<first>\d+)-(?P<last>\d+)|\d+(,\d+)*"

Call: TypeAlias = "tuple[str, str, tuple[Any, ...]]"
"""A call of a function of ``OrtApi``: its subject in messages, the function's name, and the arguments that follow the
options object."""


@public_in("zrt.typing")
class Route(Enum):
    """The place to which a provider's option is passed."""

    PROVIDER = "to the provider"
    SESSION = "to the session's config entries, where the provider reads it"
    DROPPED = "nowhere: ORT's C API reads it and drops it"


@public_in("zrt.typing")
class Option(NamedTuple):
    """The values that a field takes, and the way in which ORT gets them."""

    type: str
    """The type of its values, as the guide names it."""
    check: Callable[[Any, str], Any]
    """Converts a value to the bool, int or str for ORT; raises an error about the subject for a bad value."""
    written: Callable[[Any], str] = str
    """Writes a checked value under the key."""
    arguments: Callable[[Any], Iterable[tuple[Any, ...]]] = lambda value: [(value,)]
    """The arguments of the function for a checked value, one tuple for each call."""
    meaning: str = ""
    """Its effect in a few words, of a provider's option."""
    function: str = ""
    """The function of the C API that takes the value; empty where the value is written under a key."""
    always: bool = False
    """Whether ORT gets the default too."""
    key: str = ""
    """ORT's name of the option; empty where it is the field's name."""
    source: str = ""
    """The file of ORT's source that reads a provider's key; empty where it is that of the provider's other keys."""
    route: Route = Route.PROVIDER
    """The place to which a provider's option is passed."""

    @property
    def is_address(self) -> bool:
        """Whether it is a pointer, which is valid in this process only."""
        return self.type == ADDRESS

    def write(self, value: Any, subject: str) -> str:
        """The string for ORT of a value."""
        return _filled(self.written(self.check(value, subject)), subject)

    def calls(self, value: Any, name: str, add_entry: str) -> Iterable[Call]:
        """The calls that set the value of the field `name`; `add_entry` is the function that takes config entries."""
        checked = self.check(value, name)
        if self.function:
            return [(name, self.function, arguments) for arguments in self.arguments(checked)]
        entry = self.written(checked)
        return [(name, add_entry, (self.key.encode(), entry.encode()))] if entry else []


def option(
    type_name: str, data: Any, check: Callable[[Any, str], Any], meaning: str = "", default: Any = None, **where: Any
) -> Any:
    """A field; `data` is its type in `OptionData.to_dict`, without None, and `where` are other fields of `Option`."""
    metadata = {
        "data": data | None if default is None else data,
        "option": Option(type_name, check, meaning=meaning, **where),
    }
    if isinstance(default, dict):
        return field(default_factory=dict, metadata=metadata)
    return field(default=default, metadata=metadata)


def flag(meaning: str = "", *, words: tuple[str, str] = ("0", "1"), **where: Any) -> Any:
    """True or False; `words` are ORT's spellings of False and True under a key."""
    return option("bool", bool, boolean, meaning, written=lambda value: words[value], **where)


def switch(function: str, *, default: bool) -> Any:
    """True or False, for a function without arguments that changes the default."""
    return option("bool", bool, boolean, default=default, function=function, arguments=lambda value: [()])


def number(meaning: str = "", low: int = 0, high: int = INT32_MAX, *, type_name: str = "int", **where: Any) -> Any:
    """An int between `low` and `high`."""
    return option(type_name, int, lambda value, subject: integer(value, subject, low, high), meaning, **where)


def kept(type_name: str, data: Any, check: Callable[[Any, str], Any]) -> Any:
    """A field for zrt itself, which ORT does not get."""
    return option(type_name, data, check, written=lambda value: "")


def threads(function: str) -> Any:
    """The number of a pool's threads; 0: ORT's choice, or the CPUs that the process may use where those are fewer, or 1
    under a budget of CPUs."""

    def check(value: Any, subject: str) -> int:
        return integer(value, subject, 0, MOST_THREADS) or pool_threads()

    return option("int", int, check, default=0, function=function, always=True)


def size(meaning: str, **where: Any) -> Any:
    """A number of bytes."""
    return number(meaning, 0, UINT64_MAX, type_name="bytes", **where)


def string(meaning: str = "", **where: Any) -> Any:
    """A text."""
    return option("str", str, _text, meaning, arguments=lambda value: [(value.encode(),)], **where)


def path(meaning: str = "", **where: Any) -> Any:
    """A file or a folder."""

    def check(value: Any, subject: str) -> str:
        name = os.fsdecode(path_bytes(value, subject))
        return name if "function" in where else _text(name, subject)

    data = str | os.PathLike[str]
    return option("path", data, check, meaning, arguments=lambda value: [(os.fsencode(value),)], **where)


def choice(meaning: str, *values: str, **where: Any) -> Any:
    """One of ORT's names, given in any case."""
    names = {value.lower(): value for value in values}

    def check(value: Any, subject: str) -> str:
        require_type(value, str, subject, f"one of {', '.join(values)}")
        if value.lower() not in names:
            raise ArgumentError(f"{subject}: {value!r} is none of {', '.join(values)}")
        return names[value.lower()]

    return option(" or ".join(f'"{value}"' for value in values), str, check, meaning, **where)


def member(kind: type[IntEnum], **where: Any) -> Any:
    """A member of an enum: itself, its number, or its name in any case."""
    return option(kind.__name__, kind | str, lambda value, subject: int(choose(kind, value, subject)), **where)


def address(meaning: str, *, hexadecimal: bool = False, **where: Any) -> Any:
    """A pointer as an int; the caller keeps its target alive."""
    return number(meaning, 1, UINT64_MAX, type_name=ADDRESS, written=hex if hexadecimal else str, **where)


def listed(meaning: str, separator: str = ",", **where: Any) -> Any:
    """Several names: a list, or one text with ORT's separators."""

    def check(value: Any, subject: str) -> str:
        if isinstance(value, str):
            return _text(value, subject)
        if not isinstance(value, Sequence):
            raise wrong_type(subject, "a list of names", value)
        names = [_filled(_text(name, f"{subject}[{index}]"), subject) for index, name in enumerate(value)]
        return separator.join(names)

    return option("list of str", Sequence[str] | str, check, meaning, **where)


def document(meaning: str, **where: Any) -> Any:
    """A JSON document: its text, or a dict."""

    def check(value: Any, subject: str) -> str:
        if not isinstance(value, Mapping):
            return _text(value, subject)
        # Deferred: a first session imports no `json`, and few providers take a document.
        import json

        try:
            return json.dumps(value, allow_nan=False)
        except (TypeError, ValueError, RecursionError) as error:
            raise ArgumentError(f"{subject}: it cannot be written as JSON: {error}") from None

    return option("dict or JSON", Mapping[str, Any] | str, check, meaning, **where)


def sizes(function: str) -> Any:
    """A dict of sizes by name, with a call for each."""

    def check(value: Any, subject: str) -> list[tuple[bytes, int]]:
        require_type(value, Mapping, subject, "a dict of sizes")
        return [(text(key, subject), integer(dim, f"{subject}[{key!r}]", 0, INT64_MAX)) for key, dim in value.items()]

    return option("dict of int", Mapping[str, int], check, default={}, function=function, arguments=list)


def _text(value: Any, subject: str) -> str:
    return text(value, subject).decode()


def _filled(value: str, subject: str) -> str:
    if not value:
        raise ArgumentError(f"{subject}: it is empty, which ONNX Runtime refuses; leave it out")
    return value


@cache
def _options(kind: Any) -> list[tuple[str, Any, Option]]:
    """The options of a dataclass: the names of their fields, the defaults, and the options themselves."""
    return [(item.name, item.default, item.metadata["option"]) for item in fields(kind) if "option" in item.metadata]


def options_of(kind: Any) -> dict[str, Option]:
    """The options of a dataclass by the names of their fields."""
    return {name: way for name, _, way in _options(kind)}


def calls_of(options: Any, add_entry: str = "AddSessionConfigEntry") -> list[Call]:
    """The calls that set the fields of `options`."""
    calls: list[Call] = []
    kind: Any = type(options)
    for name, default, way in _options(kind):
        value = getattr(options, name)
        if way.always or value is not default:
            calls.extend(way.calls(value, name, add_entry))
    return calls


def apply(handle: Handle, calls: Iterable[Call], owner: str | None = None) -> None:
    """Makes the calls; with `owner`, the name of a class, an error names its field."""
    for subject, function, arguments in calls:
        setter = getattr(load_api(), function, None) or getattr(api(), function)
        try:
            status.check(setter(handle.pointer, *arguments))
        except OrtError as error:
            if owner is None:
                raise
            raise ArgumentError(f"{owner}.{subject}: {error}") from error


def require_affinities(value: str | None, subject: str, count: int) -> None:
    """Raises if the logical processors of a pool's threads are not as ORT takes them.

    ``"1,2;3-4"`` has a group for each of the `count` threads but the first, which is the caller's own. Processors count
    from 1.
    """
    if value is None:
        return
    if count < 2:
        raise ArgumentError(f"{subject}: {value!r} needs intra_op_num_threads of 2 or more, not {count}")
    groups = value.split(";")
    if len(groups) != count - 1:
        raise ArgumentError(
            f"{subject}: {value!r} has {len(groups)} groups, and {count} threads take {count - 1}: the first "
            "thread is the caller's own"
        )
    most = machine_cpus()
    for group in groups:
        match = re.fullmatch(_PROCESSORS, group, re.ASCII)
        if match is None:
            raise ArgumentError(f"{subject}: {group!r} is neither processors (1,2) nor a range of them (1-4)")
        # Without leading zeros, a number of ten digits or more is no processor's, and int() is slow on very long ones.
        numbers = [
            int(digits[-9:]) if len(digits.lstrip("0")) < 10 else most + 1 for digits in re.findall(r"\d+", group)
        ]
        if not all(1 <= number <= most for number in numbers):
            raise ArgumentError(f"{subject}: {group!r} names a processor that is not between 1 and {most}")
        if match["first"] is not None and numbers[0] > numbers[1]:
            raise ArgumentError(f"{subject}: {group!r} ends before it begins")
