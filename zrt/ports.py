"""A lane's inputs and outputs: where each lives (`LaneMemory`), what is bound (`Port`), what users see (`Ports`)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

import numpy as np

from zrt._native.handle import Handle
from zrt.buffers import Buffer, BufferPolicy
from zrt.errors import DTypeError, UnknownNameError, UnsupportedError
from zrt.memory import CPU, Allocator, MemoryInfo
from zrt.metadata import ValueInfo
from zrt.session import Session
from zrt.shapes import Shape
from zrt.types import ElementType
from zrt.values import Value

View: TypeAlias = "np.ndarray[Any, Any] | Value"


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


@dataclass(frozen=True, slots=True)
class Port:
    """One input or output of a lane; `value` is None where ORT makes it anew in each run, and `why` says why."""

    info: ValueInfo
    where: LaneMemory
    value: Value | None = None
    buffer: Buffer | None = None
    why: str = ""

    def handle(self) -> Handle:
        """The bound value's handle."""
        assert self.value is not None
        return self.value._open()


def view(value: Value) -> View:
    """What users see of a value: a numpy view where there can be one, else the value."""
    if value.memory.is_host and value.element_type not in (ElementType.UNDEFINED, ElementType.STRING):
        return value.numpy()
    return value


def make_port(session: Session, info: ValueInfo, shape: Shape, where: LaneMemory, subject: str) -> Port:
    """Zeroed memory for a tensor of that shape (on a device: as it comes), and the value over it."""
    if not info.is_tensor or info.element_type is ElementType.STRING:
        kind = "strings" if info.is_tensor else f"a {info.kind.name.lower()}"
        raise UnsupportedError(f"{subject}: a lane binds tensors of numbers, this is {kind}")
    if where.kind == "allocated":
        value = Value.allocate(shape, info.element_type, Allocator(session, where.memory), subject)
        if value.memory.is_host:
            value.numpy()[...] = 0
        return Port(info, where, value)
    buffer = Buffer(shape, info.element_type, where.policy)
    return Port(info, where, Value.from_buffer(buffer, subject), buffer)


def checked_memory(where: LaneMemory | None, subject: str) -> LaneMemory:
    """The argument, or the default."""
    if where is None:
        return LaneMemory()
    if not isinstance(where, LaneMemory):
        raise DTypeError(f"{subject}: expected a LaneMemory, got {type(where).__name__}")
    return where


class Ports(Mapping[str, Any]):
    """A lane's inputs or outputs, by name or by index: numpy views on the host, `Value` on a device."""

    __slots__ = ("_names", "_read", "_views", "_what")

    def __init__(self, what: str, ports: Sequence[Port], read: Callable[[int], View]) -> None:
        """`read` gives the view of an output that ORT makes anew in each run, by its index."""
        self._what = what
        self._names = tuple(port.info.name for port in ports)
        self._read = read
        self._views: dict[str | int, View | None] = {}
        for index, port in enumerate(ports):
            self._views[index] = self._views[port.info.name] = None if port.value is None else view(port.value)

    def __getitem__(self, key: str | int) -> Any:
        try:
            found = self._views[key]
        except (KeyError, TypeError):
            names = ", ".join(map(repr, self._names)) or "none"
            raise UnknownNameError(f"the lane has no {self._what} {key!r}; it has {names}") from None
        if found is None:
            return self._read(key if isinstance(key, int) else self._names.index(key))
        return found

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)

    def __repr__(self) -> str:
        return f"<{self._what}s {', '.join(self._names)}>"
