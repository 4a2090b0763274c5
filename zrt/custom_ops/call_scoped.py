"""What ONNX Runtime lends to one call of the caller's code."""

from __future__ import annotations

from threading import get_ident
from typing import Any

from zrt.errors import BusyError, ClosedError


class Borrowed:
    """Something of ONNX Runtime's that is good during one call, in that call's own threads.

    Another thread could still be at it when the call ends and ONNX Runtime takes it back.
    """

    __slots__ = ("_pointer", "_threads")

    _pointer: Any
    _threads: set[int]

    def _lend(self, pointer: Any) -> None:
        self._pointer = pointer
        self._threads = {get_ident()}

    def _opened(self) -> Any:
        pointer = self._pointer
        if pointer is None:
            raise ClosedError(f"this {type(self).__name__} was good for its call alone")
        if get_ident() not in self._threads:
            raise BusyError(f"this {type(self).__name__} belongs to the thread of its call")
        return pointer
