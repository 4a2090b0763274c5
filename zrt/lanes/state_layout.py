"""The layout of a lane's states: the shapes, types and places of its pairs, found from the session's declarations."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

import numpy as np

from zrt._common.arguments import shown
from zrt._native import lib
from zrt._native.cdata import NULL, new_array, strings
from zrt._native.forks import RunTable
from zrt._native.handle import Handle
from zrt._native.library import api
from zrt.errors import AllocationError, ArgumentError, ShapeError, UnknownNameError, UnsupportedError
from zrt.lanes import lane_shapes
from zrt.lanes.lane_shapes import ShapesLike
from zrt.lanes.ports import unbindable
from zrt.lanes.state_ports import StatePair, StatePorts
from zrt.memory.allocators import MOST_BYTES, MemoryInfo, session_memories
from zrt.session.feeds import names_of
from zrt.session.session import Session
from zrt.types import ElementType, creation_code, nbytes
from zrt.values import symbolic_shapes
from zrt.values.symbolic_shapes import Shape
from zrt.values.type_info import ValueInfo, format_shape

FIXED: Final[int] = lib.ZRT_PAIR_FIXED
GROWING: Final[int] = lib.ZRT_PAIR_GROWING
IN_PLACE: Final[int] = lib.ZRT_PAIR_IN_PLACE
ONCE: Final[int] = lib.ZRT_PAIR_ONCE
MASK: Final[int] = lib.ZRT_PAIR_MASK

_FOLLOWS: Final = {
    "positions": lib.ZRT_FOLLOW_POSITIONS,
    "steps": lib.ZRT_FOLLOW_STEPS,
    "past": lib.ZRT_FOLLOW_PAST,
    "total": lib.ZRT_FOLLOW_TOTAL,
    "last": lib.ZRT_FOLLOW_LAST,
}

# Inputs whose second dimension counts the steps of a run.
_STEPPED: Final = ("input_ids", "decoder_input_ids", "inputs_embeds", "tokens", "token_ids")

_INTEGERS: Final = (ElementType.INT64, ElementType.INT32, ElementType.BOOL)


class Pair(NamedTuple):
    """An input that carries state, with its shape; where it grows, at capacity."""

    kind: int
    info: ValueInfo
    output: str | None
    dims: Shape
    axis: int | None
    memory: MemoryInfo

    def shape(self, steps: int) -> Shape:
        """The shape at this number of steps."""
        if self.kind in (GROWING, MASK) and self.axis is not None:
            return (*self.dims[: self.axis], steps, *self.dims[self.axis + 1 :])
        return self.dims

    @property
    def element_type(self) -> ElementType:
        """The element type."""
        return self.info.element_type

    @property
    def nbytes(self) -> int:
        """The bytes of one buffer."""
        return nbytes(self.element_type, self.dims)

    @property
    def blocks(self) -> int:
        """How many blocks of steps lie one behind the other."""
        return math.prod(self.dims[: self.axis or 0])

    @property
    def step_bytes(self) -> int:
        """The bytes of one step in a block."""
        return nbytes(self.element_type, self.dims[(self.axis or 0) + 1 :]) if self.axis is not None else 0

    def __str__(self) -> str:
        return f"{self.info.name}: {list(self.dims)}"


class Layout:
    """The pairs of a session's states, and the ``zrt_layout`` of them: states fit lanes of the same layout."""

    __slots__ = ("__weakref__", "by_name", "capacity", "handle", "pairs")

    def __init__(self, pairs: Sequence[Pair], capacity: int, window: int, table: RunTable) -> None:
        """`table` is that of the session: in a forked child it binds nothing."""
        self.pairs = tuple(pairs)
        self.by_name = {pair.info.name: index for index, pair in enumerate(pairs)}
        self.capacity = capacity
        memories = [pair.memory.handle() for pair in pairs]
        inputs = strings(pair.info.name for pair in pairs)
        outputs = strings(pair.output or "" for pair in pairs)
        rows = new_array("zrt_pair", len(pairs))
        kept: list[Any] = [inputs, outputs, rows]
        for index, (row, pair, memory) in enumerate(zip(rows, pairs, memories, strict=True)):
            dims, one = new_array("int64_t", pair.dims), _one(pair)
            kept += [dims, one]
            row.kind = pair.kind
            row.input = inputs[index]
            row.output = outputs[index] if pair.output is not None else NULL
            row.memory = memory.pointer
            row.type = creation_code(pair.element_type)
            row.rank, row.dims, row.axis = len(pair.dims), dims, pair.axis or 0
            row.blocks, row.step_bytes, row.bytes = pair.blocks, pair.step_bytes, pair.nbytes
            row.one = one
        self.handle = Handle.block("zrt_layout", [Handle.pin(tuple(kept)), *memories])
        layout = self.handle.pointer
        layout.api = table.pointer
        layout.count, layout.pairs = len(pairs), rows
        layout.capacity, layout.window = capacity, window
        mask = next((index for index, pair in enumerate(pairs) if pair.kind == MASK), len(pairs))
        layout.mask = mask
        layout.rows = pairs[mask].dims[0] if mask < len(pairs) else 1

    def difference(self, other: Layout) -> str:
        """Why a state of the other layout does not fit; "" where only the session differs."""
        for mine, its in zip(self.pairs, other.pairs, strict=False):
            if (mine.info.name, mine.dims, mine.kind, mine.element_type) != (
                its.info.name,
                its.dims,
                its.kind,
                its.element_type,
            ):
                return f"this lane carries {mine}, the state has {its}"
        if len(self.pairs) != len(other.pairs):
            return f"this lane carries {len(self.pairs)} inputs, the state has {len(other.pairs)}"
        return ""


