"""`Lane`: one exclusive, fully bound way through a session; running it is one C call."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from zrt._common.arguments import boolean, integer, wrong_type
from zrt._common.public import public
from zrt._native import lib, ort_messages, status
from zrt._native.busy import claimed
from zrt._native.handle import Handle, Owner
from zrt._native.library import api
from zrt.errors import ArgumentError, ClosedError, DTypeError, Error, ShapeError
from zrt.lanes import lane_shapes
from zrt.lanes.audit import LaneAudit, PortAudit
from zrt.lanes.lane_shapes import PortShape, ShapesLike
from zrt.lanes.ports import LaneMemory, Port, Ports, View, checked_memory, make_port, unbindable, view
from zrt.loading.run_options import RunOptions
from zrt.memory.allocators import Allocator, AllocatorStats, MemoryInfo, session_memories
from zrt.memory.arrays import address_of
from zrt.session.bound_run import bound_values, busy_flag, lane_block
from zrt.session.session import Session
from zrt.types import ValueKind
from zrt.values import Value
from zrt.values.type_info import ValueInfo

_run = lib.zrt_lane_run
_run_with = lib.zrt_lane_run_with


# The numbers of the graphs that lanes capture: no two lanes share one, and users count from below.
_graphs = itertools.count(1 << 30)


def _closed_block() -> Handle:
    block = Handle.block("zrt_lane")
    block.pointer.busy = 1
    return block


# What a closed lane runs instead: a lane that is always busy, so that the hot path needs no check of its own.
_CLOSED = _closed_block()


@dataclass(frozen=True, slots=True)
class RunStats:
    """An allocator's counters before and after a run of a lane."""

    before: AllocatorStats
    after: AllocatorStats

    @property
    def delta(self) -> AllocatorStats:
        """What the run added."""
        return self.after - self.before


class _Reader:
    """Reads what is bound as outputs. Apart from `Lane`, which thus stays out of reference cycles."""

    __slots__ = ("_binding", "_block", "_keepers", "_outputs", "_places")

    def __init__(self, block: Handle, binding: Handle, inputs: Sequence[Port], outputs: Sequence[Port]) -> None:
        self._block = block
        self._binding = binding
        self._outputs = [port.info for port in outputs]
        self._places = [port.where.memory for port in outputs]
        self._keepers = [port.handle() for port in (*inputs, *outputs) if port.value is not None]

    def values(self) -> list[Value | None]:
        """The values that are bound as outputs now; None for those that no run has made yet."""
        return claimed(busy_flag(self._block), "Lane", bound_values, self._binding, self._keepers, self._places)

    def read(self, index: int) -> View | None:
        """The output that ORT made in the last run; None for an optional one that is absent."""
        value = self.values()[index]
        if value is None:
            info = self._outputs[index]
            if info.kind is ValueKind.OPTIONAL:
                return None
            raise ArgumentError(
                f"output {info.name!r} is not there: each run makes it anew, and there was none yet "
                "or the last one failed"
            )
        return view(value)


class _Bound(NamedTuple):
    """All that an open lane holds, in one attribute, so that closing in one thread never leaves half to another."""

    session: Session
    owner: Handle
    reader: _Reader
    ports_in: Sequence[Port]
    ports_out: Sequence[Port]
    places_in: Sequence[MemoryInfo]
    places_out: Sequence[MemoryInfo]
    inputs: Ports
    outputs: Ports


