"""`Lane`: a session's inputs and outputs, bound once; a run is one C call."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any, NamedTuple, NoReturn, Self

import numpy as np

from zrt._common.arguments import boolean, require_type, wrong_type
from zrt._common.public import public, public_in
from zrt._native import lib, ort_messages, status
from zrt._native.builtin import set_builtin
from zrt._native.handle import Handle
from zrt._native.library import api
from zrt._native.session_handle import SessionHandle
from zrt.errors import ArgumentError, ClosedError, DTypeError, Error, ShapeError, UnsupportedError
from zrt.lanes.audit import LaneAudit, PortAudit, alignment_of
from zrt.lanes.given_memory import MemoryLike, Places, places, refuse_overlaps, sharers, with_shapes
from zrt.lanes.lane_shapes import LaneShapes, PortShape, ShapesLike, find_by_trials, keep, quiet, resolve
from zrt.lanes.ports import LaneMemory, Port, Ports, View, clear, view
from zrt.lanes.samples import Samples, SamplesLike, write_sample
from zrt.lanes.slots import Slots
from zrt.loading.run_options import RunOptions
from zrt.memory.allocators import Allocator, AllocatorStats, MemoryInfo, session_memories
from zrt.memory.arrays import address_of
from zrt.session.bound_run import BoundOutputs, BoundRun, Form, lane_block, run_limited
from zrt.session.session import Session
from zrt.types import ElementType, ValueKind
from zrt.values.type_info import ValueInfo
from zrt.values.value import Value, as_output

# The ids of the graphs that lanes capture: each lane has its own, above those that users choose.
_graphs = itertools.count(1 << 30)


@public_in("zrt.typing")
@dataclass(frozen=True, slots=True)
class RunStats:
    """An allocator's counters before and after a run of a lane."""

    before: AllocatorStats
    after: AllocatorStats

    @property
    def delta(self) -> AllocatorStats:
        """The difference that the run made."""
        return self.after - self.before


class Reader:
    """Reads the values that are bound as outputs. `Ports` holds it in place of the lane, which would be a cycle."""

    __slots__ = ("_bindings", "_block", "_outputs", "_values")

    def __init__(
        self, block: Handle, bindings: Sequence[Handle], inputs: Sequence[Port], outputs: Sequence[Port], unread: int
    ) -> None:
        """`unread` outputs are bound after these."""
        self._block = block
        self._bindings = bindings
        self._outputs = outputs
        keepers = [handle for port in (*inputs, *outputs) for handle in port.handles()]
        places = [(port.info, port.where.memory) for port in outputs]
        self._values = BoundOutputs(bindings[0], places, keepers, {port.info.name for port in inputs}, "Lane", unread)

    def values(self) -> list[Value | None]:
        """The values that are bound as outputs now; None for an output that no run has made yet."""
        return self._values.read_at(self._block, 0, Form.VALUES)

    def read(self, index: int) -> View | None:
        """The output that ORT allocated in the last run; None for an optional that is absent."""
        output = self._values.read_at(self._block, 0, Form.VIEWS, index)[index]
        if output is None:
            info = self._outputs[index].info
            if info.kind is ValueKind.OPTIONAL:
                return None
            raise ArgumentError(
                f"output {info.name!r} is not there: ORT allocates it in each run, and the lane has not run yet or its "
                "last run failed"
            )
        return view(output) if isinstance(output, Value) else output

    def forget(self) -> None:
        """Clears what a run wrote into the outputs, and gives up those that ORT allocated in it."""
        for port in self._outputs:
            if isinstance(port.view, np.ndarray):
                clear(port.view)
            if port.value is None:
                for binding in self._bindings:
                    leave(binding, port.info.name, port.where.memory)


class _Bound(NamedTuple):
    """Everything that an open lane holds; `block` keeps alive the ``zrt_lane`` at `address`."""

    address: int
    block: Handle
    session: Session
    owner: SessionHandle
    reader: Reader
    ports_in: Sequence[Port]
    ports_out: Sequence[Port]
    inputs: Ports
    outputs: Ports
    options: RunOptions | None
    """Those of the lane's own captured graph."""
    slots: Slots
    trial_error: str


