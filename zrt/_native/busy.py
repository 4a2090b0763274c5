"""Work on an object that only one thread may use at a time."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ParamSpec, TypeVar

from zrt._native import ffi, lib
from zrt.errors import BusyError

new = ffi.new
begin = lib.zrt_claim_begin
end = lib.zrt_claim_end

Parameters = ParamSpec("Parameters")
Result = TypeVar("Result")


def new_flag() -> Any:
    """A new flag for `claimed`, not taken."""
    return new("int *")


def claimed(
    busy: Any, name: str, work: Callable[Parameters, Result], *arguments: Parameters.args, **keywords: Parameters.kwargs
) -> Result:
    """``work(...)`` with the flag `busy` taken. Raises `BusyError`, about `name`, if another thread has it.

    This is no context manager: an interrupt at the start of ``__exit__`` would leave the flag taken.
    """
    claim = new("zrt_claim *")
    try:
        if begin(claim, busy):
            raise BusyError(f"this {name} is in use by another thread")
        return work(*arguments, **keywords)
    finally:
        end(claim)
