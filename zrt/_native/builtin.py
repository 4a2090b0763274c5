"""Functions that C makes, and methods for classes, so that a call has no frame of Python (builtin.c)."""

from __future__ import annotations

from typing import Any

import numpy as np

from zrt._native import lib
from zrt.errors import AllocationError

_builtins: list[Any] = []
if lib.zrt_builtin_open(id(np.ndarray), id(np.empty), id(_builtins)):
    raise AllocationError("no memory for the functions of runs")
OwnedMemory, find_call, run_feeds, run_values, bind_array = _builtins


def set_builtin(kind: type, name: str, builtin: int, member: str, arguments: str) -> None:
    """Replaces the method `name` of a class by a `builtin` of C's, which calls it where it gets arguments.

    `member` is the slot that C reads (builtin.h); `arguments` are those of the method as its signature shows them.
    """
    function: Any = vars(kind)[name]
    doc = f"{name}($self, /, {arguments})\n--\n\n{function.__doc__}"
    if lib.zrt_builtin_set(builtin, id(kind), id(vars(kind)[member]), id(function), doc.encode()):
        raise AllocationError(f"no memory for the method {name!r}")