@public
class Lane(BoundRun, guarded=False):
    """A session's inputs and outputs, bound once to memory of their own; `run` is one C call and nothing else.

    `shapes` gives the inputs' shapes, by name or in order, where the model leaves sizes open; a size that inputs share
    by name need be given once. `output_shapes` gives the outputs' shapes. Others are solved from the inputs' shapes, or
    found by trial runs on made-up data. ORT allocates an output in each run if its shape depends on the data, is not
    known because a trial run failed, or is not the one that the model declares; `audit` reports this.

    The first lane of a session with new shapes runs once on zeros: shapes with which the model cannot run raise
    `ShapeError`. `samples` has the values for inputs of such runs where zeros and made-up data will not do, such as a
    sampling rate: a dict by name of arrays, or of single numbers for all elements. `trials=False` makes no run and
    takes the shapes as they are given.

    `inputs` and `outputs` say where the memory lies: a `LaneMemory` for all, or a dict with the memory of single ports.
    Beside a `LaneMemory` that is memory of the caller's, which needs no shape and is kept alive: an array, a `Buffer`,
    a `Value`, or a list of these, the port's `slots`. An output must not share memory with another port.

    `rebind_inputs=True` binds all inputs again before each run; by default this is done for inputs that ORT copies to a
    device. `synchronize` waits for the devices before and after each run; by default it does if the session or the
    lane's memory has a device.

    In a session that captures graphs, each lane has a graph of its own, over memory on the session's device.

    One run at a time can use a lane: a second thread gets `BusyError`. A lane works on after its session is closed.
    """

    __slots__ = ("_bound", "rebound", "synchronize")

    # The ports for which the lane has no memory: those of a state.
    _carried_inputs: frozenset[str] = frozenset()
    _carried_outputs: frozenset[str] = frozenset()
    # The outputs that grow with a state, with the reason why they have no memory.
    _growing: Mapping[str, str] = MappingProxyType({})

    rebound: frozenset[str]
    """The inputs that are bound again before each run."""
    synchronize: bool
    """Whether each run waits for the devices before and after it."""
    _bound: _Bound | None

    def __new__(cls, *_: Any, **__: Any) -> Self:
        lane = super().__new__(cls)
        lane.rebound = frozenset()
        lane.synchronize = False
        return lane

    def __init__(
        self,
        session: Session,
        shapes: ShapesLike = None,
        output_shapes: ShapesLike = None,
        *,
        inputs: MemoryLike = None,
        outputs: MemoryLike = None,
        rebind_inputs: bool | None = None,
        synchronize: bool | None = None,
        trials: bool = True,
        samples: SamplesLike = None,
    ) -> None:
        require_type(session, Session, "session", "a Session")
        owner = session._open()
        where_in, where_out = places(inputs, session, owner, "input"), places(outputs, session, owner, "output")
        lane_shapes = resolve(
            session,
            with_shapes(shapes, inputs, session.inputs, "input"),
            with_shapes(output_shapes, outputs, session.outputs, "output"),
            leave={
                **self._growing,
                **{info.name: "left to ORT" for info in session.outputs if where_out.of(info.name).kind == "left"},
            },
            on_device=not all(where_in.of(info.name).memory.is_host for info in session.inputs),
            trials=boolean(trials, "trials"),
            samples=samples,
            carried=self._carried_inputs,
        )
        where_in.refuse(self._carried_inputs, "input")
        where_out.refuse(self._carried_outputs, "output")

        def build() -> None:
            self._build(session, owner, lane_shapes, where_in, where_out, rebind_inputs, synchronize)

        if lane_shapes.key is not None and (where_in.callers or where_out.callers):
            # The lane's own run on zeros would overwrite the caller's data.
            lane_shapes = find_by_trials(session, lane_shapes)
        build()
        if lane_shapes.key is not None:
            if self._runs_on(lane_shapes.samples):
                keep(session, lane_shapes.key, lane_shapes.outputs)
            else:
                lane_shapes = find_by_trials(session, lane_shapes)
                build()

    def _build(
        self,
        session: Session,
        owner: SessionHandle,
        shapes: LaneShapes,
        where_in: Places,
        where_out: Places,
        rebind_inputs: bool | None,
        synchronize: bool | None,
    ) -> None:
        """Makes the memory of every port, and binds it."""
        table = api()
        places_in = session_memories(table.SessionGetMemoryInfoForInputs, owner, len(session.inputs))
        places_out = session_memories(table.SessionGetMemoryInfoForOutputs, owner, len(session.outputs))
        ports_in = [
            where_in.port(session, info, place, shape, f"input {info.name!r}")
            for info, shape, place in zip(session.inputs, shapes.inputs, places_in, strict=True)
            if info.name not in self._carried_inputs
        ]
        ports_out = [
            _output_port(session, info, place, port, where_out)
            for info, port, place in zip(session.outputs, shapes.outputs, places_out, strict=True)
            if info.name not in self._carried_outputs
        ]
        ports = ports_in + ports_out
        refuse_overlaps(ports_in, ports_out)
        binding = new_binding(owner, ports_in, ports_out)
        copied = [port for port in ports_in if not port.beside]
        if rebind_inputs is not None:
            copied = ports_in if boolean(rebind_inputs, "rebind_inputs") else []
        if synchronize is None:
            synchronize = len(session.providers) > 1 or not all(port.where.memory.is_host for port in ports)
        self.rebound = frozenset(port.info.name for port in copied)
        self.synchronize = boolean(synchronize, "synchronize")
        options = RunOptions(gpu_graph_id=next(_graphs)) if session._captures else None
        if options is not None:
            _require_captured(ports)
        carrier = self._carry(owner, binding, ports_in, ports_out, where_in.default)
        block = lane_block(
            owner,
            binding,
            synchronize=self.synchronize,
            run_options=None if options is None else options._open(),
            rebound=[(port.info.name, port.handle()) for port in copied],
            left=[(port.info.name, port.where.memory) for port in ports_out if port.value is None],
            input_bytes=sum(port.nbytes for port in ports_in),
            parents=[*(handle for port in ports for handle in port.handles()), *carrier],
        )
        reader = self._reader(block, binding, ports_in, ports_out)
        slots = Slots(block, ports_in, ports_out, copied)
        self._handle = block
        self._bound = _Bound(
            block.address,
            block,
            session,
            owner,
            reader,
            ports_in,
            ports_out,
            Ports("input", ports_in, slots.reading(ports_in, reader.read)),
            Ports("output", ports_out, slots.reading(ports_out, reader.read)),
            options,
            slots,
            shapes.failure,
        )

    def _carry(
        self,
        owner: SessionHandle,
        binding: Handle,
        ports_in: Sequence[Port],
        ports_out: Sequence[Port],
        memory: LaneMemory,
    ) -> list[Handle]:
        """Everything else that the lane's block needs alive; a state that the lane carries lies in `memory`."""
        return []

    def _reader(self, block: Handle, binding: Handle, ports_in: Sequence[Port], ports_out: Sequence[Port]) -> Reader:
        return Reader(block, [binding], ports_in, ports_out, 0)

    def _runs_on(self, samples: Samples) -> bool:
        """`_tries` on the samples, and on zeros in the other inputs; every input holds zeros afterwards."""
        bound = self._opened()
        for name, sample in samples.items():
            write_sample(bound.inputs[name], sample)
        try:
            if not self._tries():
                return False
            bound.reader.forget()
            return True
        finally:
            for name in samples:
                clear(bound.inputs[name])

    def _tries(self) -> bool:
        """Runs once, and returns whether that succeeds."""
        try:
            self.run_with(quiet())
        except Error:
            return False
        return True

    def _opened(self) -> _Bound:
        bound = self._bound
        if bound is None:
            raise self._closed()
        return bound

    def _closed(self) -> ClosedError:
        return ClosedError(f"this {type(self).__name__} is closed")

    def run(self, timeout: float | None = None) -> None:
        """Runs the model on the data in `inputs`, and writes the results to `outputs`.

        With a `timeout` in seconds the run ends as soon as the operator is done during which the time passes, and
        raises `TimeoutError`: the outputs are undefined then. Ctrl-C in the main thread ends such a run as well.
        """
        block = self._opened().block
        code = lib.zrt_lane_run(block.reference) if timeout is None else self._run_limited(None, timeout)
        if code:
            self._run_failed(code)

    def _run_failed(self, code: int) -> NoReturn:
        raise self._failure(code)

    def run_with(self, options: RunOptions, *, timeout: float | None = None) -> None:
        """`run` under `RunOptions`: a tag, log settings, and `RunOptions.terminate` from another thread."""
        if options is None:
            raise wrong_type("options", "RunOptions", options)
        code = self._run_limited(options, timeout)
        if code:
            self._run_failed(code)

    def _run_limited(self, options: RunOptions | None, timeout: float | None, *state: Any) -> Any:
        bound = self._opened()
        if isinstance(timeout, Mapping):
            raise DTypeError("timeout: got a mapping; a lane's run takes no feeds: write them into `inputs` before")
        if options is None:
            options = bound.options
        elif bound.options is not None and isinstance(options, RunOptions) and options.gpu_graph_id is None:
            raise ArgumentError("options: this session captures graphs; give gpu_graph_id, another for each lane")
        return run_limited(bound.block, bound.owner, options, timeout, *state)

    def _failure(self, code: int) -> Error:
        if code == status.BUSY:
            # In the child of a fork, a thread of the parent's uses it.
            self._opened().owner.check()
        error = status.to_error(code, "Lane")
        if ort_messages.WRONG_OUTPUT_SHAPE.matches(error):
            return ShapeError(
                f"{error} Let ORT allocate the output in each run: outputs=LaneMemory.left(), or correct its "
                "shape in output_shapes"
            )
        if ort_messages.SPARSE_OUTPUT.matches(error):
            return UnsupportedError(
                f"an output is sparse, and dense memory is bound (outputs=LaneMemory.left() binds none): {error}"
            )
        return error

    def run_with_allocator_stats(self, allocator: Allocator | None = None) -> RunStats:
        """Runs once and returns an allocator's counters before and after; by default the session's on the host."""
        if allocator is None:
            allocator = Allocator._of(self._opened().owner)
        require_type(allocator, Allocator, "allocator", "an Allocator")
        before = allocator.stats()
        self.run()
        return RunStats(before, allocator.stats())

    @property
    def session(self) -> Session:
        """The session that the lane runs."""
        return self._opened().session

    @property
    def inputs(self) -> Ports:
        """The memory that ORT reads: write into these views."""
        return self._opened().inputs

    @property
    def outputs(self) -> Ports:
        """The memory that ORT writes: the same views after every run, except for outputs that are left to ORT."""
        return self._opened().outputs

    @property
    def slots(self) -> Slots:
        """The ports that were given several memories; ``lane.slots["image"] = 2`` moves one to its third."""
        return self._opened().slots

    def audit(self) -> LaneAudit:
        """Reports what each run does: addresses, bytes, memory, and every copy and allocation.

        For set-up and tests: it allocates.
        """
        bound = self._opened()
        shared = sharers(bound.ports_in)
        ports_in, ports_out = map(bound.slots.in_use, (bound.ports_in, bound.ports_out))
        inputs = tuple(
            replace(
                _audit(port, port.value, "reads"),
                rebound=port.info.name in self.rebound,
                shared_with=tuple(sorted(shared.get(port.info.name, ()))),
            )
            for port in ports_in
        )
        values = bound.reader.values()
        outputs = tuple(_audit(port, value, "writes") for port, value in zip(ports_out, values, strict=True))
        return LaneAudit(inputs, outputs, self.synchronize, trial_error=bound.trial_error)

    def __repr__(self) -> str:
        bound = self._bound
        if bound is None:
            return f"{type(self).__name__}(closed)"
        inputs, outputs = (", ".join(map(_describe, ports)) for ports in (bound.ports_in, bound.ports_out))
        return f"{type(self).__name__}({inputs} -> {outputs})"