def _one(pair: Pair) -> Any:
    """The element of a mask for a step that counts, as bytes."""
    if pair.kind != MASK:
        return new_array("char", 1)
    return new_array("char", list(map(_byte, np.ones((), pair.element_type.dtype).tobytes())))


def _byte(number: int) -> bytes:
    return bytes((number,))


class Follower(NamedTuple):
    """An input that the lane writes before each run: a kind of state.h."""

    kind: int
    name: str


class Carried(NamedTuple):
    """Everything about the state of a lane that follows from its arguments."""

    layout: Layout
    followers: tuple[Follower, ...]
    step: int
    shapes: dict[str, Shape]
    """The shapes of all inputs, in a first run."""
    output_shapes: dict[str, Shape]
    """The given shapes of outputs, and those of the pairs in a first run."""

    @property
    def inputs(self) -> frozenset[str]:
        """The inputs that the lane has no memory for: those of its states."""
        return frozenset(self.layout.by_name)

    @property
    def outputs(self) -> frozenset[str]:
        """The outputs that states take."""
        return frozenset(pair.output for pair in self.layout.pairs if pair.output is not None)


def resolve(session: Session, ports: StatePorts, shapes: ShapesLike, output_shapes: ShapesLike) -> Carried:
    """The layout of states for lanes of these shapes. Raises for pairs that the model does not have."""
    owner = session._open()
    infos = {info.name: info for info in session.inputs}
    outputs = {info.name: info for info in session.outputs}
    places = session_memories(api().SessionGetMemoryInfoForInputs, owner, len(session.inputs))
    where = dict(zip(infos, places, strict=True))
    given = lane_shapes.by_name(shapes, session.inputs, "input")
    _check_names(ports, infos, outputs, session)
    known = symbolic_shapes.bind(
        [infos[name] for name in given if name not in _carried_names(ports)],
        [shape for name, shape in given.items() if name not in _carried_names(ports)],
    )
    capacity = ports.capacity or 0
    counted = bool(ports.follow) or any(pair.axis is not None and not pair.once for pair in ports.each)
    step = _step(ports, session, given, known) if counted else 1
    pairs = [
        _pair(each, infos[each.input], outputs, known, given.get(each.input), capacity, where[each.input])
        for each in ports.each
    ]
    followers, more = _followers(ports, infos, known | _bound(pairs), given, capacity, step, where)
    pairs += more
    for pair in pairs:
        if pair.nbytes > MOST_BYTES:
            raise AllocationError(
                f"state {pair.info.name!r}: no memory for {pair.nbytes} bytes: more than an address space has"
            )
    if counted and step > capacity:
        raise ArgumentError(f"capacity: a run has {step} steps, more than {capacity}")
    key = tuple(pairs), capacity if counted else 0, ports.window, owner.table
    layout = session._layouts.get(key)
    if layout is None:
        # One of two threads stores first; both get its layout.
        layout = session._layouts.setdefault(key, Layout(*key))
    first = {name: shape for name, shape in given.items() if name not in layout.by_name}
    first |= {pair.info.name: pair.shape(step if pair.kind == MASK else 0) for pair in pairs}
    first |= _follower_shapes(ports, infos, known | _bound(pairs), given, step)
    made = {pair.output: pair.shape(step) for pair in pairs if pair.output is not None and pair.kind != ONCE}
    return Carried(layout, followers, step, first, lane_shapes.by_name(output_shapes, session.outputs, "output") | made)


