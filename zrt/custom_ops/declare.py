"""What a custom operator says of itself: its inputs, outputs and attributes, and its function if that is in C."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from zrt._common.arguments import boolean, choose, integer, shown
from zrt._common.public import public_in
from zrt.errors import ArgumentError, DTypeError, UnsupportedError
from zrt.types import ElementType, MemType

REQUIRED: Any = object()
"""The default of an attribute that has none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Port:
    """What `Input` and `Output` share."""

    dtype: Any = None
    """The element type, as anything that numpy or `ElementType` reads as one; None admits any."""
    optional: bool = False
    """Whether a model may leave it out."""
    variadic: bool = False
    """Whether there may be any number of it; only the last one may be so."""
    least: int = 1
    """Of a variadic one: the least number."""
    homogeneous: bool = True
    """Of a variadic one: whether all are of one element type."""

    def element_type(self, subject: str) -> ElementType:
        """The element type that it declares; UNDEFINED for any."""
        if self.dtype is None:
            return ElementType.UNDEFINED
        found = ElementType.of(self.dtype)
        if found.refused:
            raise UnsupportedError(f"{subject}: {found.name}: {found.refused}")
        return found

    def check(self, subject: str) -> None:
        """Refuses what does not go together."""
        for name in ("optional", "variadic", "homogeneous"):
            boolean(getattr(self, name), f"{subject}.{name}")
        integer(self.least, f"{subject}.least", 0, 1 << 16)
        if self.optional and self.variadic:
            raise ArgumentError(f"{subject} is optional or variadic, not both; a variadic one may have least=0")


@public_in("zrt.custom_ops")
@dataclass(frozen=True, slots=True, kw_only=True)
class Input(Port):
    """An input of a `CustomOp`."""

    memory: MemType | str = MemType.DEFAULT
    """DEFAULT: where the operator's provider works; CPU_INPUT: on the host, whatever the provider."""

    def check(self, subject: str) -> None:
        # (zero-argument super() fails in a class that slots=True has made anew)
        Port.check(self, subject)
        if choose(MemType, self.memory, f"{subject}.memory") not in (MemType.DEFAULT, MemType.CPU_INPUT):
            raise ArgumentError(f"{subject}.memory: an input's is DEFAULT or CPU_INPUT, not {shown(self.memory)}")


@public_in("zrt.custom_ops")
@dataclass(frozen=True, slots=True, kw_only=True)
class Output(Port):
    """An output of a `CustomOp`."""


@public_in("zrt.custom_ops")
@dataclass(frozen=True, slots=True)
class Attribute:
    """An attribute of a `CustomOp`.

    `kind` is int, float or str, a list of one of them (``list[int]``), or `numpy.ndarray` for a tensor. Without
    `default` every node must give it.
    """

    kind: Any
    default: Any = REQUIRED

    KINDS = (int, float, str, list[int], list[float], list[str], np.ndarray)

    def check(self, subject: str) -> None:
        """Refuses a kind that ONNX has no attributes of."""
        if not any(self.kind is kind or self.kind == kind for kind in self.KINDS):
            kinds = ", ".join(map(kind_name, self.KINDS))
            raise DTypeError(f"{subject}: an attribute is of one of {kinds}, not {shown(self.kind)}")


def kind_name(kind: Any) -> str:
    """A kind of attribute, in Python's words."""
    return "numpy.ndarray" if kind is np.ndarray else kind.__name__ if isinstance(kind, type) else str(kind)


@public_in("zrt.custom_ops")
@dataclass(frozen=True, slots=True)
class CFunction:
    """`compute` in C: no Python and no GIL on the path.

    `compute` is the address of a function of zrt's ``zrt_compute`` type (see the guide), as an int, or as cffi's or
    ctypes' pointer. The shape of each output is that of an input, by default the first: `shaped_like` names one for
    each output. Or `shape` is the address of a ``zrt_shape`` function. `user_data` is an address that both are
    given. `keep` is held for as long as the operator lives: the library or the object that the addresses belong to.
    """

    compute: Any
    shape: Any = None
    shaped_like: Sequence[int] | None = None
    user_data: Any = 0
    keep: Any = None
