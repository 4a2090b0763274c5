"""Arguments of the methods of this folder, taken as pybind11 takes them: a wrong one raises its `TypeError`."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from zrt._common.records import record
from zrt.onnxruntime import conversions


@record(frozen=True)
class Kind:
    """A type of argument: its name in messages, and a converter that raises `TypeError` for any other type."""

    text: str
    convert: Callable[[Any], Any]


def _integer(limits: tuple[int, int]) -> Kind:
    return Kind(
        "typing.SupportsInt | typing.SupportsIndex", lambda value: conversions.integer(value, "argument", limits)
    )


def instance(kind: type, name: str = "") -> Kind:
    """An argument that must be of this class already."""

    def convert(value: Any) -> Any:
        if not isinstance(value, kind):
            raise TypeError
        return value

    return Kind(name or kind.__name__, convert)


def sequence(element: Kind) -> Kind:
    """A sequence, converted to a list of `element`."""

    def convert(values: Any) -> list[Any]:
        if isinstance(values, (str, bytes)) or not hasattr(type(values), "__getitem__"):
            raise TypeError
        return [element.convert(value) for value in values]

    return Kind(f"collections.abc.Sequence[{element.text}]", convert)


def _text(value: Any) -> str:
    return conversions.string(value, "argument")


def _buffer(value: Any) -> bytes:
    return bytes(memoryview(value))


INT8 = _integer((-(2**7), 2**7 - 1))
INT16 = _integer((-(2**15), 2**15 - 1))
INT32 = _integer(conversions.INT32)
INT64 = _integer(conversions.INT64)
UINT32 = _integer(conversions.UINT32)
UINT64 = _integer(conversions.UINT64)
TEXT = Kind("str", _text)
PATH = Kind("os.PathLike | str | bytes", lambda value: _text(os.fspath(value)))
BUFFER = Kind("typing_extensions.Buffer", _buffer)
ANY = Kind("object", lambda value: value)
ARRAY = instance(np.ndarray, "numpy.ndarray")


def take(function: str, forms: Mapping[str, Sequence[Kind]], arguments: tuple[Any, ...]) -> tuple[str, list[Any]]:
    """The name of the first form that the arguments fit, and the arguments converted to it.

    Raises `TypeError`, which lists all forms, if they fit none.
    """
    for name, kinds in forms.items():
        if len(kinds) == len(arguments):
            try:
                return name, [kind.convert(value) for kind, value in zip(kinds, arguments, strict=True)]
            except (TypeError, ValueError, OverflowError):
                continue
    raise refused(function, forms.values(), arguments)


def refused(function: str, forms: Any, arguments: tuple[Any, ...]) -> TypeError:
    """The error for arguments that fit none of the forms."""
    role = "constructor" if function == "__init__" else "function"
    shown = "\n".join(
        f"    {number}. ({', '.join(f'arg{index}: {kind.text}' for index, kind in enumerate(kinds))})"
        for number, kinds in enumerate(forms, 1)
    )
    given = ", ".join(map(repr, arguments))
    return TypeError(
        f"{function}(): incompatible {role} arguments. The following argument types are supported:\n{shown}\n\n"
        f"Invoked with: {given}"
    )


def no_constructor(thing: object) -> TypeError:
    """The error of a class that only functions make objects of."""
    kind = type(thing)
    return TypeError(f"{kind.__module__}.{kind.__qualname__}: No constructor defined!")
