"""The attributes of a standard operator that a custom operator calls."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from zrt._common import one_node
from zrt._common.arguments import as_float32, integer, shown, text
from zrt._common.onnx_fields import Attribute, AttributeType
from zrt._native import lib, status
from zrt._native.cdata import new_array, strings
from zrt._native.handle import Handle
from zrt._native.library import api
from zrt.errors import UnsupportedError


class Attr(NamedTuple):
    """An attribute; `kind` is the ``OrtOpAttrType`` of one of its values, also for a list."""

    name: str
    kind: int
    values: Sequence[Any]
    is_list: bool

    @classmethod
    def of(cls, name: str, value: Any) -> Attr:
        """An attribute, whose kind follows from the value."""
        subject = f"attribute {name!r}"
        # A subclass of str may override `encode`.
        name = text(name, subject).decode()
        is_list = isinstance(value, (list, tuple)) or (isinstance(value, np.ndarray) and value.ndim == 1)
        items: list[Any] = list(value) if is_list else [value]
        if items and all(isinstance(item, (bool, int, np.integer)) for item in items):
            whole = [integer(int(item), subject, -(2**63), 2**63 - 1) for item in items]
            return cls(name, lib.ORT_OP_ATTR_INT, whole, is_list)
        if items and all(isinstance(item, (float, int, np.floating, np.integer)) for item in items):
            with status.named(subject):
                floats = [float(np.float32(as_float32(item))) for item in items]
            return cls(name, lib.ORT_OP_ATTR_FLOAT, floats, is_list)
        if items and all(isinstance(item, str) for item in items):
            return cls(name, lib.ORT_OP_ATTR_STRING, [text(item, subject).decode() for item in items], is_list)
        raise UnsupportedError(f"{subject}: an int, a float, a str or a list of one of them, not {shown(value)}")

    def handle(self) -> Handle:
        """A new ``OrtOpAttr``."""
        table, count = api(), len(self.values)
        if self.kind == lib.ORT_OP_ATTR_STRING:
            # The array owns the characters, which `data` may only point to.
            owner = strings(self.values)
            data, count = (owner, count) if self.is_list else (owner[0], len(self.values[0].encode()))
        else:
            data = new_array("int64_t" if self.kind == lib.ORT_OP_ATTR_INT else "float", self.values)
        # In OrtOpAttrType the kind of a list follows that of its elements.
        kind = self.kind + self.is_list
        name = self.name.encode()
        return Handle.make(table.ReleaseOpAttr, [], table.CreateOpAttr, "OrtOpAttr", name, data, count, kind)

    def proto(self) -> bytes:
        """The bytes of an ``AttributeProto``."""
        kind, one, many = _KINDS[self.kind]
        # In AttributeProto the kind of a list is five above that of its elements.
        return one_node.attribute(self.name, kind + 5 * self.is_list, many if self.is_list else one, self.values)


# For each scalar ``OrtOpAttrType``: its number in ``AttributeProto``, and the fields for one value and for a list.
_KINDS = {
    lib.ORT_OP_ATTR_INT: (AttributeType.INT, Attribute.I, Attribute.INTS),
    lib.ORT_OP_ATTR_FLOAT: (AttributeType.FLOAT, Attribute.F, Attribute.FLOATS),
    lib.ORT_OP_ATTR_STRING: (AttributeType.STRING, Attribute.S, Attribute.STRINGS),
}