set_builtin(Lane, "run", lib.ZRT_LANE_RUN, "_bound", "timeout=None")


def _require_captured(ports: Iterable[Port]) -> None:
    """Refuses memory off the session's device: a replay uses the addresses of the capture."""
    for port in ports:
        if port.value is None or not port.beside:
            raise ArgumentError(
                f"{port.info.name!r}: this session captures graphs, so a lane's memory lies where the session has it: "
                f"LaneMemory.allocated on {port.place.name}"
            )


def _describe(port: Port) -> str:
    return str(port.info) if port.value is None else f"{port.info.name}: {list(port.value.shape)}"


def _output_port(session: Session, info: ValueInfo, place: MemoryInfo, port: PortShape, where: Places) -> Port:
    """The port of an output: memory of its shape, or left to ORT with the reason."""
    subject = f"output {info.name!r}"
    if port.shape is not None:
        made = where.port(session, info, place, port.shape, subject)
        assert made.value is not None
        return replace(made, value=as_output(made.value))
    if info.name in where.callers:
        raise UnsupportedError(f"{subject}: {port.why}, so it cannot have memory of yours")
    return Port(info, place, LaneMemory.left(where.of(info.name).memory), why=port.why)


def new_binding(owner: SessionHandle, inputs: Sequence[Port], outputs: Sequence[Port]) -> Handle:
    """An ``OrtIoBinding`` over every port, in the session's order.

    It holds the values itself, so it is released before them: the provider of another session may have to free theirs.
    """
    table = owner.table.pointer
    parents = [owner, *(handle for port in (*inputs, *outputs) for handle in port.handles())]
    binding = Handle.make(table.ReleaseIoBinding, parents, table.CreateIoBinding, "OrtIoBinding", owner.pointer)
    for port in inputs:
        status.check(table.BindInput(binding.pointer, port.info.name.encode(), port.handle().pointer))
    for port in outputs:
        if port.value is None:
            leave(binding, port.info.name, port.where.memory)
        else:
            status.check(table.BindOutput(binding.pointer, port.info.name.encode(), port.handle().pointer))
    return binding


