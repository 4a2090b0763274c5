"""Runs over values: the feeds as values, checked and converted by zrt, or as they are and checked by ONNX Runtime."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from zrt._common.arguments import text, texts, wrong_type
from zrt._native import status
from zrt._native.cdata import new_array
from zrt._native.handle import Handle
from zrt._native.session_handle import SessionHandle
from zrt.errors import DTypeError, Error, UnsupportedError
from zrt.loading.run_options import RunOptions
from zrt.memory.allocators import has_device
from zrt.memory.buffers import Buffer
from zrt.session.async_runs import Work
from zrt.session.call import Call, known
from zrt.session.feeds import as_array, check_kind, check_type, right_array
from zrt.session.outputs import Wanted, take_value
from zrt.session.session import Session
from zrt.types import ElementType, ValueKind, pack
from zrt.values import symbolic_shapes
from zrt.values.type_info import ValueInfo, content, format_type, is_plain, phrase
from zrt.values.value import Value, as_value

# Tensors have memory of their own unless they are fed under the same name. Containers may share tensors of any feed.
_APART = ValueKind.TENSOR, ValueKind.SPARSE_TENSOR


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


def value_of(info: ValueInfo, feed: Any) -> Value:
    """The feed as a value, with a copy if it needs one: any feed for any kind of input."""
    if isinstance(feed, (Value, Buffer)):
        return right_value(info, feed)
    subject = f"input {info.name!r}"
    try:
        return right_value(info, _converted(content(info), feed, subject))
    except Error:
        raise
    except MemoryError as error:
        raise status.no_memory(subject, error) from error


def _converted(wanted: ValueInfo, feed: Any, subject: str) -> Value:
    if is_plain(wanted):
        return Value.from_array(right_array(wanted, feed), subject)
    if wanted.kind is ValueKind.TENSOR and wanted.element_type is ElementType.STRING:
        return Value.from_strings(feed, None, subject)
    if wanted.kind is ValueKind.TENSOR:
        array = as_array(wanted, feed, subject)
        return Value.from_packed(pack(array, wanted.element_type), wanted.element_type, array.shape, subject)
    if wanted.kind is ValueKind.SPARSE_TENSOR:
        return Value.from_sparse(feed, subject=subject)
    if wanted.kind is ValueKind.SEQUENCE:
        return Value.from_sequence(feed, wanted.element_type, wanted.key_type or None, subject)
    if wanted.kind is ValueKind.MAP:
        return Value.from_map(feed, wanted.key_type, wanted.element_type, subject)
    raise UnsupportedError(f"{subject} is {phrase(wanted.kind)}, of which no value can be made")


def check_reach(session: Session, owner: Handle, value: Value, subject: str) -> None:
    """Raises for a tensor on a device if the session has none: ORT would read its address as host memory."""
    where = value.memory
    if not where.is_host and not has_device(owner, len(session.inputs), len(session.outputs)):
        raise UnsupportedError(
            f"{subject} lies on {where.name}:{where.device_id}, and this session has nothing on a device: zrt.copy "
            "brings it to the host"
        )


def over_values(
    session: Session, fed: Sequence[tuple[ValueInfo, Any]], values: Sequence[Value], wanted: tuple[str, ...] | None
) -> tuple[Call, Any, list[Handle]]:
    """The call over these values for the inputs of `fed`, and its inputs for `Call.run`."""
    owner = session._open()
    for (info, _), value in zip(fed, values, strict=True):
        check_reach(session, owner, value, f"input {info.name!r}")
    call = session._call([(info, value.shape) for (info, _), value in zip(fed, values, strict=True)], wanted)
    return call, *pointers([value._open() for value in values])


def pointers(handles: list[Handle]) -> tuple[Any, list[Handle]]:
    """The values of these handles as a C array, and the handles."""
    return new_array("OrtValue *", [handle.pointer for handle in handles]), handles


def _handles(session: Session, owner: Handle, feeds: Mapping[str, Value]) -> dict[str, Handle]:
    """The handles by name. A mapping of the caller's is read once: two readings may differ."""
    if not isinstance(feeds, Mapping):
        raise wrong_type("feeds", "a dict of values", feeds)
    handles = {}
    for key, value in feeds.items():
        # A subclass of str may override comparison, by which the session finds the call of these names.
        name = text(key, "the name of a feed").decode()
        subject = f"input {name!r}"
        if not isinstance(value, Value):
            raise wrong_type(subject, "a Value", value)
        handles[name] = value._open()
        check_reach(session, owner, value, subject)
    return handles


def _unknown(name: str) -> ValueInfo:
    return ValueInfo(name, ValueKind.UNKNOWN, ElementType.UNDEFINED, None)


class ValueCall(Call):
    """The call of all runs with feeds and outputs of the same names, of which ORT allocates every output."""

    __slots__ = ("_fed",)

    # Without feeds it would pass for the call of a run of arrays without feeds.
    _by_feeds = False

    def __init__(self, key: Any, session: SessionHandle, fed: tuple[str, ...], outputs: Sequence[str]) -> None:
        super().__init__(
            key, session, [(_unknown(name), ()) for name in fed], [Wanted(_unknown(name), None) for name in outputs]
        )
        self._fed = fed

    def put_objects(self, results: list[Any], handles: Sequence[Handle]) -> None:
        """Puts a `Value` for each output into the results, None for an absent optional."""
        for index, output in enumerate(self.outputs):
            if results[index] is not None:
                passed = output.info.name in self._fed
                value = take_value(results[index], self.session, handles if passed else (), writeable=not passed)
                if not passed and value.kind not in _APART:
                    value._handle = value._open().holding(*handles)
                results[index] = value


def prepare(
    session: Session, feeds: Mapping[str, Value], outputs: Sequence[str] | None
) -> tuple[Call, Any, list[Handle]]:
    """The call, and the arguments of `Call.run` before the options."""
    owner = session._open()
    handles = _handles(session, owner, feeds)
    names = session.output_names if outputs is None else tuple(texts(outputs, "outputs"))
    fed = tuple(handles)
    key = ValueCall, fed, names
    call = known(session._calls, key)
    if call is None:
        call = ValueCall(key, owner, fed, names)
        session._remember(call)
    return call, *pointers(list(handles.values()))


def ready(
    session: Session, feeds: Mapping[str, Value], outputs: Sequence[str] | None, options: RunOptions | None
) -> Work:
    """A run over values for another thread."""
    session._check_replay(options)
    RunOptions.opened(options, session._open())
    return partial(Call.run, *prepare(session, feeds, outputs))