@public
class Lane(Owner):
    """A session's inputs and outputs, bound once to memory of their own; `run` is one C call and nothing else.

    `shapes` gives the inputs' shapes, by name or in order, where the model leaves sizes open; `output_shapes` the
    outputs'. Output shapes that are not given are solved from the inputs'; those that stay open are found by
    trial runs on made-up data. An output whose shape changes with the data is left to ORT and read anew after each
    run; `audit` says so.

    `inputs` and `outputs` say where the memory lies (`LaneMemory`). `rebind_inputs=True` binds the inputs anew
    before each run; by default only those that ORT copies to a device are. `synchronize` waits for devices before
    and after each run; by default only where there are any.

    In a session that captures graphs each lane has a graph of its own, over memory on the session's device.

    A lane belongs to one run at a time: a second thread gets `BusyError`. It goes on working after its session was
    closed.
    """

    __slots__ = ("_bound", "_reference", "rebound", "synchronize")

    rebound: frozenset[str]
    """The inputs that are bound anew before each run."""
    synchronize: bool
    """Whether each run waits for the devices before and after."""

    def __init__(
        self,
        session: Session,
        shapes: ShapesLike = None,
        output_shapes: ShapesLike = None,
        *,
        inputs: LaneMemory | None = None,
        outputs: LaneMemory | None = None,
        rebind_inputs: bool | None = None,
        synchronize: bool | None = None,
    ) -> None:
        self._handle = None
        self._bound: _Bound | None = None
        self._reference = _CLOSED.reference
        if not isinstance(session, Session):
            raise wrong_type("session", "a Session", session)
        owner = session._open()
        where_in, where_out = checked_memory(inputs, owner, "inputs"), checked_memory(outputs, owner, "outputs")
        if where_in.kind == "left":
            raise ArgumentError("inputs: only outputs can be left to ORT")
        trials = where_out.kind != "left" and where_in.memory.is_host
        resolved = lane_shapes.resolve(session, shapes, output_shapes, trials=trials)
        # An input without a shape is one that no memory can be bound for: `make_port` raises the error.
        ports_in = [
            make_port(session, info, port.shape or (), where_in, f"input {info.name!r}")
            for info, port in zip(session.inputs, resolved.inputs, strict=True)
        ]
        ports_out = [
            _output_port(session, info, port, where_out)
            for info, port in zip(session.outputs, resolved.outputs, strict=True)
        ]

        table = api()
        binding = Handle.make(table.ReleaseIoBinding, [owner], table.CreateIoBinding, "OrtIoBinding", owner.pointer)
        _bind(binding, ports_in, ports_out)
        places_in = session_memories(table.SessionGetMemoryInfoForInputs, owner, len(ports_in))
        places_out = session_memories(table.SessionGetMemoryInfoForOutputs, owner, len(ports_out))
        copied = [port for port, place in zip(ports_in, places_in, strict=True) if not port.where.memory.beside(place)]
        if rebind_inputs is not None:
            copied = ports_in if boolean(rebind_inputs, "rebind_inputs") else []
        if synchronize is None:
            places = [port.where.memory for port in (*ports_in, *ports_out)]
            synchronize = len(session.providers) > 1 or not all(memory.is_host for memory in places)
        self.rebound = frozenset(port.info.name for port in copied)
        self.synchronize = boolean(synchronize, "synchronize")
        captures = session._captures
        if captures:
            _require_captured(zip(ports_in, places_in, strict=True), zip(ports_out, places_out, strict=True))
        self._handle = lane_block(
            owner,
            binding,
            RunOptions(gpu_graph_id=next(_graphs))._open() if captures else session._run_options,
            synchronize=self.synchronize,
            rebound=[(port.info.name, port.handle()) for port in copied],
            left=[(port.info.name, port.where.memory) for port in ports_out if port.value is None],
            parents=[port.handle() for port in (*ports_in, *ports_out) if port.value is not None],
        )
        self._reference = self._handle.reference
        reader = _Reader(self._handle, binding, ports_in, ports_out)
        self._bound = _Bound(
            session,
            owner,
            reader,
            ports_in,
            ports_out,
            places_in,
            places_out,
            Ports("input", ports_in, reader.read),
            Ports("output", ports_out, reader.read),
        )

    def _opened(self) -> _Bound:
        bound = self._bound
        if bound is None:
            raise ClosedError("this Lane is closed")
        return bound

    def run(self) -> None:
        """One inference over what the inputs hold now; the outputs hold its results afterwards."""
        code = _run(self._reference)
        if code:
            raise self._failure(code)

    def run_with(self, options: RunOptions) -> None:
        """`run` under `RunOptions`: a tag, log settings, and `RunOptions.terminate` from another thread."""
        bound = self._opened()
        handle = RunOptions.opened(options, bound.owner, bound=True)
        if handle is None:
            raise DTypeError("options: expected RunOptions, got NoneType")
        if bound.session._captures and options.gpu_graph_id is None:
            raise ArgumentError("options: this session captures graphs; give gpu_graph_id, another for each lane")
        code = _run_with(self._reference, handle.pointer)
        if code:
            raise self._failure(code)

    def _failure(self, code: int) -> Error:
        if code == lib.ZRT_BUSY and self._bound is None:
            return ClosedError("this Lane is closed")
        error = status.to_error(code, "Lane")
        if ort_messages.WRONG_OUTPUT_SHAPE.matches(error):
            return ShapeError(
                f"{error} Let ORT make the output anew in each run: outputs=LaneMemory.left(), or correct its "
                "shape in output_shapes"
            )
        return error

    def prime(self, runs: int = 1) -> None:
        """Runs `runs` times before serving, so that ORT plans its memory for these shapes."""
        for _ in range(integer(runs, "runs")):
            self.run()

    def run_with_allocator_stats(self, allocator: Allocator | None = None) -> RunStats:
        """One run between two looks at an allocator's counters (by default the session's on the host)."""
        if allocator is None:
            allocator = Allocator.of(self._opened().owner)
        if not isinstance(allocator, Allocator):
            raise wrong_type("allocator", "an Allocator", allocator)
        before = allocator.stats()
        self.run()
        return RunStats(before, allocator.stats())

    @property
    def session(self) -> Session:
        """The session that the lane runs."""
        return self._opened().session

    @property
    def inputs(self) -> Ports:
        """What ORT reads: write into these views."""
        return self._opened().inputs

    @property
    def outputs(self) -> Ports:
        """What ORT writes: the same views after every run, but for outputs that are left to ORT."""
        return self._opened().outputs

    def audit(self) -> LaneAudit:
        """What each run does: addresses, bytes, memory, and whatever is copied or allocated on the way.

        For the time of set-up: it allocates, and takes its time.
        """
        bound = self._opened()
        inputs = tuple(
            _audit(port, port.value, f"ORT reads it on {place.name}", place, port.info.name in self.rebound)
            for port, place in zip(bound.ports_in, bound.places_in, strict=True)
        )
        outputs = tuple(
            _audit(port, value, f"ORT writes it on {place.name}", place)
            for port, value, place in zip(bound.ports_out, bound.reader.values(), bound.places_out, strict=True)
        )
        return LaneAudit(inputs, outputs, self.synchronize)

    def close(self) -> None:
        """Closes the lane; views of its inputs and outputs stay valid."""
        super().close()
        self._bound = None
        self._reference = _CLOSED.reference

    def __repr__(self) -> str:
        bound = self._bound
        if bound is None:
            return "Lane(closed)"
        return f"Lane({', '.join(map(_describe, bound.ports_in))} -> {', '.join(map(_describe, bound.ports_out))})"


