"""Memory for single ports of a lane that the caller gives: its checks, shapes and overlaps."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from zrt._common.arguments import require_type
from zrt._native import status
from zrt._native.handle import Handle
from zrt.errors import ArgumentError, ShapeError
from zrt.lanes.lane_shapes import ShapesLike, by_name
from zrt.lanes.ports import LaneMemory, Port, make_port, require_bindable, view
from zrt.lanes.state_ports import as_ports
from zrt.memory.allocators import MemoryInfo, require_memory
from zrt.memory.buffers import Buffer
from zrt.session.feeds import require_names
from zrt.session.io_binding import writable_value
from zrt.session.session import Session
from zrt.session.value_feeds import check_reach, right_value
from zrt.values.symbolic_shapes import Shape
from zrt.values.type_info import ValueInfo
from zrt.values.value import Value, no_memory

Memory: TypeAlias = "np.ndarray[Any, Any] | Buffer | Value"
PortMemory: TypeAlias = "Memory | Sequence[Memory] | LaneMemory | None"
MemoryLike: TypeAlias = "LaneMemory | Mapping[str, PortMemory] | None"


@dataclass(frozen=True, slots=True)
class Places:
    """The memory of a lane's inputs or outputs."""

    default: LaneMemory
    own: Mapping[str, LaneMemory] = field(default_factory=dict)
    """The ports that the caller named, with their memory; of the kind "given" for memory of the caller's."""
    callers: Mapping[str, tuple[Value, ...]] = field(default_factory=dict)
    """The slots of the ports on memory of the caller's."""
    buffers: Mapping[str, Buffer] = field(default_factory=dict)
    """Those of them whose only slot is a `Buffer`."""

    def of(self, name: str) -> LaneMemory:
        """Where a port lies."""
        return self.own.get(name, self.default)

    def refuse(self, names: Collection[str], role: str) -> None:
        """Raises for memory of these ports, which are those of a state."""
        for name in self.own:
            if name in names:
                raise ArgumentError(f"{role} {name!r}: the state has its memory")

    def port(self, session: Session, info: ValueInfo, place: MemoryInfo, shape: Shape, subject: str) -> Port:
        """The port of that input or output."""
        where, values = self.of(info.name), self.callers.get(info.name)
        if values is None:
            return make_port(session, info, place, shape, where, subject)
        memory = view(values[0]) if len(values) == 1 else None
        return Port(info, place, where, values[0], memory, self.buffers.get(info.name), slots=values)


def places(memories: MemoryLike, session: Session, owner: Handle, role: str) -> Places:
    """The checked argument `inputs` or `outputs` of a lane; `role` is "input" or "output"."""
    subject = f"{role}s"
    if not isinstance(memories, Mapping):
        require_type(memories, LaneMemory | None, subject, "a LaneMemory or a dict of memories by name")
        return Places(_checked(memories, owner, subject, role))
    infos = session.inputs if role == "input" else session.outputs
    require_names(memories, infos, role, subject)
    own, slots, buffers = {}, {}, {}
    for info in infos:
        if info.name not in memories:
            continue
        memory = memories.get(info.name)
        named = f"{role} {info.name!r}"
        if memory is None or isinstance(memory, LaneMemory):
            own[info.name] = _checked(memory, owner, named, role)
            continue
        slots[info.name] = _slots(session, owner, info, memory, role, named)
        own[info.name] = LaneMemory("given", memory=slots[info.name][0].memory)
        if isinstance(memory, Buffer):
            buffers[info.name] = memory
    return Places(LaneMemory(), own, slots, buffers)


def _checked(memory: LaneMemory | None, owner: Handle, subject: str, role: str) -> LaneMemory:
    """The `LaneMemory`, or the default for None; raises if the session has no such memory."""
    if memory is None:
        return LaneMemory()
    if memory.kind not in ("buffers", "allocated", "left"):
        raise ArgumentError(f"{subject}: a LaneMemory is of kind buffers, allocated or left, not {memory.kind!r}")
    require_type(memory.memory, MemoryInfo, subject, "a MemoryInfo")
    require_memory(owner, memory.memory, subject)
    if role == "input" and memory.kind == "left":
        raise ArgumentError(f"{subject}: only outputs can be left to ORT")
    return memory


