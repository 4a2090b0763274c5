"""A subclass of bytes with a wrong __len__ is read by its content."""

from __future__ import annotations

import tests.robustness.prologue  # noqa: F401
import zrt


class Long(bytes):
    def __len__(self):
        return 1 << 40

    def decode(self, *arguments):
        return ""


value = zrt.Value.from_strings([Long(b"abc"), "d"])
assert value.numpy().tolist() == ["abc", "d"], value.numpy()