def _require_captured(*sides: Iterable[tuple[Port, MemoryInfo]]) -> None:
    """A replay looks at nothing that is bound: the memory must be where the graph reads and writes, for good."""
    for side in sides:
        for port, place in side:
            if port.value is None or not port.where.memory.beside(place):
                raise ArgumentError(
                    f"{port.info.name!r}: this session captures graphs, so a lane's memory lies where the session has "
                    f"it: LaneMemory.allocated on {place.name}"
                )


def _describe(port: Port) -> str:
    return str(port.info) if port.value is None else f"{port.info.name}: {list(port.value.shape)}"


def _output_port(session: Session, info: ValueInfo, port: PortShape, where: LaneMemory) -> Port:
    """The port of an output: memory of its shape, or left to ORT with the reason."""
    if where.kind == "left":
        return Port(info, where, why="left to ORT")
    if port.shape is None:
        return Port(info, LaneMemory.left(where.memory), why=port.why)
    return make_port(session, info, port.shape, where, f"output {info.name!r}")


def _bind(binding: Handle, inputs: Sequence[Port], outputs: Sequence[Port]) -> None:
    """Binds every port, in the session's order."""
    table = api()
    for port in inputs:
        status.check(table.BindInput(binding.pointer, port.info.name.encode(), port.handle().pointer))
    for port in outputs:
        name = port.info.name.encode()
        if port.value is None:
            where = port.where.memory.handle()
            status.check(table.BindOutputToDevice(binding.pointer, name, where.pointer))
        else:
            status.check(table.BindOutput(binding.pointer, name, port.handle().pointer))


def _audit(port: Port, value: Value | None, does: str, place: MemoryInfo, rebound: bool = False) -> PortAudit:
    """What is true of a port whose bound value is `value`, where the session `does` its part on `place`."""
    # Of strings and sequences there is neither a size nor an address that would say anything.
    numbers = value if value is not None and not unbindable(port.info) else None
    ours = address_of(port.view) if isinstance(port.view, np.ndarray) else None
    theirs = numbers.address if numbers is not None else None
    where = theirs if theirs is not None else ours
    copies = ""
    if not port.where.memory.beside(place):
        copies = f"{does}, it is bound on {port.where.memory.name}"
    elif numbers is not None and numbers.nbytes and ours is not None and ours != theirs:
        copies = f"ORT's tensor lies at {theirs:#x}, ours at {ours:#x}"
    return PortAudit(
        name=port.info.name,
        element_type=port.info.element_type,
        shape=value.shape if value is not None and value.is_tensor else None,
        nbytes=numbers.nbytes if numbers is not None else 0,
        memory=value.memory if value is not None else port.where.memory,
        kind=port.where.kind,
        address=ours,
        ort_address=theirs,
        alignment=min(where & -where, 1 << 21) if where else None,
        policy=str(port.buffer.resolved) if port.buffer is not None else "",
        rebound=rebound,
        copies=copies,
        allocates=port.why,
    )
