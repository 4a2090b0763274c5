"""The ways in which ONNX Runtime takes a provider into session options: by keys, through an object, by a function."""

from __future__ import annotations

import ctypes
import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, NamedTuple, Protocol

from zrt._native import status
from zrt._native.cdata import address_of, pointer_to, strings
from zrt._native.handle import Handle
from zrt._native.library import api, library
from zrt.errors import ArgumentError, ProviderError
from zrt.memory.allocators import default_allocator, take_string

STREAM = "user_compute_stream"

_FLAGS = {"0": False, "1": True, "false": False, "true": True}


class Attach(Protocol):
    """Adds the provider of that name, with its settings, to session options."""

    def __call__(self, options: Handle, name: str, settings: Mapping[str, str]) -> None: ...


def as_arrays(settings: Mapping[str, str]) -> tuple[Any, Any, int]:
    """Keys and values as C arrays, and their count."""
    return strings(settings), strings(settings.values()), len(settings)


def to_pointer(key: str, written: str) -> Any:
    """The pointer that a setting gives in decimal or hexadecimal."""
    try:
        return pointer_to(int(written, 0))
    except ValueError:
        raise ArgumentError(f"{key}: {written!r} is no address") from None


def by_keys(options: Handle, name: str, settings: Mapping[str, str]) -> None:
    """By name and strings: the way of most providers."""
    # By the full name: ORT's own short names follow no rule.
    status.check(api().SessionOptionsAppendExecutionProvider(options.pointer, name.encode(), *as_arrays(settings)))


class ThroughObject(NamedTuple):
    """Through an object that holds the options: made, filled, handed over, released.

    `label` is the name in its functions, `kind` its type, `append` the function that takes it; with `stream` it takes
    the caller's stream as a pointer.
    """

    label: str
    kind: str
    append: str
    stream: bool = False

    def __call__(self, options: Handle, name: str, settings: Mapping[str, str]) -> None:
        provider_options = self.make(settings)
        status.check(getattr(api(), self.append)(options.pointer, provider_options.pointer))

    def make(self, settings: Mapping[str, str]) -> Handle:
        """The object with these settings."""
        handle = Handle.make(self._function("Release{}"), [], self._function("Create{}"), self.kind)
        plain = {key: value for key, value in settings.items() if not (self.stream and key == STREAM)}
        if plain:
            status.check(self._function("Update{}")(handle.pointer, *as_arrays(plain)))
        if len(plain) < len(settings):
            # After the other settings: an update by strings resets the stream.
            pointer = to_pointer(STREAM, settings[STREAM])
            status.check(self._function("Update{}WithValue")(handle.pointer, STREAM.encode(), pointer))
        return handle

    def read(self, settings: Mapping[str, str]) -> dict[str, str]:
        """All values that ORT reports for an object with these settings."""
        handle = self.make(settings)
        allocator = default_allocator()
        text = take_string(allocator, status.make(self._function("Get{}AsString"), "char", handle.pointer, allocator))
        # Values may have semicolons too: TensorRT's lists of libraries.
        values = dict(re.findall(r"(\w+)=(.*?)(?=;\w+=|;?$)", text, re.DOTALL))
        if self.stream:
            pointer = status.make(self._function("Get{}ByName"), "void", handle.pointer, STREAM.encode())
            values[STREAM] = str(address_of(pointer))
        return values

    def _function(self, form: str) -> Any:
        return getattr(api(), form.format(f"{self.label}ProviderOptions"))


class ByFunction(NamedTuple):
    """By a function that the library exports beside its table.

    The function takes the session options, and with a `kind` one argument of that C type: the sum of the `bits` whose
    keys are set.
    """

    symbol: str
    kind: Any = None
    bits: Mapping[str, int] = MappingProxyType({})

    def arguments(self, settings: Mapping[str, str]) -> list[Any]:
        """The arguments that follow the session options."""
        total = 0
        for key, word in settings.items():
            if key not in self.bits:
                raise ProviderError(f"it has no option {key!r}")
            if word.lower() not in _FLAGS:
                raise ArgumentError(f"{key}: {word!r} is none of {', '.join(_FLAGS)}")
            total += self.bits[key] * _FLAGS[word.lower()]
        return [] if self.kind is None else [self.kind(total)]

    def __call__(self, options: Handle, name: str, settings: Mapping[str, str]) -> None:
        arguments = self.arguments(settings)
        path = library().path
        # A library that is linked in has no path and exports nothing.
        function = path and getattr(ctypes.CDLL(path), self.symbol, None)
        if not function:
            raise ProviderError(f"this library exports no {self.symbol}, which adds it")
        function.restype = ctypes.c_void_p
        pointer = ctypes.c_void_p(address_of(options.pointer))
        refused = function(pointer, *arguments)
        if refused:
            raise status.to_error(refused)
