"""Six threads use values of every kind."""

from __future__ import annotations

import threading

import tests.robustness.prologue  # noqa: F401
import zrt
from tests.robustness.values import every_kind

shared = every_kind()


def use():
    for _ in range(10):
        for name, (item, holds) in shared.items():
            if name != "binding":
                assert holds(item), name
        assert zrt.Value.from_sequence([], "uint8").to_list() == []
        zrt.Value.from_strings(["x"] * 50).strings()


threads = [threading.Thread(target=use) for _ in range(6)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