def _carried_names(ports: StatePorts) -> set[str]:
    return {pair.input for pair in ports.each}


def _check_names(
    ports: StatePorts, infos: Mapping[str, ValueInfo], outputs: Mapping[str, ValueInfo], session: Session
) -> None:
    for pair in ports.each:
        if pair.input not in infos:
            raise UnknownNameError(
                f"state: the model has no input {shown(pair.input)}; it has {names_of(session.inputs)}"
            )
        if pair.output is not None and pair.output not in outputs:
            raise UnknownNameError(
                f"state: the model has no output {shown(pair.output)}; it has {names_of(session.outputs)}"
            )
        if pair.output in infos:
            raise UnsupportedError(
                f"state {pair.input!r}: the output {pair.output!r} is an input as well, and ONNX Runtime returns that "
                "input's memory"
            )
    names = _carried_names(ports)
    for name in (*ports.follow, *((ports.step,) if isinstance(ports.step, str) else ()), *ports.initial):
        if name not in infos:
            raise UnknownNameError(f"state: the model has no input {shown(name)}; it has {names_of(session.inputs)}")
    for name in ports.follow:
        if name in names:
            raise ArgumentError(f"state: input {name!r} is in a pair, and cannot follow the steps")
    for name in ports.initial:
        if name not in names and ports.follow.get(name) != "mask":
            raise ArgumentError(f"initial: input {name!r} is not part of the state")


def _pair(
    pair: StatePair,
    info: ValueInfo,
    outputs: Mapping[str, ValueInfo],
    known: Mapping[str, int],
    given: Shape | None,
    capacity: int,
    memory: MemoryInfo,
) -> Pair:
    subject = f"state {info.name!r}"
    for each in (info, *([outputs[pair.output]] if pair.output is not None else [])):
        reason = unbindable(each)
        if reason:
            raise UnsupportedError(f"{subject}: {each.name!r} {reason}: a state holds tensors of numbers")
        if each.element_type is not info.element_type:
            raise ArgumentError(
                f"{subject}: the input is of {info.element_type.name}, the output {pair.output!r} of "
                f"{each.element_type.name}"
            )
    if info.element_type.refused:
        raise UnsupportedError(f"{subject}: {info.element_type.name} tensors: {info.element_type.refused}")
    rank = len(given) if given is not None else len(info.shape) if info.shape is not None else None
    axis = _axis(pair, rank, subject)
    if pair.once:
        declared = given if given is not None else info.shape
        if declared is None:
            raise ShapeError(f"{subject}: its rank is open; give its shape in shapes")
        # Empty before the first run: a size that is not known is 0. A shape without open sizes holds zeros.
        first = [dim if isinstance(dim, int) else known.get(dim or "", 0) for dim in declared]
        if info.static_shape is None and first:
            first[axis if axis is not None else max(len(first) - 2, 0)] = 0
        return Pair(ONCE, info, pair.output, tuple(first), None, memory)
    dims = _dims(info, known, given, axis, capacity, subject)
    if pair.output is not None and axis is None:
        other = symbolic_shapes.solve(outputs[pair.output], known)
        if other is not None and other != dims and math.prod(other) != math.prod(dims):
            raise ShapeError(
                f"{subject}: the input has the shape {list(dims)}, the output {pair.output!r} {list(other)}; an output "
                "that grows has an axis"
            )
    if axis is not None and info.element_type.packed:
        raise UnsupportedError(f"{subject}: {info.element_type.name} is packed, and its steps begin within a byte")
    kind = IN_PLACE if pair.in_place else GROWING if axis is not None else FIXED
    return Pair(kind, info, pair.output, dims, axis, memory)


def _axis(pair: StatePair, rank: int | None, subject: str) -> int | None:
    if pair.axis is None:
        return None
    if rank is None:
        raise ShapeError(f"{subject}: its rank is open; give its shape in shapes")
    if not -rank <= pair.axis < rank:
        raise ArgumentError(f"{subject}: axis {pair.axis} of {rank} dimensions")
    return pair.axis % rank


