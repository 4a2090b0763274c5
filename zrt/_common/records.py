"""`record`, a decorator like `dataclasses.dataclass` whose classes cost a tenth of the time at import.

`dataclass` writes the source of each class's methods and compiles it: 1 to 3 ms for a class, most of the time that the
modules of a first session would take. The methods of a record are general functions. The functions of `dataclasses`
(`fields`, `replace`, `asdict`), `copy.replace` and `inspect.signature` take records as they take dataclasses.
"""

from __future__ import annotations

import reprlib
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any, Final, NoReturn, TypeVar, dataclass_transform

Class = TypeVar("Class", bound=type)


class _Missing:
    """The type of `MISSING`."""

    def __repr__(self) -> str:
        return "MISSING"


MISSING: Final = _Missing()

_put = object.__setattr__


class Field:
    """A field of a record: its default value or the function that makes one, and its part in the general methods."""

    __slots__ = ("compare", "default", "default_factory", "metadata", "repr")

    def __init__(
        self,
        default: Any = MISSING,
        default_factory: Callable[[], Any] | None = None,
        metadata: Mapping[str, Any] | None = None,
        *,
        compare: bool = True,
        repr: bool = True,
    ) -> None:
        self.default = default
        self.default_factory = default_factory
        self.metadata = metadata or {}
        self.compare = compare
        self.repr = repr

    @property
    def required(self) -> bool:
        """Whether the field has no default."""
        return self.default is MISSING and self.default_factory is None


def field(**arguments: Any) -> Any:
    """A `Field`, for the body of a record's class: type checkers take it as a value of the field's type."""
    return Field(**arguments)


def fields(kind: Any) -> Mapping[str, Field]:
    """The fields of a record's class by name, with those of its bases first."""
    found: Mapping[str, Field] = kind._fields
    return found


@dataclass_transform(field_specifiers=(field,))
def record(
    *, frozen: bool = False, kw_only: bool = False, eq: bool = True, repr: bool = True
) -> Callable[[Class], Class]:
    """Makes a class with slots of the annotated names in its body; the arguments are those of `dataclass`.

    A ``__post_init__`` runs at the end of ``__init__``. As with a dataclass with slots, `super()` without arguments
    does not work in its methods.
    """

    def make(kind: Class) -> Class:
        items: dict[str, Field] = {}
        for base in reversed(kind.__mro__):
            items.update(getattr(base, "_fields", {}))
        # Annotations are texts, as each module imports them from `__future__`.
        own = [name for name, hint in kind.__annotations__.items() if not hint.startswith("ClassVar")]
        body = dict(vars(kind))
        for name in own:
            given = body.pop(name, MISSING)
            items[name] = given if isinstance(given, Field) else Field(given)
        body["__slots__"] = tuple(own)
        body["__match_args__"] = () if kw_only else tuple(items)
        body["__init__"] = _init_of(items, kw_only, hasattr(kind, "__post_init__"))
        body["_fields"], body["_frozen"], body["_kw_only"] = items, frozen, kw_only
        body.update(_ALL)
        if eq and "__eq__" not in body:
            body["__eq__"] = _eq
            body["__hash__"] = _hash if frozen else None
        if repr and "__repr__" not in body:
            body["__repr__"] = _repr
        if frozen:
            body.update(_FROZEN)
        for name in ("__dict__", "__weakref__"):
            body.pop(name, None)
        made: Any = type(kind)(kind.__name__, kind.__bases__, body)
        made.__qualname__ = kind.__qualname__
        result: Class = made
        return result

    return make


def _init_of(items: Mapping[str, Field], kw_only: bool, goes_on: bool) -> Callable[..., None]:
    plain = tuple((name, item.default) for name, item in items.items() if item.default is not MISSING)
    made = tuple((name, item.default_factory) for name, item in items.items() if item.default_factory is not None)
    required = tuple(name for name, item in items.items() if item.required)
    names = tuple(items)

    def __init__(self: Any, /, *args: Any, **given: Any) -> None:  # noqa: N807 (the method of a class to come)
        if args:
            _take_positional(self, names, args, given, kw_only)
        for name in required:
            if name not in given:
                raise TypeError(f"{type(self).__name__}.__init__() missing a required argument: {name!r}")
        for name, default in plain:
            if name not in given:
                _put(self, name, default)
        for name, factory in made:
            if name not in given:
                _put(self, name, factory())
        for name, value in given.items():
            if name not in items:
                raise TypeError(f"{type(self).__name__}.__init__() got an unexpected keyword argument {name!r}")
            _put(self, name, value)
        if goes_on:
            self.__post_init__()

    return __init__


