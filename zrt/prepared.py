"""`PreparedRun`: a session's run over the same feeds, again and again."""

from __future__ import annotations

from collections.abc import Sequence
from types import TracebackType
from typing import Any

from zrt._native import ffi
from zrt._native.handle import Handle
from zrt.calls import Call, Result
from zrt.errors import ClosedError
from zrt.options import RunOptions
from zrt.values import Value


class PreparedRun:
    """A run over feeds that are borrowed in place (`Session.prepare` makes it).

    What is written into the fed arrays between two runs is what the next run reads. Each run returns fresh
    arrays, so earlier results stay as they were. May be used from several threads, which then must not write
    into the feeds while a run reads them.
    """

    __slots__ = ("__weakref__", "_prepared")

    def __init__(self, call: Call, feeds: Sequence[Value]) -> None:
        handles: list[Handle] = [value._open() for value in feeds]
        pointers = ffi.new("OrtValue *[]", [handle.pointer for handle in handles])
        # One attribute for all, so that closing in one thread never leaves half to another.
        self._prepared: tuple[Call, list[Handle], Any] | None = (call, handles, pointers)

    def run(self, options: RunOptions | None = None) -> list[Result]:
        """One inference over the feeds as they are now; returns a fresh array for each output."""
        prepared = self._prepared
        if prepared is None:
            raise ClosedError("this PreparedRun is closed")
        call, handles, pointers = prepared
        return call.run_values(pointers, handles, options)

    def close(self) -> None:
        """Gives the feeds back; closing twice is fine."""
        self._prepared = None

    @property
    def closed(self) -> bool:
        """Whether `close` was called."""
        return self._prepared is None

    def __enter__(self) -> PreparedRun:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
