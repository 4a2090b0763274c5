"""The C boundary: the only folder that knows cffi."""

from collections.abc import Callable
from typing import TypeVar

from zrt._native._ort import ffi, lib

__all__ = ["callback", "ffi", "lib"]

Function = TypeVar("Function", bound=Callable[..., int])


def callback(stray: Callable[..., int | None]) -> Callable[[Function], Function]:
    """The Python side of a function of this name that C calls (`CALLED_BACK` in build.py): 0 is success.

    What it raises, if only an interrupt between its steps, goes to `stray`: the exception's type, itself and its
    traceback, whose first frame has the arguments. C gets what that returns, 1 for None.
    """

    def register(function: Function) -> Function:
        registered: Function = ffi.def_extern(error=1, onerror=stray)(function)
        return registered

    return register
