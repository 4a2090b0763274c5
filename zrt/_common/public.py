"""The module that public classes and functions report: the one from which users import them."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

Thing = TypeVar("Thing")


def public_in(module: str) -> Callable[[Thing], Thing]:
    """Sets ``__module__``, so that reprs, pickles and pages show the public name.

    It is the outermost decorator: a dataclass looks up its annotations in the module that defines it.
    """

    def mark(thing: Thing) -> Thing:
        thing.__module__ = module
        return thing

    return mark


public = public_in("zrt")
