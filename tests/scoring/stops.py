"""A stop in the middle of scoring."""

from collections.abc import Callable
from typing import Any

from zrt.scoring import parts


def failing_after(add: Callable[..., None], count: int) -> Callable[..., None]:
    """`Parts.add` that raises after that many calls."""
    calls = []

    def counted(self: parts.Parts, *arguments: Any) -> None:
        calls.append(self)
        if len(calls) > count:
            raise RuntimeError("stopped")
        add(self, *arguments)

    return counted
