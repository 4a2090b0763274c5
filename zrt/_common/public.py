"""The decorator of public classes and functions: the module that they report, and reprs that never fail."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, TypeVar

Thing = TypeVar("Thing")


def public_in(module: str) -> Callable[[Thing], Thing]:
    """Sets ``__module__``, so that reprs, pickles and pages show the public name.

    The repr of an object whose constructor raised says so: tracebacks that show values would otherwise fail on the
    attributes that the object does not have.

    It is the outermost decorator: a dataclass looks up its annotations in the module that defines it.
    """

    def mark(thing: Thing) -> Thing:
        thing.__module__ = module
        if isinstance(thing, type):
            for name in ("__repr__", "__str__"):
                if name in vars(thing):
                    setattr(thing, name, _of_any(vars(thing)[name]))
        return thing

    return mark


def _of_any(text: Callable[[Any], str]) -> Callable[[Any], str]:
    """A ``__repr__`` that also takes an object without attributes."""

    @wraps(text)
    def guarded(self: Any) -> str:
        try:
            return text(self)
        except AttributeError:
            return f"<{type(self).__name__}, not made>"

    return guarded


public = public_in("zrt")
