"""The declaration of a custom operator: inputs, outputs, attributes, and its function where that is in C."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from numbers import Integral, Real
from typing import Any, get_args, get_origin

import numpy as np

from zrt._common.arguments import boolean, choose, integer, shown
from zrt._common.public import public_in
from zrt._native import status
from zrt.errors import ArgumentError, DTypeError
from zrt.types import ElementType, MemType, require_tensors

REQUIRED: Any = object()
"""The `default` of an attribute without one: every node must give the attribute."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Port:
    """The fields that `Input` and `Output` share."""

    dtype: Any = None
    """The element type, in any form that `ElementType.of` takes; None accepts every type."""
    optional: bool = False
    """Whether a model may leave it out."""
    variadic: bool = False
    """Whether it may occur any number of times; only the last port may be variadic."""
    least: int = 1
    """For a variadic port: the least number of times."""
    homogeneous: bool = True
    """For a variadic port: whether all have the same element type."""

    def element_type(self, subject: str) -> ElementType:
        """The declared element type; UNDEFINED where every type is accepted."""
        if self.dtype is None:
            return ElementType.UNDEFINED
        with status.named(subject):
            element_type = ElementType.of(self.dtype)
        require_tensors(element_type, subject)
        return element_type

    def check(self, subject: str) -> None:
        """Raises an error for fields that contradict each other."""
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
    """DEFAULT: the memory of the operator's execution provider; CPU_INPUT: host memory with every provider."""

    def check(self, subject: str) -> None:
        # Not super(): without arguments it fails in a class that dataclass(slots=True) has rebuilt.
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

    `kind` is int, float or str, a list of one of them (``list[int]``), or `numpy.ndarray` for a tensor. Without a
    `default` every node must give the attribute; a default is of the kind, or None.
    """

    kind: Any
    default: Any = REQUIRED

    KINDS = (int, float, str, list[int], list[float], list[str], np.ndarray)

    def check(self, subject: str) -> None:
        """Raises a `DTypeError` for a kind that ONNX does not have, or a default of another kind."""
        if not any(self.kind is kind or self.kind == kind for kind in self.KINDS):
            kinds = ", ".join(map(kind_name, self.KINDS))
            raise DTypeError(f"{subject}: an attribute is of one of {kinds}, not {shown(self.kind)}")
        if self.default is not REQUIRED and self.default is not None and not _is_a(self.default, self.kind):
            raise DTypeError(f"{subject}: the default {shown(self.default)} is no {kind_name(self.kind)}")


def _is_a(value: Any, kind: Any) -> bool:
    """Whether a default is of an attribute's kind; a list may be a tuple, and a float an int."""
    if get_origin(kind) is list:
        return isinstance(value, (list, tuple)) and all(_is_a(each, *get_args(kind)) for each in value)
    return isinstance(value, {int: Integral, float: Real}.get(kind, kind))


def kind_name(kind: Any) -> str:
    """The name of an attribute's kind in Python."""
    return "numpy.ndarray" if kind is np.ndarray else kind.__name__ if isinstance(kind, type) else str(kind)


def as_string(content: bytes) -> str:
    """A string of an attribute; bytes that are no UTF-8 become surrogate escapes, as in tensors of strings."""
    return content.decode(errors="surrogateescape")


def other_kind(subject: str, came: Any, declared: Any) -> DTypeError:
    """The error for an attribute of a kind that is not the declared one; `came` is None where it is not known."""
    kind = "another kind" if came is None else f"kind {kind_name(came)}"
    return DTypeError(f"{subject} is of {kind} in the model, expected {kind_name(declared)}")


@public_in("zrt.custom_ops")
@dataclass(frozen=True, slots=True)
class CFunction:
    """`compute` as a function in C: the call needs neither Python nor the GIL.

    `compute` is the address of a function of zrt's ``zrt_compute`` type (see the guide), as an int or a pointer of
    cffi or ctypes. Each output has the shape of an input: by default the first, or the one whose index stands in
    `shaped_like`. Alternatively `shape` is the address of a ``zrt_shape`` function that computes the shapes.
    `user_data` is an address that both functions receive. The operator keeps a reference to `keep`, the library or
    object that owns these addresses.
    """

    compute: Any
    shape: Any = None
    shaped_like: Sequence[int] | None = None
    user_data: Any = 0
    keep: Any = None