def _take_positional(
    self: Any, names: tuple[str, ...], args: tuple[Any, ...], given: dict[str, Any], kw_only: bool
) -> None:
    """Adds positional arguments to those `given` by name."""
    kind = type(self).__name__
    most = 0 if kw_only else len(names)
    if len(args) > most:
        raise TypeError(f"{kind}.__init__() takes at most {most} positional arguments, but {len(args)} were given")
    for name, value in zip(names, args, strict=False):
        if name in given:
            raise TypeError(f"{kind}.__init__() got multiple values for argument {name!r}")
        given[name] = value


def _compared(self: Any) -> tuple[Any, ...]:
    return tuple([getattr(self, name) for name, item in self._fields.items() if item.compare])


def _eq(self: Any, other: object) -> Any:
    return _compared(self) == _compared(other) if type(other) is type(self) else NotImplemented


def _hash(self: Any) -> int:
    return hash(_compared(self))


@reprlib.recursive_repr()
def _repr(self: Any) -> str:
    shown = [f"{name}={getattr(self, name)!r}" for name, item in self._fields.items() if item.repr]
    return f"{type(self).__qualname__}({', '.join(shown)})"


def _replace(self: Any, /, **changes: Any) -> Any:
    return type(self)(**{name: getattr(self, name) for name in self._fields} | changes)


def _refuse_assignment(self: Any, name: str, value: object) -> None:
    _refuse(f"cannot assign to field {name!r}")


def _refuse_deletion(self: Any, name: str) -> None:
    _refuse(f"cannot delete field {name!r}")


def _refuse(message: str) -> NoReturn:
    from dataclasses import FrozenInstanceError

    raise FrozenInstanceError(message)


def _get_state(self: Any) -> list[Any]:
    return [getattr(self, name) for name in self._fields]


def _set_state(self: Any, state: list[Any]) -> None:
    for name, value in zip(self._fields, state, strict=True):
        _put(self, name, value)


class _OfDataclass:
    """An attribute of a record's class that is computed when it is asked for, from a dataclass with the same fields."""

    def __init__(self, compute: Callable[[Any], Any]) -> None:
        self._compute = compute

    def __get__(self, instance: object, owner: Any) -> Any:
        return self._compute(_as_dataclass(owner))


@cache
def _as_dataclass(kind: Any) -> type:
    """A dataclass with the fields of a record's class."""
    import dataclasses

    hints: dict[str, str] = {}
    for base in reversed(kind.__mro__):
        hints |= base.__annotations__ if "_fields" in vars(base) else {}
    specs: list[Any] = []
    for name, item in kind._fields.items():
        given: dict[str, Any] = {"compare": item.compare, "repr": item.repr, "metadata": item.metadata}
        if item.default is not MISSING:
            given["default"] = item.default
        elif item.default_factory is not None:
            given["default_factory"] = item.default_factory
        specs.append((name, hints[name], dataclasses.field(**given)))
    return dataclasses.make_dataclass(
        kind.__name__, specs, frozen=kind._frozen, kw_only=kind._kw_only, namespace={"__module__": kind.__module__}
    )


def _signature(kind: type) -> Any:
    import inspect

    return inspect.signature(kind)


# The attributes of every record, and those of the frozen ones.
_ALL = {
    "__dataclass_fields__": _OfDataclass(lambda kind: kind.__dataclass_fields__),
    "__dataclass_params__": _OfDataclass(lambda kind: kind.__dataclass_params__),
    "__replace__": _replace,
    "__signature__": _OfDataclass(_signature),
}
_FROZEN = {
    "__delattr__": _refuse_deletion,
    "__getstate__": _get_state,
    "__setattr__": _refuse_assignment,
    "__setstate__": _set_state,
}
