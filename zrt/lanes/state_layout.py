"""The layout of a lane's states: the shapes, types and places of its pairs, found from the session's declarations."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Final, NamedTuple

import numpy as np

from zrt._common.fork_lock import ForkLock
from zrt._native import lib
from zrt._native.cdata import NULL, new_array, strings
from zrt._native.handle import Handle
from zrt._native.library import api
from zrt.errors import AllocationError, ArgumentError, ShapeError, UnknownNameError, UnsupportedError
from zrt.lanes import lane_shapes
from zrt.lanes.lane_shapes import ShapesLike
from zrt.lanes.ports import require_bindable
from zrt.lanes.state_ports import StatePair, StatePorts
from zrt.memory.allocators import CPU, MOST_BYTES, MemoryInfo, session_memories
from zrt.session.feeds import require_names
from zrt.session.session import Session
from zrt.types import ElementType, creation_code, nbytes, require_tensors
from zrt.values import symbolic_shapes
from zrt.values.symbolic_shapes import Shape
from zrt.values.type_info import Dim, ValueInfo, format_shape

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

_finding = ForkLock()


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
        return self.info.element_type

    @property
    def nbytes(self) -> int:
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

    def __init__(self, pairs: Sequence[Pair], capacity: int, window: int) -> None:
        self.pairs: tuple[Pair, ...] = tuple(pairs)
        self.by_name: dict[str, int] = {pair.info.name: index for index, pair in enumerate(pairs)}
        self.capacity: int = capacity
        memories = [pair.memory.handle() for pair in pairs]
        inputs = strings(pair.info.name for pair in pairs)
        outputs = strings(pair.output or "" for pair in pairs)
        rows = new_array("zrt_pair", len(pairs))
        pinned: list[Any] = [inputs, outputs, rows]
        for index, (row, pair, memory) in enumerate(zip(rows, pairs, memories, strict=True)):
            dims = new_array("int64_t", pair.dims)
            # The element of a mask for a step that counts.
            one = new_array("char", np.ones((), pair.element_type.dtype).tobytes() if pair.kind == MASK else b"")
            pinned += [dims, one]
            row.kind = pair.kind
            row.input = inputs[index]
            row.output = outputs[index] if pair.output is not None else NULL
            row.memory = memory.pointer
            row.type = creation_code(pair.element_type)
            row.rank, row.dims, row.axis = len(pair.dims), dims, pair.axis or 0
            row.blocks, row.step_bytes, row.bytes = pair.blocks, pair.step_bytes, pair.nbytes
            row.one = one
        self.handle: Handle = Handle.block("zrt_layout", [Handle.pin(tuple(pinned)), *memories])
        layout = self.handle.pointer
        # A lane binds by its own table, so that states fit the lanes from before and after a recording began.
        layout.api = api()
        layout.count, layout.pairs = len(pairs), rows
        layout.capacity, layout.window = capacity, window
        mask = next((index for index, pair in enumerate(pairs) if pair.kind == MASK), len(pairs))
        layout.mask = mask
        layout.rows = pairs[mask].dims[0] if mask < len(pairs) else 1

    def difference(self, other: Layout) -> str:
        """Why a state of the other layout does not fit; "" where only the session differs."""
        for mine, its in zip(self.pairs, other.pairs, strict=False):
            if _facts(mine) != _facts(its):
                return f"this lane carries {mine}, the state has {its}"
        if len(self.pairs) != len(other.pairs):
            return f"this lane carries {len(self.pairs)} inputs, the state has {len(other.pairs)}"
        return ""


def _facts(pair: Pair) -> tuple[Any, ...]:
    return pair.info.name, pair.dims, pair.kind, pair.element_type


class Carried(NamedTuple):
    """Everything about the state of a lane that follows from its arguments."""

    layout: Layout
    followers: dict[str, int]
    """The inputs that the lane writes before each run, with their kinds of state.h."""
    step: int
    shapes: dict[str, Shape]
    """The shapes of all inputs, in a first run."""
    later: dict[str, Shape] | None
    """The shapes of all inputs in a run on a state that holds a step; None where they are the same."""
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
    return _Resolver(session, ports, shapes).carried(output_shapes)


class _Resolver:
    """Finds the layout of the states that `ports` describe, from the given shapes and the model's declarations."""

    def __init__(self, session: Session, ports: StatePorts, shapes: ShapesLike) -> None:
        owner = session._open()
        self._session = session
        self._ports = ports
        self._inputs = {info.name: info for info in session.inputs}
        self._outputs = {info.name: info for info in session.outputs}
        places = session_memories(api().SessionGetMemoryInfoForInputs, owner, len(session.inputs))
        self._places = dict(zip(self._inputs, places, strict=True))
        self._shapes = lane_shapes.by_name(shapes, session.inputs, "input")
        self._carried = {pair.input for pair in ports.each}
        self._check_names()
        fed = {name: shape for name, shape in self._shapes.items() if name not in self._carried}
        self._sizes = symbolic_shapes.bind([self._inputs[name] for name in fed], [*fed.values()])
        """The sizes that are known by name."""
        self._capacity = ports.capacity or 0

    def carried(self, output_shapes: ShapesLike) -> Carried:
        """The layout, and the shapes of a lane with it."""
        ports = self._ports
        counted = bool(ports.follow) or any(pair.axis is not None and not pair.once for pair in ports.each)
        step = self._step() if counted else 1
        pairs = [self._pair(pair, self._inputs[pair.input]) for pair in ports.each]
        self._add_sizes(pairs)
        followers, masks = self._followers()
        pairs += masks
        self._add_sizes(masks)
        for pair in pairs:
            if pair.nbytes > MOST_BYTES:
                raise AllocationError(
                    f"state {pair.info.name!r}: no memory for {pair.nbytes} bytes: more than an address space has"
                )
        if counted and step > self._capacity:
            raise ArgumentError(f"capacity: a run has {step} steps, more than {self._capacity}")
        key = tuple(pairs), self._capacity if counted else 0, ports.window
        layouts = lane_shapes.results_of(self._session).layouts
        # Threads that ask at the same time get one layout: `setdefault` of a dict of weak values is not atomic.
        with _finding.now:
            layout: Layout | None = layouts.get(key)
            if layout is None:
                # A signal handler may have made it meanwhile.
                layout = layouts.setdefault(key, Layout(*key))
        others = {name: shape for name, shape in self._shapes.items() if name not in layout.by_name}
        others |= self._follower_shapes(step)
        first, later = (
            others | {pair.info.name: pair.shape(held + step if pair.kind == MASK else held) for pair in pairs}
            for held in (0, 1)
        )
        # Before the first run the open sizes of values that are made once are 0, and later they are not.
        later |= {pair.info.name: tuple(size or 1 for size in pair.dims) for pair in pairs if pair.kind == ONCE}
        outputs = lane_shapes.by_name(output_shapes, self._session.outputs, "output")
        outputs |= {pair.output: pair.shape(step) for pair in pairs if pair.output is not None and pair.kind != ONCE}
        return Carried(layout, followers, step, first, later if later != first else None, outputs)

    def _check_names(self) -> None:
        ports, carried = self._ports, self._carried
        for pair in ports.each:
            if (
                pair.input not in self._inputs
                and pair.input in self._session.output_names
                and pair.output in self._inputs
            ):
                raise UnknownNameError(
                    f"state: {pair.input!r} is an output and {pair.output!r} an input; a pair leads from the output to "
                    f"the input, as in {{{pair.input!r}: {pair.output!r}}}"
                )
        names = [pair.input for pair in ports.each]
        names += [*ports.follow, *([ports.step] if isinstance(ports.step, str) else []), *ports.initial]
        require_names(names, self._session.inputs, "input", "state")
        outputs = [pair.output for pair in ports.each if pair.output is not None]
        require_names(outputs, self._session.outputs, "output", "state")
        for pair in ports.each:
            if pair.output in self._inputs:
                raise UnsupportedError(
                    f"state {pair.input!r}: the output {pair.output!r} is an input as well, and ONNX Runtime returns "
                    "that input's memory"
                )
        for name in ports.follow:
            if name in carried:
                raise ArgumentError(f"state: input {name!r} is in a pair, and cannot follow the steps")
        for name in ports.initial:
            if name not in carried and ports.follow.get(name) != "mask":
                raise ArgumentError(f"initial: input {name!r} is not part of the state")

    def _pair(self, pair: StatePair, info: ValueInfo) -> Pair:
        subject = f"state {info.name!r}"
        output = self._outputs[pair.output] if pair.output is not None else None
        for each in (info,) if output is None else (info, output):
            require_bindable(each, f"{subject}: {each.name!r}")
            if each.element_type is not info.element_type:
                raise ArgumentError(
                    f"{subject}: the input is of {info.element_type.name}, the output {pair.output!r} of "
                    f"{each.element_type.name}"
                )
        require_tensors(info.element_type, subject)
        declared: Sequence[Any] | None = self._shapes.get(info.name, info.shape)
        if declared is None:
            raise ShapeError(f"{subject}: its rank is open; give its shape in shapes")
        axis = pair.axis
        if axis is not None:
            if not -len(declared) <= axis < len(declared):
                raise ArgumentError(f"{subject}: axis {axis} of {len(declared)} dimensions")
            axis %= len(declared)
            if info.shape is not None:
                self._check_axis(pair, info.shape[axis], f"{subject}: axis {axis}")
        memory = self._places[info.name]
        if pair.once:
            if info.element_type.packed:
                raise UnsupportedError(f"{subject}: {info.element_type.name} is packed, and cannot be made once")
            # Empty before the first run: a size that is not known is 0. A shape without open sizes holds zeros.
            first = [dim if isinstance(dim, int) else self._sizes.get(dim or "", 0) for dim in declared]
            model = info.shape if info.shape is not None else [None] * len(first)
            if axis is None:
                opened = [index for index, dim in enumerate(model) if not isinstance(dim, int)]
                # Such as the rows, which other inputs tell.
                axes = [index for index in opened if model[index] not in self._sizes] or opened
                usual = len(first) - 2
                axis = usual if usual in axes else axes[-1] if axes else None
            if axis is not None:
                first[axis] = 0
            return Pair(ONCE, info, pair.output, tuple(first), None, memory)
        dims = self._dims(info, declared, axis)
        if output is not None and axis is None:
            other = symbolic_shapes.solve(output, self._sizes)
            if other is not None and other != dims and math.prod(other) != math.prod(dims):
                raise ShapeError(
                    f"{subject}: the input has the shape {list(dims)}, the output {pair.output!r} {list(other)}; an "
                    "output that grows has an axis"
                )
        if axis is not None and info.element_type.packed:
            raise UnsupportedError(f"{subject}: {info.element_type.name} is packed, and its steps begin within a byte")
        kind = IN_PLACE if pair.in_place else GROWING if axis is not None else FIXED
        return Pair(kind, info, pair.output, dims, axis, memory)

    def _check_axis(self, pair: StatePair, size: Dim, subject: str) -> None:
        if not isinstance(size, int) or (pair.in_place and size == self._capacity):
            return
        wanted = f"; in place it is the capacity, {self._capacity}" if pair.in_place else ""
        raise ArgumentError(f"{subject} has the size {size} in the model{wanted}")

    def _dims(self, info: ValueInfo, declared: Sequence[Any], axis: int | None) -> Shape:
        dims = []
        for index, dim in enumerate(declared):
            size = self._capacity if index == axis else dim if isinstance(dim, int) else self._sizes.get(dim or "")
            if size is None:
                raise ShapeError(
                    f"state {info.name!r}: its shape {format_shape(info.shape)} is open in {dim or '?'}; give shapes="
                    f"{{{info.name!r}: ...}}"
                )
            dims.append(size)
        return tuple(dims)

    def _add_sizes(self, pairs: Sequence[Pair]) -> None:
        """Adds the sizes by name that the pairs' shapes tell, but for the axis that grows."""
        sizes: dict[str, int] = {}
        for pair in pairs:
            for index, (dim, size) in enumerate(zip(pair.info.shape or (), pair.dims, strict=False)):
                if isinstance(dim, str) and index != pair.axis and pair.kind != ONCE:
                    sizes.setdefault(dim, size)
        self._sizes |= sizes

    def _step(self) -> int:
        step = self._ports.step
        if isinstance(step, int):
            return step
        for name in _STEPPED if step is None else (step,):
            info = self._inputs.get(name)
            if info is None:
                continue
            shape = self._shapes.get(name) or symbolic_shapes.solve(info, self._sizes)
            if shape is not None:
                return shape[1] if len(shape) > 1 else 1
            raise ShapeError(
                f"input {name!r}: its shape {format_shape(info.shape)} is open, and its second dimension is the number "
                f"of steps of a run; give shapes={{{name!r}: ...}}"
            )
        return 1

    def _followers(self) -> tuple[dict[str, int], list[Pair]]:
        """The inputs that C writes before a run, and the mask, which is part of a state."""
        followers: dict[str, int] = {}
        masks: list[Pair] = []
        for name, role in self._ports.follow.items():
            info, subject = self._inputs[name], f"follow {name!r}"
            require_bindable(info, subject)
            if role != "mask":
                if info.element_type not in _INTEGERS:
                    raise UnsupportedError(f"{subject}: it is of {info.element_type.name}, not of integers")
                followers[name] = _FOLLOWS[role]
                continue
            if masks:
                raise ArgumentError(f"{subject}: a state has one mask, {masks[0].info.name!r}")
            if info.element_type.dtype is None or info.element_type.packed:
                raise UnsupportedError(f"{subject}: a mask of {info.element_type.name}")
            if info.shape is None or len(info.shape) != 2:
                raise UnsupportedError(f"{subject}: a mask has the shape [rows, steps], not {format_shape(info.shape)}")
            rows = self._shapes.get(name, info.shape)[0]
            if not isinstance(rows, int):
                rows = self._sizes.get(rows or "", 1)
            # On the host, wherever the model reads it: C writes into it.
            masks.append(Pair(MASK, info, None, (rows, self._capacity), 1, CPU))
        return followers, masks

    def _follower_shapes(self, step: int) -> dict[str, Shape]:
        """The shapes of the inputs that C writes: the last dimension of positions and of steps is the run's."""
        shapes = {}
        for name, role in self._ports.follow.items():
            info = self._inputs[name]
            if role == "mask" or name in self._shapes:
                continue
            shape = symbolic_shapes.solve(info, self._sizes, 1)
            if shape is None:
                raise ShapeError(f"follow {name!r}: its rank is open; give shapes={{{name!r}: ...}}")
            if info.shape and role in ("positions", "steps") and not isinstance(info.shape[-1], int):
                shape = (*shape[:-1], step)
            shapes[name] = shape
        return shapes