def _slots(session: Session, owner: Handle, info: ValueInfo, memory: Any, role: str, subject: str) -> tuple[Value, ...]:
    """The values over the caller's memory for one port."""
    require_bindable(info, subject)
    if role == "output" and info.name in session.input_names:
        raise ArgumentError(f"{subject} is an input as well: ORT hands it out again and writes nothing")
    if not isinstance(memory, (list, tuple)):
        return (_value(session, owner, info, memory, role, subject),)
    if not memory:
        raise ArgumentError(f"{subject}: the list of its slots is empty")
    if session._captures and len(memory) > 1:
        raise ArgumentError(f"{subject}: this session captures graphs, which are replayed over one memory")
    values = []
    for index, slot in enumerate(memory):
        with status.named(f"slot {index}"):
            values.append(_value(session, owner, info, slot, role, subject))
    for index, value in enumerate(values):
        if value.shape != values[0].shape:
            raise ShapeError(
                f"{subject}: slot {index} has shape {list(value.shape)}, slot 0 has {list(values[0].shape)}"
            )
        if value.memory != values[0].memory:
            raise ArgumentError(f"{subject}: slot {index} lies on {value.memory}, slot 0 on {values[0].memory}")
    return tuple(values)


def _value(session: Session, owner: Handle, info: ValueInfo, memory: Any, role: str, subject: str) -> Value:
    if not isinstance(memory, (np.ndarray, Buffer, Value)):
        raise no_memory(subject, "an array, a Buffer, a Value, a list of these or a LaneMemory", memory)
    value = right_value(info, memory) if role == "input" else writable_value(info, memory, subject)
    check_reach(session, owner, value, subject)
    # The caller may close a Value of their own.
    return Value(value._open(), value.writeable, value.memory)


def with_shapes(shapes: ShapesLike, memories: MemoryLike, infos: Sequence[ValueInfo], role: str) -> ShapesLike:
    """The shapes that the caller gave, with those of the given memory. Raises `ShapeError` where they differ."""
    known = {info.name for info in infos}
    own = {name: shape for name, shape in _shapes(memories) if name in known}
    if not own:
        return shapes
    named = by_name(shapes, infos, role)
    for name, shape in own.items():
        if named.setdefault(name, shape) != shape:
            raise ShapeError(f"{role} {name!r}: shapes has {list(named[name])} for it, its memory has {list(shape)}")
    return named


def _shapes(memories: MemoryLike) -> Iterator[tuple[str, Shape]]:
    for name, memory in list(memories.items()) if isinstance(memories, Mapping) else ():
        first = memory[0] if isinstance(memory, (list, tuple)) and memory else memory
        if isinstance(first, np.ndarray):
            # A subclass may report another shape than that of its memory.
            yield name, np.asarray(first).shape
        elif isinstance(first, (Buffer, Value)):
            yield name, first.shape


def refuse_shared_writes(options: Mapping[str, Any], lanes: str) -> None:
    """Raises if `lanes`, which are several with these arguments, would write into the same memory of the caller's."""
    state = options.get("state")
    followed = () if state is None else as_ports(state).follow
    for role in ("input", "output"):
        for name, _ in _shapes(options.get(f"{role}s")):
            if role == "output" or name in followed:
                raise ArgumentError(f"{role} {name!r}: {lanes} would write into the same memory; give a LaneMemory")


class _Span(NamedTuple):
    """The addresses of one slot, from `start` up to `stop`."""

    device: tuple[int, int]
    start: int
    stop: int
    role: str
    name: str


def refuse_overlaps(inputs: Sequence[Port], outputs: Sequence[Port]) -> None:
    """Raises if a run would write into memory that another port of the lane reads or writes."""
    for one, other in _overlaps([*_spans(inputs, "input"), *_spans(outputs, "output")]):
        if "output" in (one.role, other.role):
            written, port = (one, other) if one.role == "output" else (other, one)
            raise ArgumentError(
                f"output {written.name!r}: ORT would write it into the memory of {port.role} {port.name!r}"
            )


def sharers(inputs: Sequence[Port]) -> dict[str, set[str]]:
    """For each input on memory that others of the lane read too, the names of those."""
    others: dict[str, set[str]] = {}
    for one, other in _overlaps(_spans(inputs, "input")):
        others.setdefault(one.name, set()).add(other.name)
        others.setdefault(other.name, set()).add(one.name)
    return others


def _spans(ports: Sequence[Port], role: str) -> Iterator[_Span]:
    for port in ports:
        for value in port.slots:
            where = value.memory
            device = (0, 0) if where.is_host else (1 + int(where.device_type), where.device_id)
            if value.nbytes:
                yield _Span(device, value.address, value.address + value.nbytes, role, port.info.name)


def _overlaps(spans: Iterable[_Span]) -> Iterator[tuple[_Span, _Span]]:
    """The pairs of spans of different ports that share a byte."""
    before: list[_Span] = []
    for span in sorted(spans):
        before = [other for other in before if other.device == span.device and other.stop > span.start]
        yield from ((other, span) for other in before if (other.role, other.name) != (span.role, span.name))
        before.append(span)