def leave(binding: Handle, name: str, memory: MemoryInfo) -> None:
    """Leaves an output to ORT, which allocates it on `memory`."""
    where = memory.handle()
    status.check(api().BindOutputToDevice(binding.pointer, name.encode(), where.pointer))


def _audit(port: Port, value: Value | None, does: str) -> PortAudit:
    """The audit of a port with the bound `value`, which ORT "reads" or "writes"."""
    # Only a tensor of numbers has a meaningful size and address.
    tensor = value if value is not None and value.is_tensor else None
    numbers = tensor if tensor is not None and tensor.element_type is not ElementType.STRING else None
    ours = address_of(port.view) if isinstance(port.view, np.ndarray) else None
    theirs = numbers.address if numbers is not None else None
    copies = ""
    if not port.beside:
        copies = f"ORT {does} it on {port.place.name}, it is bound on {port.where.memory.name}"
    elif numbers is not None and numbers.nbytes and ours is not None and ours != theirs:
        copies = f"ORT's tensor lies at {theirs:#x}, ours at {ours:#x}"
    return PortAudit(
        name=port.info.name,
        element_type=port.info.element_type,
        shape=tensor.shape if tensor is not None else None,
        nbytes=numbers.nbytes if numbers is not None else 0,
        # Values over pinned memory do not say so where ORT writes into them.
        memory=value.memory if value is not None and port.value is None else port.where.memory,
        kind=port.where.kind,
        address=ours,
        ort_address=theirs,
        alignment=alignment_of(ours if theirs is None else theirs),
        policy=str(port.buffer.resolved) if port.buffer is not None else "",
        copies=copies,
        allocates=port.why,
        owner="caller" if port.slots else "lane" if port.value is not None else "ORT",
        slots=len(port.slots) or 1,
    )
