"""A lane's inputs and outputs: where each lives (`LaneMemory`), what is bound (`Port`), what users see (`Ports`)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

import numpy as np

from zrt._common.arguments import shown, wrong_type
from zrt._common.public import public
from zrt._native import status
from zrt._native.handle import Handle
from zrt.errors import AllocationError, ArgumentError, DTypeError, ShapeError, UnknownNameError, UnsupportedError
from zrt.memory.allocators import CPU, Allocator, MemoryInfo
from zrt.memory.buffers import Buffer, BufferPolicy
from zrt.session.session import Session
from zrt.types import ElementType
from zrt.values import Value
from zrt.values.symbolic_shapes import Shape
from zrt.values.type_info import ValueInfo, phrase

View: TypeAlias = "np.ndarray[Any, Any] | Value"


@public
@dataclass(frozen=True, slots=True)
class LaneMemory:
    """Where a lane's inputs or outputs live; its class methods make it."""

    kind: Literal["buffers", "allocated", "left"] = "buffers"
    policy: BufferPolicy = BufferPolicy.AUTO
    memory: MemoryInfo = CPU

    @classmethod
    def buffers(cls, policy: BufferPolicy = BufferPolicy.AUTO) -> LaneMemory:
        """Our own memory on the host, laid out as `policy` says: the default."""
        return cls("buffers", policy)

    @classmethod
    def allocated(cls, memory: MemoryInfo = CPU) -> LaneMemory:
        """Tensors that the session's allocator for `memory` makes once."""
        return cls("allocated", memory=memory)

    @classmethod
    def left(cls, memory: MemoryInfo = CPU) -> LaneMemory:
        """Outputs that ORT makes anew in each run, on `memory`."""
        return cls("left", memory=memory)


_DEFAULT = LaneMemory()


@dataclass(frozen=True, slots=True)
class Port:
    """One input or output of a lane; `value` is None where ORT makes it anew in each run, and `why` says why."""

    info: ValueInfo
    where: LaneMemory
    value: Value | None = None
    view: View | None = None
    buffer: Buffer | None = None
    why: str = ""

    def handle(self) -> Handle:
        """The bound value's handle."""
        assert self.value is not None
        return self.value._open()


def view(value: Value) -> View:
    """What users see of a value: a numpy view where there can be one, else the value."""
    return value.numpy() if value.is_tensor and value.memory.is_host else value


def clear(array: np.ndarray[Any, Any]) -> None:
    """Sets every byte of a contiguous array to 0: not every type has a number for that (float8e8m0)."""
    array.reshape(-1).view(np.uint8).fill(0)


def unbindable(info: ValueInfo) -> str:
    """Why no memory can be bound for it: "" for tensors of numbers."""
    if not info.is_tensor:
        return f"is {phrase(info.kind)}"
    return "holds strings" if info.element_type is ElementType.STRING else ""


def make_port(session: Session, info: ValueInfo, shape: Shape, where: LaneMemory, subject: str) -> Port:
    """Zeroed memory for a tensor of that shape (on a device: as it comes), and the value over it."""
    reason = unbindable(info)
    if reason:
        raise UnsupportedError(f"{subject} {reason}: a lane binds tensors of numbers")
    if where.kind == "allocated":
        value = Value.allocate(shape, info.element_type, Allocator(session, where.memory), subject)
        seen = view(value)
        if isinstance(seen, np.ndarray):
            clear(seen)
        return Port(info, where, value, seen)
    try:
        buffer = Buffer(shape, info.element_type, where.policy)
    except (AllocationError, DTypeError, ShapeError) as error:
        raise status.about(subject, error) from error
    value = Value.from_buffer(buffer, subject)
    return Port(info, where, value, view(value), buffer)


def checked_memory(where: LaneMemory | None, session: Handle, subject: str) -> LaneMemory:
    """The argument, or the default; memory that the session does not have is refused."""
    if where is None:
        return _DEFAULT
    if not isinstance(where, LaneMemory):
        raise wrong_type(subject, "a LaneMemory", where)
    if where.kind not in ("buffers", "allocated", "left"):
        raise ArgumentError(f"{subject}: a LaneMemory is of kind buffers, allocated or left, not {where.kind!r}")
    if not isinstance(where.memory, MemoryInfo):
        raise wrong_type(subject, "a MemoryInfo", where.memory)
    if where.memory != CPU:
        try:
            Allocator.of(session, where.memory)
        except ArgumentError as error:
            raise status.about(subject, error) from error
    return where


class Ports(Mapping[str, Any]):
    """A lane's inputs or outputs, by name or by index: numpy views on the host, `Value` on a device."""

    __slots__ = ("_names", "_read", "_views", "_what")

    def __init__(self, what: str, ports: Sequence[Port], read: Callable[[int], View | None]) -> None:
        """`read` gives the view of an output that ORT makes anew in each run, by its index."""
        self._what = what
        self._names = tuple(port.info.name for port in ports)
        self._read = read
        self._views: dict[str | int, View | None] = {}
        for index, port in enumerate(ports):
            self._views[index] = self._views[port.info.name] = port.view

    def __getitem__(self, key: str | int) -> Any:
        try:
            found = self._views[key]
        except (KeyError, TypeError):
            names = ", ".join(map(repr, self._names)) or "none"
            raise UnknownNameError(f"the lane has no {self._what} {shown(key)}; it has {names}") from None
        if found is None:
            return self._read(self._names.index(key) if isinstance(key, str) else int(key))
        return found

    def __contains__(self, key: object) -> bool:
        # Mapping's own would read the output, which may not be there yet.
        return key in self._names

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)

    def __repr__(self) -> str:
        return f"<{self._what}s {', '.join(self._names)}>"
