"""The feeds of a run as values: those that are values already, and those of inputs that take no plain array."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from zrt._native.handle import Handle
from zrt.errors import DTypeError, UnsupportedError
from zrt.memory.allocators import has_device
from zrt.memory.buffers import Buffer
from zrt.session.feeds import as_array, check_kind, check_type, right_array
from zrt.types import ElementType, ValueKind, pack
from zrt.values import Value, as_value, symbolic_shapes
from zrt.values.type_info import ValueInfo, content, format_type, is_plain, phrase

if TYPE_CHECKING:
    from zrt.session.session import Session


def right_value(info: ValueInfo, feed: Any) -> Value:
    """The feed as a value over its own memory; raises if that would need a copy."""
    subject = f"input {info.name!r}"
    wanted = content(info)
    if not isinstance(feed, Value):
        check_kind(wanted, subject)
    value = as_value(feed, subject)
    if value.kind is not wanted.kind:
        raise DTypeError(f"{subject}: expected {format_type(wanted)}, got {phrase(value.kind)}")
    if value.is_tensor:
        check_type(wanted, value.element_type, subject)
    elif (value.element_type, value.key_type) != (wanted.element_type, wanted.key_type):
        raise DTypeError(f"{subject}: expected {format_type(wanted)}, got {value!r}")
    if value.kind in (ValueKind.TENSOR, ValueKind.SPARSE_TENSOR):
        symbolic_shapes.check(wanted, value.shape, subject)
    return value


def made_value(info: ValueInfo, feed: Any) -> Value:
    """The feed as a value, with a copy if it needs one: any feed for any kind of input."""
    if isinstance(feed, (Value, Buffer)):
        return right_value(info, feed)
    subject = f"input {info.name!r}"
    wanted = content(info)
    if is_plain(wanted):
        made = Value.from_array(right_array(wanted, feed), subject)
    elif wanted.kind is ValueKind.TENSOR and wanted.element_type is ElementType.STRING:
        made = Value.from_strings(feed, None, subject)
    elif wanted.kind is ValueKind.TENSOR:
        array = as_array(wanted, feed, subject)
        made = Value.from_packed(pack(array, wanted.element_type), wanted.element_type, array.shape, subject)
    elif wanted.kind is ValueKind.SPARSE_TENSOR:
        made = Value.from_sparse(feed, subject=subject)
    elif wanted.kind is ValueKind.SEQUENCE:
        made = Value.from_sequence(feed, wanted.element_type, wanted.key_type or None, subject)
    elif wanted.kind is ValueKind.MAP:
        made = Value.from_map(feed, wanted.key_type, wanted.element_type, subject)
    else:
        raise UnsupportedError(f"{subject} is {phrase(wanted.kind)}, of which no value can be made")
    return right_value(info, made)


def check_reach(session: Session, owner: Handle, value: Value, subject: str) -> None:
    """Raises for a tensor on a device if the session has none: ORT would read its address as host memory."""
    where = value.memory
    if not where.is_host and not has_device(owner, len(session.inputs), len(session.outputs)):
        raise UnsupportedError(
            f"{subject} lies on {where.name}:{where.device_id}, and this session has nothing on a device: zrt.copy "
            "brings it to the host"
        )
