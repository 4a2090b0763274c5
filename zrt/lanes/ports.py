"""A lane's inputs and outputs: their memory (`LaneMemory`), what is bound (`Port`), the users' views (`Ports`)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

import numpy as np

from zrt._common.arguments import shown
from zrt._common.public import public, public_in
from zrt._native import status
from zrt._native.handle import Handle
from zrt.errors import AllocationError, DTypeError, OutOfRangeError, ShapeError, UnknownNameError
from zrt.memory.allocators import CPU, Allocator, MemoryInfo
from zrt.memory.buffers import Buffer, BufferPolicy
from zrt.session.feeds import check_kind
from zrt.session.session import Session
from zrt.types import nbytes
from zrt.values.symbolic_shapes import Shape
from zrt.values.type_info import ValueInfo
from zrt.values.value import Value

View: TypeAlias = "np.ndarray[Any, Any] | Value"


@public
@dataclass(frozen=True, slots=True)
class LaneMemory:
    """Where a lane's inputs or outputs live. Make one with its class methods."""

    kind: Literal["buffers", "allocated", "left", "given"] = "buffers"
    """Users make the first three; a port on memory of the caller's is of the kind "given"."""
    policy: BufferPolicy = BufferPolicy.AUTO
    memory: MemoryInfo = CPU

    @classmethod
    def buffers(cls, policy: BufferPolicy = BufferPolicy.AUTO) -> LaneMemory:
        """Buffers of zrt on the host, allocated as `policy` says: the default."""
        return cls("buffers", policy)

    @classmethod
    def allocated(cls, memory: MemoryInfo = CPU) -> LaneMemory:
        """Tensors that the session's allocator for `memory` allocates once."""
        return cls("allocated", memory=memory)

    @classmethod
    def left(cls, memory: MemoryInfo = CPU) -> LaneMemory:
        """Outputs that ORT allocates in each run, on `memory`."""
        return cls("left", memory=memory)


@dataclass(frozen=True, slots=True)
class Port:
    """One input or output of a lane; `value` is None for an output that is left to ORT, and `why` gives the reason."""

    info: ValueInfo
    place: MemoryInfo
    """The memory on which ORT reads or writes it."""
    where: LaneMemory
    value: Value | None = None
    view: View | None = None
    buffer: Buffer | None = None
    why: str = ""
    slots: tuple[Value, ...] = ()
    """The values over the memory that the caller gave; `value` is the first one."""

    @property
    def beside(self) -> bool:
        """Whether ORT reads or writes the port's own memory, without a copy between devices."""
        return self.where.memory._beside(self.place)

    @property
    def nbytes(self) -> int:
        """The bytes of the bound value."""
        return 0 if self.value is None else nbytes(self.info.element_type, self.value.shape)

    def handle(self) -> Handle:
        assert self.value is not None
        return self.value._open()

    def handles(self) -> list[Handle]:
        """The handles of all values that can be bound."""
        return [slot._open() for slot in self.slots] if self.slots else [] if self.value is None else [self.handle()]


def view(value: Value) -> View:
    """The user's view of a value: a numpy array where possible, else the value."""
    return value.numpy() if value.is_tensor and value.memory.is_host else value


def clear(array: np.ndarray[Any, Any]) -> None:
    """Sets every byte of a contiguous array to 0. Assigning 0 is not the same: float8e8m0 has no zero."""
    array.reshape(-1).view(np.uint8).fill(0)


def require_bindable(info: ValueInfo, subject: str) -> None:
    """Raises for an input or output that no memory can be bound for."""
    check_kind(info, subject, "a lane binds tensors of numbers")


def make_port(
    session: Session, info: ValueInfo, place: MemoryInfo, shape: Shape, where: LaneMemory, subject: str
) -> Port:
    """A port with memory for a tensor of that shape; the memory is zeroed on the host and undefined on a device."""
    if where.kind == "allocated":
        value = Value.allocate(shape, info.element_type, Allocator(session, where.memory), subject)
        memory = view(value)
        if isinstance(memory, np.ndarray):
            clear(memory)
        return Port(info, place, where, value, memory)
    try:
        buffer = Buffer(shape, info.element_type, where.policy)
    except (AllocationError, DTypeError, ShapeError) as error:
        raise status.about(subject, error) from error
    value = Value.from_buffer(buffer, subject)
    return Port(info, place, where, value, view(value), buffer)


@public_in("zrt.typing")
class Ports(Mapping[str, Any]):
    """A lane's inputs or outputs, by name or by index: numpy views on the host, `Value` on a device."""

    __slots__ = ("_names", "_read", "_role", "_views")

    def __init__(self, role: str, ports: Sequence[Port], read: Callable[[int], View | None]) -> None:
        """`role` is "input" or "output"; `read` returns the view of an output that is left to ORT, by its index."""
        self._role = role
        self._names = tuple(port.info.name for port in ports)
        self._read = read
        self._views: dict[str | int, View | None] = {}
        for index, port in enumerate(ports):
            self._views[index] = self._views[port.info.name] = port.view

    def __getitem__(self, key: str | int) -> Any:
        # A look-up takes one step: it may be in a caller's hot path. To a dict True and 0.0 would be indices as well.
        kind = type(key)
        memory = self._views.get(key) if kind is str or kind is int else None
        if memory is not None:
            return memory
        index = self._index(key)
        memory = self._views[index]
        return self._read(index) if memory is None else memory

    def _index(self, key: Any) -> int:
        """The index of a port, from its name or index."""
        if isinstance(key, str) and key in self._names:
            return self._names.index(key)
        if isinstance(key, (int, np.integer)) and not isinstance(key, bool):
            if 0 <= key < len(self._names):
                return int(key)
            raise OutOfRangeError(f"lane {self._role} {shown(key)}: there are {len(self._names)}, counted from 0")
        names = ", ".join(map(repr, self._names)) or "none"
        raise UnknownNameError(f"the lane has no {self._role} {shown(key)}; it has {names}")

    def get(self, key: str | int, default: Any = None) -> Any:
        """The view of an input or output; `default` where the lane has none of this name or index."""
        try:
            index = self._index(key)
        except LookupError:
            return default
        return self[index]

    def __contains__(self, key: object) -> bool:
        # Mapping.__contains__ would read the output, which raises before the first run.
        return key in self._names

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)

    def __repr__(self) -> str:
        return f"<{self._role}s {', '.join(self._names)}>"
