"""The table of bad input: every public call, each kind of bad input that it can get, and the error that it raises.

Each module of `mistakes` holds the rows of an area:

- `TAKES`: the arguments of its public calls. For each kind of argument (feeds, shapes, a model ...) there is a list of
  bad ones, shared ones in `bad`; the rows are the product of calls and lists.
- `SINGLE`: for each call the mistakes that only it allows; `make` is the call itself.
- `CLOSABLE`: makes an object of each class that can be closed.
- `CLOSED_SELF`: uses each method that must raise `ClosedError` on a closed object.
- `CLOSED_ALONE`: the names of such attributes, and of such methods without arguments, by class.
- `CANNOT_FAIL`: reasons why calls have no bad input, each with the names of the calls.
"""

import importlib
import pkgutil
from collections.abc import Callable, Iterator
from typing import Any

from tests.robustness import mistakes
from tests.robustness.vocabulary import NOTHING, TWICE, Bad, Kind, Row, Take, World, closed

AREAS = [
    importlib.import_module(f"{mistakes.__name__}.{area.name}") for area in pkgutil.iter_modules(mistakes.__path__)
]


def _entries(name: str) -> list[tuple[Any, Any]]:
    """The entries of the dictionaries of that name in all areas."""
    return [entry for area in AREAS for entry in getattr(area, name, {}).items()]


def _members(name: str) -> list[tuple[str, str]]:
    """The same where a value has several names, separated by spaces: a pair for each."""
    return [(key, member) for key, members in _entries(name) for member in members.split()]


TAKES: list[Take] = [take for area in AREAS for take in getattr(area, "TAKES", [])]
SINGLE: list[tuple[str, Bad]] = [(call, bad) for call, bads in _entries("SINGLE") for bad in bads]
CLOSABLE: dict[str, Callable[[World], Any]] = dict(_entries("CLOSABLE"))
CLOSED_ALONE: list[tuple[str, str]] = [*_members("CLOSED_ALONE"), *((name, "__enter__") for name in CLOSABLE)]
CANNOT_FAIL: dict[str, str] = {
    **{f"{name}.close": TWICE for name in CLOSABLE},
    **{f"{name}.closed": NOTHING for name in CLOSABLE if name != "Runtime"},
    **{call: reason for reason, call in _members("CANNOT_FAIL")},
}


def use_alone(member: str) -> Callable[[World, Any], object]:
    """Reads the attribute, or calls the method without arguments."""

    def use(w: World, item: Any) -> object:
        attribute = getattr(item, member)
        return attribute() if callable(attribute) else attribute

    return use


CLOSED_SELF: dict[str, Callable[[World, Any], object]] = {
    **dict(_entries("CLOSED_SELF")),
    **{f"{name}.{member}": use_alone(member) for name, member in CLOSED_ALONE},
}


def rows() -> Iterator[Row]:
    """The whole table."""
    for call, takes, bads, do in TAKES:
        for number, bad in enumerate(bads):
            yield Row(call, takes, number, bad, lambda w, do=do, bad=bad: do(w, bad.make(w)))
    for number, (call, bad) in enumerate(SINGLE):
        yield Row(call, "alone", number, bad, bad.make)
    for number, (call, use) in enumerate(CLOSED_SELF.items()):
        name = call.partition(".")[0]

        def use_closed(w: World, use: Any = use, name: str = name) -> object:
            return use(w, closed(CLOSABLE[name](w)))

        # A closed runtime raises the error of its closed lanes.
        word = "is closed" if name == "Runtime" else f"this {name} is closed"
        yield Row(call, "self", number, Bad(Kind.CLOSED, use_closed, word), use_closed)
