from __future__ import annotations

import gc

from zrt._native.handle import Handle


class Gone:
    """Says when it goes."""

    def __init__(self, name, seen):
        self.name, self.seen = name, seen

    def __del__(self):
        self.seen.append(self.name)


def test_what_a_handle_holds_goes_after_it():
    seen = []
    first, second, third = (Handle.pin(Gone(name, seen)) for name in ("first", "second", "third"))
    pointer = first.pointer
    held = first.holding(second, third)
    assert held.pointer == pointer
    del first, second, third
    gc.collect()
    assert seen == []
    del held
    gc.collect()
    assert seen[0] == "first"
    assert sorted(seen) == ["first", "second", "third"]
