"""The table of bad input: every public call, each kind of bad input that it can get, and the error that it raises.

Each module of `mistakes` holds the rows of an area:

- `TAKES`: the arguments of its public calls. For each kind of argument (feeds, shapes, a model ...) there is a list of
  bad ones, shared ones in `bad`; the rows are the product of calls and lists.
- `SINGLE`: rows of mistakes that only one call allows.
- `CLOSABLE`: makes an object of each class that can be closed.
- `CLOSED_SELF`: uses each method that must raise `ClosedError` on a closed object.
- `CANNOT_FAIL`: for every other call the reason why it has no bad input.
- `APPLIES`: the promised kinds of mistakes that each list of bad arguments covers.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable, Iterator
from typing import Any

from tests.robustness import mistakes
from tests.robustness.vocabulary import NOTHING, TWICE, Bad, Kind, Row, Single, Take, World, closed
from zrt.errors import ClosedError

AREAS = [
    importlib.import_module(f"{mistakes.__name__}.{area.name}") for area in pkgutil.iter_modules(mistakes.__path__)
]


def _all(name: str) -> dict[str, Any]:
    """The merged dictionaries of a name in all areas, whose keys must be disjoint."""
    found: dict[str, Any] = {}
    for area in AREAS:
        entries = getattr(area, name, {})
        assert not found.keys() & entries.keys(), f"{area.__name__}.{name} repeats {found.keys() & entries.keys()}"
        found.update(entries)
    return found


TAKES: list[Take] = [take for area in AREAS for take in getattr(area, "TAKES", [])]
SINGLE: list[Single] = [single for area in AREAS for single in getattr(area, "SINGLE", [])]
CLOSED_SELF: dict[str, Callable[[World, Any], object]] = _all("CLOSED_SELF")
CLOSABLE: dict[str, Callable[[World], Any]] = _all("CLOSABLE")
APPLIES: dict[str, tuple[list[Bad], set[Kind]]] = _all("APPLIES")
CANNOT_FAIL: dict[str, str] = {
    **{f"{name}.close": TWICE for name in CLOSABLE},
    **{f"{name}.closed": NOTHING for name in CLOSABLE if name != "Runtime"},
    **_all("CANNOT_FAIL"),
}


def rows() -> Iterator[Row]:
    """The whole table."""
    for call, takes, bads, do in TAKES:
        for number, bad in enumerate(bads):
            yield Row(call, takes, number, bad, lambda w, do=do, bad=bad: do(w, bad.make(w)))
    for number, (call, kind, do, error, words) in enumerate(SINGLE):
        yield Row(call, "alone", number, Bad(kind, do, error, *words), do)
    for number, (call, use) in enumerate(CLOSED_SELF.items()):
        name = call.partition(".")[0]

        def use_closed(w: World, use: Any = use, name: str = name) -> object:
            return use(w, closed(CLOSABLE[name](w)))

        # A closed runtime raises the error of its closed lanes.
        word = "is closed" if name == "Runtime" else f"this {name} is closed"
        yield Row(call, "self", number, Bad(Kind.CLOSED, use_closed, ClosedError, word), use_closed)
