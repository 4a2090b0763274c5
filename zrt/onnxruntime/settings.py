"""Parts of `SessionOptions` and `RunOptions`: properties that convert their values, and config entries."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NoReturn

from zrt.onnxruntime import conversions
from zrt.types import LogSeverity

LONGEST_KEY = 1024
LONGEST_VALUE = 8192


class Setting:
    """A property of options: its default value, and the converter of the values that it is given.

    A converter that returns None leaves the setting as it is.
    """

    def __init__(self, default: Any, convert: Callable[[Any, str], Any], doc: str) -> None:
        self.default = default
        self.convert = convert
        self.__doc__ = doc

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = name

    def __get__(self, options: Any, owner: type) -> Any:
        return self if options is None else options._values.get(self.name, self.default)

    def __set__(self, options: Any, value: Any) -> None:
        converted = self.convert(value, f"{type(options).__name__}.{self.name}")
        if converted is not None:
            options._values[self.name] = converted
            options._changed()


def member(kind: type) -> Callable[[Any, str], Any]:
    """The converter for members of an enumeration."""
    return lambda value, subject: conversions.instance(value, kind, subject)


class Settings:
    """The base of `SessionOptions` and `RunOptions`: settings, config entries, and zrt's options made of them."""

    __slots__ = ("__weakref__", "_entries", "_made", "_state", "_values")

    def __init__(self) -> None:
        self._values: dict[str, Any] = {}
        self._entries: dict[str, str] = {}
        self._changed()
        # The state, and the options of zrt that were made of it.
        self._made: tuple[object, Any] = (None, None)

    def _changed(self) -> None:
        """Begin a new state, after a change: what is made of the one before is of no use any more."""
        self._state = object()

    def _to_zrt(self) -> Any:
        """The same as zrt's options; the same object while nothing changes."""
        # Read before the settings are: a change that comes while they are read leaves this state behind.
        state = self._state
        made = self._made
        if made[0] is not state:
            made = self._made = (state, self._make())
        return made[1]

    def _make(self) -> Any:
        raise NotImplementedError

    def __reduce_ex__(self, protocol: object) -> NoReturn:
        raise TypeError(f"cannot pickle {type(self).__name__!r} object")

    def _add_entry(self, key: Any, value: Any) -> None:
        subject = f"{type(self).__name__}: a config entry"
        name, text = conversions.string(key, subject), conversions.string(value, subject)
        if not 0 < len(name.encode()) <= LONGEST_KEY:
            raise RuntimeError(f"Config key is empty or longer than maximum length {LONGEST_KEY}")
        if len(text.encode()) > LONGEST_VALUE:
            raise RuntimeError(f"Config value is longer than maximum length: {LONGEST_VALUE}")
        self._entries[name] = text
        self._changed()

    def _entry(self, key: Any) -> str:
        name = conversions.string(key, f"{type(self).__name__}: a config key")
        if name not in self._entries:
            raise RuntimeError(f"{type(self).__name__} does not have configuration with key: {name}")
        return self._entries[name]

    def _severity(self) -> LogSeverity | None:
        """The log severity, None where it is left to ONNX Runtime; raises `ValueError` for a number that is none."""
        severity = self._values.get("log_severity_level", -1)
        if not -1 <= severity <= 4:
            raise ValueError(f"Not a valid onnxruntime::logging::Severity value: {severity}")
        return None if severity == -1 else LogSeverity(severity)
