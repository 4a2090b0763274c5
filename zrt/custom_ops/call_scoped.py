"""Objects and arrays over memory of ONNX Runtime's that are valid during one call of the user's code."""

from __future__ import annotations

import gc
import time
from contextlib import suppress
from threading import get_ident
from typing import Any, ClassVar
from weakref import ref

import numpy as np

from zrt._native.cdata import buffer_at
from zrt.errors import ArgumentError, BusyError, ClosedError, ShapeError
from zrt.types import ElementType

Array = np.ndarray[Any, Any]

# For each element type, by its number: the dtype of its array and the bits of an element.
LAYOUTS = {int(kind): (np.dtype(np.uint8) if kind.packed else kind.dtype, kind.bits) for kind in ElementType}

# How long to wait, in seconds, for views to be released after their call: another thread may be about to drop one.
PATIENCE = (0.0, 0.001, 0.01, 0.03)


class CallScoped:
    """A pointer that ONNX Runtime passes to a callback: valid during that call, in the call's own threads.

    Other threads are refused: one of them could still use the pointer when the call ends and ONNX Runtime frees it.
    When it ends, no array that it has handed out may still point to ORT's memory, which ORT then reuses.
    """

    __slots__ = ("_arrays", "_pointer", "_threads")

    _call: ClassVar[str]
    """The callback's name."""
    _arrays: list[tuple[tuple[str, int], ref[Any], ref[Array]]]
    """For each array: its kind and index, and weak references to its memory and to itself."""
    _pointer: Any
    _threads: set[int]

    def _begin(self, pointer: Any) -> None:
        self._pointer = pointer
        self._threads = {get_ident()}
        self._arrays = []

    def _opened(self) -> Any:
        pointer = self._pointer
        if pointer is None:
            raise ClosedError(f"this {type(self).__name__} is valid only during its call")
        if get_ident() not in self._threads:
            raise BusyError(f"this {type(self).__name__} belongs to the thread of its call")
        return pointer

    def _lend(
        self, role: str, index: int, address: Any, count: int, shape: tuple[int, ...], code: int, writeable: bool
    ) -> Array:
        """An array over `count` elements at `address`; a packed type gives the uint8 array of its packed bytes."""
        dtype, bits = LAYOUTS[code]
        size = (count * bits + 7) >> 3
        dims = shape if bits >= 8 else (size,)
        try:
            if size == 0:
                return np.empty(dims, dtype)
            memory = buffer_at(address, size)
            if writeable:
                array: Array = np.ndarray(dims, dtype, memory)
            else:
                # The memoryview is read-only too, so that `setflags` cannot make the array writeable.
                array = np.frombuffer(memoryview(memory).toreadonly(), dtype).reshape(dims)
        except ValueError as error:
            place = self._named(role, index)
            raise ShapeError(f"{place} of shape {list(shape)}: numpy has no such array: {error}") from error
        self._arrays.append(((role, index), ref(memory), ref(array)))
        return array

    def _finish(self) -> None:
        """Ends a call that succeeded."""
        kept = self._end()
        if kept is not None:
            raise kept

    def _abandon(self, error: BaseException) -> None:
        """Ends a call that raised `error`: the views in it become copies, and a note names those kept elsewhere."""
        self._pointer = None
        self._detach(error)
        kept = self._end()
        if kept is not None:
            # The exception's class may have overridden anything.
            with suppress(Exception):
                BaseException.add_note(error, str(kept))

    def _end(self) -> ArgumentError | None:
        """Waits briefly for the views to be released, then revokes them all; returns the error about those kept.

        An array that is still referenced becomes a copy. Slices and other objects over its memory cannot be found and
        still have its address, so every array that was kept is reported.
        """
        self._pointer = None
        for _, memory, _ in self._arrays:
            if memory() is not None:
                break
        else:
            return None
        for patience in PATIENCE:
            if patience:
                time.sleep(patience)
            else:
                # A view in a reference cycle is garbage that the GC has not collected yet.
                gc.collect()
            if all(memory() is None for _, memory, _ in self._arrays):
                break
        kept = []
        while self._arrays:
            # It stays in the list until it is done, so that `_abandon` goes on with it after an interrupt.
            place, memory, whole = self._arrays[-1]
            array = whole()
            if array is not None:
                _own(array)
            if array is not None or memory() is not None:
                kept.append(self._named(*place))
            self._arrays.pop()
        if not kept:
            return None
        return ArgumentError(
            f"{', '.join(kept)}: an array, or a view of it, was kept after {self._call} ended, and its memory is valid "
            "only during the call: keep a copy"
        )

    def _named(self, role: str, index: int) -> str:
        """An array's name in messages."""
        raise NotImplementedError

    def _detach(self, error: BaseException) -> None:
        """Makes copies of the views that an exception and those before it refer to, also in containers."""
        waiting: list[Any] = [error]
        found = []
        seen: set[int] = set()
        while waiting:
            each = waiting.pop()
            kind = type(each)
            if id(each) in seen:
                continue
            seen.add(id(each))
            if issubclass(kind, np.ndarray):
                if self._lends(each):
                    found.append(each)
            elif issubclass(kind, (BaseException, list, tuple, set, dict)):
                # Unlike its attributes, which a class may override, this runs no code of the caller's.
                waiting += gc.get_referents(each)
        # A view of a view is found by the other's memory: copy only now.
        for array in found:
            _own(array)

    def _lends(self, array: Any) -> bool:
        """Whether the array lies over memory of this call."""
        owner = array
        while isinstance(owner, (np.ndarray, memoryview)):
            owner = owner.base if isinstance(owner, np.ndarray) else owner.obj
        return owner is not None and any(memory() is owner for _, memory, _ in self._arrays)


def _own(array: Array) -> None:
    """Gives an array a copy of the memory that it views; no elements where there is no memory for a copy."""
    shape = array.shape
    try:
        content = np.ndarray.tobytes(array)
    except MemoryError:
        shape, content = (0,), b""
    # `Any`: numpy's stubs ask for np.bool_ here, which numpy itself refuses. A subclass may override the methods.
    state: Any = (1, shape, array.dtype, False, content)
    np.ndarray.__setstate__(array, state)
