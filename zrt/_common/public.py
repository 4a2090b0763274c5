"""The decorator of public classes and functions: the module that they report, and reprs that never fail."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, NoReturn, TypeVar

from zrt.errors import ClosedError

Thing = TypeVar("Thing")
Kind = TypeVar("Kind", bound=type)


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
        except (AttributeError, ClosedError):
            return f"<{type(self).__name__}, not made>"

    return guarded


public = public_in("zrt")


def not_made(thing: object) -> ClosedError:
    """The error for an object whose constructor was not called or did not finish."""
    return ClosedError(f"this {type(thing).__name__} was not made: its constructor did not finish")


def guarded(kind: Kind) -> Kind:
    """Makes the slots and annotated attributes of a class raise `ClosedError` where its constructor did not set them.

    Until Python 3.12 this slows each look-up of an attribute down, so it is not for classes of hot paths.
    """
    if not hasattr(kind, "__getattr__"):
        kind.__getattr__ = _missing  # type: ignore[attr-defined]
    return kind


def _missing(self: object, name: str) -> NoReturn:
    """The ``__getattr__`` of guarded classes."""
    for base in type(self).__mro__:
        if name in vars(base).get("__slots__", ()) or name in getattr(base, "__annotations__", ()):
            raise not_made(self)
    raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}", name=name, obj=self)
