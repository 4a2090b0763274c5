"""The bases of objects that stand for one thing in ONNX Runtime."""

from __future__ import annotations

from collections.abc import Callable
from operator import attrgetter
from typing import Any, Self, TypeVar
from weakref import WeakValueDictionary

Kind = TypeVar("Kind")


def itself(thing: Kind) -> Kind:
    """The object: for the names that lead to a layer below in the official package, and for copies that are shared."""
    return thing


class NotPickled:
    """Base of objects of which there is no pickle and no deep copy."""

    __slots__ = ("__weakref__",)

    def __reduce_ex__(self, protocol: object) -> Any:
        raise TypeError(f"cannot pickle {type(self).__name__!r} object")


class Wrapper(NotPickled):
    """Base of objects that functions of this package alone make, each over one object of zrt's."""

    __slots__ = ("_wrapped",)

    _wrapped: Any

    def __init__(self) -> None:
        raise TypeError(f"{type(self).__name__}: No constructor defined!")

    @classmethod
    def _of(cls, wrapped: Any) -> Self:
        wrapper = cls.__new__(cls)
        wrapper._wrapped = wrapped
        return wrapper

    def _to_zrt(self) -> Any:
        return self._wrapped


_unique: WeakValueDictionary[Any, Any] = WeakValueDictionary()


class Unique(Wrapper):
    """Base of wrappers of which there is one for each wrapped object, such as a device, so that they compare equal."""

    @classmethod
    def _of(cls, wrapped: Any) -> Self:
        wrapper: Self | None = _unique.get((cls, wrapped))
        if wrapper is None:
            wrapper = _unique.setdefault((cls, wrapped), super()._of(wrapped))
        return wrapper


def attribute(path: str, doc: str, convert: Callable[[Any], Any] = lambda value: value) -> Any:
    """A property of a `Wrapper`: the attribute with this path of the object of zrt's, converted."""
    read = attrgetter(f"_wrapped.{path}")
    return property(lambda self: convert(read(self)), doc=doc)


def accessors(read: Callable[[Any], object], write: Callable[[Any, Any], None] | None = None) -> Any:
    """A property over methods; its annotation says the type of the values."""
    return property(read, write)
