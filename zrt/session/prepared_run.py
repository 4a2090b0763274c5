"""`PreparedRun`: a session's run over the same feeds, again and again."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from zrt._common.public import public
from zrt._native import ffi
from zrt._native.handle import Handle, Owner
from zrt.errors import ClosedError, Error
from zrt.loading.session_options import RunOptions
from zrt.session.call import NULL, Call, Result, failure, run_values, shape_was_wrong
from zrt.values import Value

from_buffer = ffi.from_buffer
empty = np.empty


@public
class PreparedRun(Owner):
    """A run over feeds that are borrowed in place (`Session.prepare` makes it).

    What is written into the fed arrays between two runs is what the next run reads. Each run returns fresh
    arrays, so earlier results stay as they were. May be used from several threads, which then must not write
    into the feeds while a run reads them.
    """

    __slots__ = ("_prepared",)

    def __init__(self, call: Call, feeds: Sequence[Value]) -> None:
        handles: list[Handle] = [value._open() for value in feeds]
        pointers = ffi.new("OrtValue *[]", [handle.pointer for handle in handles])
        self._handle = call.handle
        # One attribute for all, so that closing in one thread never leaves half to another.
        self._prepared: list[Any] | None = [call, pointers, handles]

    def run(self, options: RunOptions | None = None) -> list[Result]:
        """One inference over the feeds as they are now; returns a fresh array for each output."""
        prepared = self._prepared
        if prepared is None:
            raise ClosedError("this PreparedRun is closed")
        call, pointers, _ = prepared
        if options is not None or call.settled is None:
            return _run_checked(prepared, options)
        results: list[Result] = []
        places = []
        try:
            for shape, dtype in call.settled:
                array = empty(shape, dtype)
                results.append(array)
                places.append(from_buffer(array))
        except (MemoryError, ValueError):
            return _run_checked(prepared, options)
        code = run_values(call.reference, NULL, pointers, places, NULL)
        if code:
            error = failure(code)
            if shape_was_wrong(error):
                return _run_checked(prepared, options)
            raise error
        return results

    def close(self) -> None:
        """Gives the feeds back; closing twice is fine."""
        super().close()
        self._prepared = None


def _run_checked(prepared: list[Any], options: RunOptions | None) -> list[Result]:
    """`PreparedRun.run` in every case; once more if the model's declaration of an output's shape is wrong."""
    call: Call = prepared[0]
    _, pointers, handles = prepared
    try:
        return call.run_values(pointers, handles, options)
    except Error as error:
        if not shape_was_wrong(error):
            raise
    prepared[0] = call = call.left_open()
    return call.run_values(pointers, handles, options)
