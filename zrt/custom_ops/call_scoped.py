"""Objects of ONNX Runtime that are valid during one call of the user's code."""

from __future__ import annotations

from threading import get_ident
from typing import Any

from zrt.errors import BusyError, ClosedError


class CallScoped:
    """A pointer that ONNX Runtime passes to a callback: valid during that call, in the call's own threads.

    Other threads are refused: one of them could still use the pointer when the call ends and ONNX Runtime frees it.
    """

    __slots__ = ("_pointer", "_threads")

    _pointer: Any
    _threads: set[int]

    def _begin(self, pointer: Any) -> None:
        self._pointer = pointer
        self._threads = {get_ident()}

    def _opened(self) -> Any:
        pointer = self._pointer
        if pointer is None:
            raise ClosedError(f"this {type(self).__name__} is valid only during its call")
        if get_ident() not in self._threads:
            raise BusyError(f"this {type(self).__name__} belongs to the thread of its call")
        return pointer
