"""`CustomOpDomain`: custom operators under a domain's name, for sessions."""

from __future__ import annotations

from collections.abc import Iterable

from zrt._common.arguments import require_type, shown, text
from zrt._common.public import public
from zrt._native import status
from zrt._native.cdata import pointer_to
from zrt._native.handle import Handle, Owner
from zrt._native.library import api
from zrt.custom_ops import callbacks as callbacks  # (registers the functions that C calls)
from zrt.custom_ops.description import Description
from zrt.custom_ops.op import CustomOp
from zrt.errors import ArgumentError, DTypeError


@public
class CustomOpDomain(Owner):
    """Custom operators under a domain's name, for `SessionOptions.custom_ops`.

    One domain may serve any number of sessions, which keep it alive.
    """

    __slots__ = ("name", "ops")

    name: str
    """The domain's name in the nodes and opset imports of models."""
    ops: tuple[CustomOp, ...]
    """The operators."""

    def __init__(self, name: str, ops: Iterable[CustomOp]) -> None:
        self._handle = None
        require_type(ops, Iterable, "ops", "a list of CustomOps")
        self.name = name
        self.ops = tuple(ops)
        for op in self.ops:
            if not isinstance(op, CustomOp):
                hint = " (the class, not an instance of it)" if isinstance(op, type) else ""
                raise DTypeError(f"ops: expected CustomOps, got {shown(op)}{hint}")
        described = [Description(op) for op in self.ops]
        names = [each.name for each in described]
        twice = {each for each in names if names.count(each) > 1}
        if twice:
            raise ArgumentError(f"domain {name!r} has operator {', '.join(map(repr, sorted(twice)))} twice")
        table = api()
        handles = [each.handle for each in described]
        handle = Handle.make(
            table.ReleaseCustomOpDomain,
            handles,
            table.CreateCustomOpDomain,
            "OrtCustomOpDomain",
            text(name, "name"),
            kept=tuple(described),
        )
        for each in handles:
            status.check(table.CustomOpDomain_Add(handle.pointer, pointer_to(each.pointer, "OrtCustomOp")))
        self._handle = handle

    def __repr__(self) -> str:
        state = "closed" if self.closed else ", ".join(op.name or type(op).__name__ for op in self.ops)
        return f"CustomOpDomain({self.name!r}: {state})"
