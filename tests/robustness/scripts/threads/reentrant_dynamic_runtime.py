"""A key whose __hash__ calls the runtime that looks it up raises BusyError there."""

from __future__ import annotations

import zrt
from tests.robustness.prologue import session

dynamic = zrt.DynamicRuntime(session())
refused = []


class Key(str):
    def __hash__(self):
        try:
            dynamic.lane({"x": 4, "y": 4})
        except zrt.errors.BusyError as error:
            refused.append(error)
        return super().__hash__()

    def __eq__(self, other):
        return super().__eq__(other)


key = Key("x")
dynamic.lane({key: 4, "y": 4}).run()
assert refused
dynamic.lane({"x": 4, "y": 4}).run()
