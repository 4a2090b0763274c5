"""numpy arrays over memory that is good during a call alone."""

from __future__ import annotations

import gc
import time
from typing import Any
from weakref import ref

import numpy as np

from zrt._native import ffi
from zrt.errors import ArgumentError
from zrt.types import ElementType

Array = np.ndarray[Any, Any]

buffer = ffi.buffer
frombuffer = np.frombuffer

# What an array of each element type has, and the bits of an element, by the type's number.
LAYOUTS = {int(kind): (np.dtype(np.uint8) if kind.packed else kind.dtype, kind.bits) for kind in ElementType}

# How long a view may outlive its call, in seconds: what another thread has just used goes a moment later.
PATIENCE = (0.0, 0.001, 0.01, 0.03)


class Loans:
    """Lends arrays over ORT's memory, and takes them back: nothing may show memory that is others' by then."""

    __slots__ = ("_lent",)

    def __init__(self) -> None:
        # What it is, and the memory and the array as far as they are still in use.
        self._lent: list[tuple[tuple[str, int], ref[Any], ref[Array]]] = []

    def lend(
        self,
        what: str,
        index: int,
        address: Any,
        count: int,
        shape: tuple[int, ...],
        code: int,
        writeable: bool,
    ) -> Array:
        """An array over the memory of `count` elements; packed types come as the uint8 array of their packed bytes."""
        dtype, bits = LAYOUTS[code]
        size = (count * bits + 7) >> 3
        dims = shape if bits >= 8 else (size,)
        if size == 0:
            return np.empty(dims, dtype)
        memory = buffer(address, size)
        array: Array = np.ndarray(dims, dtype, memory) if writeable else _read_only(memory, dtype, dims)
        self._lent.append(((what, index), ref(memory), ref(array)))
        return array

    def end(self) -> list[tuple[str, int]]:
        """Takes all back; says what was kept."""
        for _, memory, _ in self._lent:
            if memory() is not None:
                break
        else:
            self._lent = []
            return []
        for patience in PATIENCE:
            if patience:
                time.sleep(patience)
            else:
                # What is in a cycle was not kept: it is not collected yet.
                gc.collect()
            if all(memory() is None for _, memory, _ in self._lent):
                break
        return self.revoke()

    def revoke(self) -> list[tuple[str, int]]:
        """Takes all back at once: arrays that were kept become copies. Of a part of one numpy does not say where
        it is, and what else uses an array's memory has its address: so whatever was kept is told."""
        kept = []
        while self._lent:
            what, memory, whole = self._lent.pop()
            array = whole()
            if array is not None or memory() is not None:
                kept.append(what)
            if array is not None:
                # (numpy's own stubs want a bool of numpy's, which numpy itself refuses)
                state: Any = (1, array.shape, array.dtype, False, array.tobytes())
                array.__setstate__(state)
        return kept


def _read_only(memory: Any, dtype: np.dtype[Any], dims: tuple[int, ...]) -> Array:
    # Over a memory that numpy itself sees to be read-only, so that nobody makes the array writeable.
    return frombuffer(memoryview(memory).toreadonly(), dtype).reshape(dims)


def kept_beyond(names: list[str], call: str) -> ArgumentError:
    """The error for what was kept."""
    return ArgumentError(
        f"{', '.join(names)}: an array, or a view of it, was kept beyond the call of {call}, for which alone its "
        "memory is good: keep a copy"
    )