def _dims(
    info: ValueInfo, known: Mapping[str, int], given: Shape | None, axis: int | None, capacity: int, subject: str
) -> Shape:
    declared: Sequence[Any] | None = given if given is not None else info.shape
    if declared is None:
        raise ShapeError(f"{subject}: its rank is open; give its shape in shapes")
    dims = []
    for index, dim in enumerate(declared):
        size = capacity if index == axis else dim if isinstance(dim, int) else known.get(dim or "")
        if size is None:
            raise ShapeError(
                f"{subject}: its shape {format_shape(info.shape)} is open in {dim or '?'}; give shapes="
                f"{{{info.name!r}: ...}}"
            )
        dims.append(size)
    return tuple(dims)


def _bound(pairs: Sequence[Pair]) -> dict[str, int]:
    """The sizes by name that the pairs' shapes tell, but for the axis that grows."""
    sizes: dict[str, int] = {}
    for pair in pairs:
        for index, (dim, size) in enumerate(zip(pair.info.shape or (), pair.dims, strict=False)):
            if isinstance(dim, str) and index != pair.axis and pair.kind != ONCE:
                sizes.setdefault(dim, size)
    return sizes


def _step(ports: StatePorts, session: Session, given: Mapping[str, Shape], known: Mapping[str, int]) -> int:
    """The steps of a run."""
    if isinstance(ports.step, int):
        return ports.step
    wanted = _STEPPED if ports.step is None else (ports.step,)
    for info in (info for name in wanted for info in session.inputs if info.name == name):
        shape = given.get(info.name) or symbolic_shapes.solve(info, known)
        if shape is not None:
            return shape[1] if len(shape) > 1 else 1
        raise ShapeError(
            f"input {info.name!r}: its shape {format_shape(info.shape)} is open, and its second dimension is the "
            f"number of steps of a run; give shapes={{{info.name!r}: ...}}"
        )
    return 1


def _followers(
    ports: StatePorts,
    infos: Mapping[str, ValueInfo],
    known: Mapping[str, int],
    given: Mapping[str, Shape],
    capacity: int,
    step: int,
    where: Mapping[str, MemoryInfo],
) -> tuple[tuple[Follower, ...], list[Pair]]:
    """The inputs that C writes before a run, and the mask, which is part of a state."""
    followers: list[Follower] = []
    masks: list[Pair] = []
    for name, role in ports.follow.items():
        info, subject = infos[name], f"follow {name!r}"
        reason = unbindable(info)
        if reason:
            raise UnsupportedError(f"{subject}: it {reason}")
        if role == "mask":
            if masks:
                raise ArgumentError(f"{subject}: a state has one mask, {masks[0].info.name!r}")
            if info.element_type.dtype is None or info.element_type.packed:
                raise UnsupportedError(f"{subject}: a mask of {info.element_type.name}")
            if info.shape is None or len(info.shape) != 2:
                raise UnsupportedError(f"{subject}: a mask has the shape [rows, steps], not {format_shape(info.shape)}")
            rows = given[name][0] if name in given else info.shape[0]
            if not isinstance(rows, int):
                rows = known.get(rows or "", 1)
            masks.append(Pair(MASK, info, None, (rows, capacity), 1, where[name]))
            continue
        if info.element_type not in _INTEGERS:
            raise UnsupportedError(f"{subject}: it is of {info.element_type.name}, not of integers")
        followers.append(Follower(_FOLLOWS[role], name))
    return tuple(followers), masks


def _follower_shapes(
    ports: StatePorts,
    infos: Mapping[str, ValueInfo],
    known: Mapping[str, int],
    given: Mapping[str, Shape],
    step: int,
) -> dict[str, Shape]:
    """The shapes of the inputs that C writes: the last dimension of positions and of steps is the run's."""
    shapes = {}
    for name, role in ports.follow.items():
        info = infos[name]
        if role == "mask" or name in given:
            continue
        if info.shape is None:
            raise ShapeError(f"follow {name!r}: its rank is open; give shapes={{{name!r}: ...}}")
        dims = [dim if isinstance(dim, int) else known.get(dim or "", 1) for dim in info.shape]
        if dims and role in ("positions", "steps") and not isinstance(info.shape[-1], int):
            dims[-1] = step
        shapes[name] = tuple(dims)
    return shapes
