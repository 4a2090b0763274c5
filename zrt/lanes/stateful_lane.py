"""`StatefulLane`: a lane whose runs carry a state, from outputs to the inputs of the next run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Self, Unpack

import numpy as np

from zrt._common.arguments import integer, require_type, wrong_type
from zrt._common.public import not_made, public
from zrt._native import lib, ort_messages
from zrt._native.cdata import NULL, new_array, pointer_to
from zrt._native.handle import Handle
from zrt._native.session_handle import SessionHandle
from zrt.errors import ArgumentError, BusyError, CapacityError, Error, ShapeError, UnsupportedError
from zrt.lanes import state_layout
from zrt.lanes.audit import LaneAudit, PortAudit, alignment_of
from zrt.lanes.given_memory import sharers, with_shapes
from zrt.lanes.lane import Lane, Reader, leave, new_binding
from zrt.lanes.lane_options import LaneOptions
from zrt.lanes.lane_shapes import GROWS, ShapesLike, quiet
from zrt.lanes.ports import LaneMemory, Port
from zrt.lanes.state import State, StateSnapshot
from zrt.lanes.state_layout import FIXED, GROWING, ONCE, Carried, Layout, Pair
from zrt.lanes.state_ports import StateLike, StatePorts, as_ports
from zrt.loading.run_options import RunOptions
from zrt.memory.arrays import address_of
from zrt.session.session import Session
from zrt.values import symbolic_shapes

_run = lib.zrt_lane_run_with


@public
class StatefulLane(Lane, guarded=False):
    """A `Lane` whose runs carry a state: some outputs of a run are inputs of the next one, and nothing is copied.

    `Session.lane` makes one where it is given `state`: a dict from outputs to inputs, `StatePorts`, or what `kv_cache`
    found. These inputs and outputs are not among `inputs` and `outputs`: the lane's own `state` has them, and each
    state that `new_state` makes. Other arguments are those of `Lane`.

    A run that fails or is terminated leaves the state as it was. On a device the state stays there.
    """

    __slots__ = (
        "_carried",
        "_carried_inputs",
        "_carried_outputs",
        "_carrier",
        "_growing",
        "_initial",
        "_memory",
        "_own",
        "_sides",
    )

    _own: State | None

    def __new__(cls, *_: Any, **__: Any) -> Self:
        lane = super().__new__(cls)
        lane._own = None
        return lane

    def __init__(
        self,
        session: Session,
        shapes: ShapesLike = None,
        output_shapes: ShapesLike = None,
        *,
        state: StateLike,
        **options: Unpack[LaneOptions],
    ) -> None:
        require_type(session, Session, "session", "a Session")
        ports = as_ports(state)
        shapes = with_shapes(shapes, options.get("inputs"), session.inputs, "input")
        output_shapes = with_shapes(output_shapes, options.get("outputs"), session.outputs, "output")
        carried = state_layout.resolve(session, ports, shapes, output_shapes)
        _require_possible(session, ports, carried.layout)
        self._carried: Carried = carried
        self._carried_inputs, self._carried_outputs = carried.inputs, carried.outputs
        self._growing = dict.fromkeys(_growing(session, carried), GROWS)
        self._initial = ports.initial or None
        super().__init__(session, carried.shapes, carried.output_shapes, **options)

    def _carry(
        self,
        owner: SessionHandle,
        binding: Handle,
        ports_in: Sequence[Port],
        ports_out: Sequence[Port],
        memory: LaneMemory,
    ) -> list[Handle]:
        self._memory = memory
        if self._own is None:
            self._own = State(self._carried.layout, owner, memory, self._initial)
        carried = self._carried
        self._sides = binding, new_binding(owner, ports_in, ports_out)
        for side in self._sides:
            # Their number stays the same, so that the others can be read before the first run.
            for pair in carried.layout.pairs:
                if pair.output is not None:
                    leave(side, pair.output, pair.memory)
        rows = new_array("zrt_follower", len(carried.followers))
        ports, shared = {port.info.name: port for port in ports_in}, sharers(ports_in)
        for row, (name, kind) in zip(rows, carried.followers.items(), strict=True):
            view, subject = ports[name].view, f"follow {name!r}: the lane writes it"
            if ports[name].slots and not (isinstance(view, np.ndarray) and view.flags.writeable):
                raise ArgumentError(f"{subject}, so it takes one writeable memory")
            if name in shared:
                raise ArgumentError(f"{subject}, another input lies on its memory")
            if not isinstance(view, np.ndarray):
                raise UnsupportedError(f"{subject} on the host, and it lies on a device: inputs=LaneMemory.buffers()")
            row.kind, row.width = kind, view.dtype.itemsize
            row.columns = view.shape[-1] if view.ndim else 1
            row.rows = view.size // row.columns if view.size else 0
            row.data = pointer_to(address_of(view))
        handles = [port.handle() for port in ports_in]
        self._carrier = Handle.block(
            "struct zrt_carry", [carried.layout.handle, *self._sides, Handle.pin(rows), *handles]
        )
        carry = self._carrier.pointer
        carry.layout = carried.layout.handle.pointer
        carry.bindings = [side.pointer for side in self._sides]
        carry.step = carried.step
        carry.own_outputs = len(ports_out)
        carry.follower_count, carry.followers = len(rows), rows
        return [self._carrier]

    def _reader(self, block: Handle, binding: Handle, ports_in: Sequence[Port], ports_out: Sequence[Port]) -> Reader:
        # `zrt_lane_run` would run the binding without a state.
        block.pointer.incomplete = 1
        block.pointer.carry = self._carrier.pointer
        return Reader(block, self._sides, ports_in, ports_out, len(self._carried_outputs))

    def _tries(self) -> bool:
        try:
            code = self._run_limited(quiet(), None, self.state._open().reference)
        finally:
            self.state.reset()
        if not code:
            return True
        wrong = self._wrong_next_value(super()._failure(code))
        if wrong is not None:
            raise wrong
        return False

    @property
    def state(self) -> State:
        """The lane's own state, on which `run` without another state runs."""
        own = self._own
        if own is None:
            raise self._closed()
        return own

    def new_state(self, initial: Mapping[str, Any] | StateSnapshot | None = None) -> State:
        """A new state for this lane, and for every lane of its session that carries the same inputs.

        `initial` has arrays by input, or is a snapshot; by default the state begins as the lane's own did.
        `State.reset` sets it to this start again.
        """
        owner = self._opened().owner
        return State(self._carried.layout, owner, self._memory, self._initial if initial is None else initial)

    @property
    def step(self) -> int:
        """The steps that a run adds to a state that grows."""
        try:
            return self._carried.step
        except AttributeError:
            raise not_made(self) from None

    def run(  # type: ignore[override]  # the state comes before the timeout
        self, state: State | None = None, timeout: float | None = None
    ) -> None:
        """Runs the model on the data in `inputs` and on a state, by default the lane's own, and moves the state on.

        A run that a `timeout` ends leaves the state as it was. Raises `BusyError` if another thread uses the lane or
        the state, `ArgumentError` for a state that does not fit the lane, and `CapacityError` for one that has no
        capacity for another run.
        """
        self._run_on(None, timeout, state)

    def run_with(self, options: RunOptions, state: State | None = None, *, timeout: float | None = None) -> None:
        """`run` under `RunOptions`: a tag, log settings, and `RunOptions.terminate` from another thread."""
        if options is None:
            raise wrong_type("options", "RunOptions", options)
        self._run_on(options, timeout, state)

    def _run_on(self, options: RunOptions | None, timeout: float | None, state: State | None) -> None:
        # Attributes in place of methods: each frame of Python costs a share of a small model's run.
        bound = self._bound
        state = self._own if state is None else state
        if bound is None or state is None:
            raise self._closed()
        if not issubclass(type(state), State):
            # A mock is an instance by its own account, and C trusts the address in a State.
            raise wrong_type("state", "a State", state)
        handle = state._handle or state._open()
        if options is None and timeout is None:
            code = _run(bound.block.reference, handle.reference, NULL, 0)
        else:
            code = self._run_limited(options, timeout, handle.reference)
        if code:
            raise self._failed(code, state)

    def _failed(self, code: int, state: State) -> Error:
        if code == lib.ZRT_STATE_BUSY:
            return BusyError("this State is in use by another run or thread")
        layout = self._carried.layout
        if code == lib.ZRT_STATE_FOREIGN:
            difference = layout.difference(state._layout) or "it is of another session than this lane"
            return ArgumentError(f"state: it does not fit: {difference}")
        if code == lib.ZRT_STATE_FULL:
            return CapacityError(
                f"state: it holds {state.steps} of {layout.capacity} steps, and a run adds {self.step}; reset it, or "
                "give a larger capacity or a window"
            )
        return self._failure(code)

    def _failure(self, code: int) -> Error:
        error = super()._failure(code)
        return self._wrong_next_value(error) or error

    def _wrong_next_value(self, error: Error) -> ShapeError | None:
        """The error about a state, if an output that it takes made a run fail."""
        words = ort_messages.COMPUTED_OUTPUT_SHAPE.search(error)
        for pair in self._carried.layout.pairs:
            if words is not None and pair.output == words[1]:
                shape = [int(dim) for dim in words[2].split(",") if dim]
                return ShapeError(
                    f"state {pair.info.name!r}: the model makes {shape} as output {pair.output!r}, and its next value "
                    f"is {self._next(pair)}"
                )
        return None

    def _next(self, pair: Pair) -> str:
        if pair.kind != GROWING:
            return str(list(pair.dims))
        return (
            f"longer than the last one by {self.step} along axis {pair.axis}; give zrt.kv_cache or zrt.StatePorts the "
            "steps of a run, as step=3, or the input whose second dimension they are, as step='tokens'"
        )

    def prime(self, runs: int = 1) -> None:
        """Runs the lane `runs` times on a state of no use afterwards, so that ORT plans its memory for these shapes."""
        state = self.new_state()
        for _ in range(integer(runs, "runs")):
            try:
                self.run(state)
            except CapacityError:
                state.reset()
                if state.steps + self.step > state.capacity:
                    state = self._without_steps(state)
                self.run(state)

    def _without_steps(self, state: State) -> State:
        """A new state that holds no steps, with the other values of this one."""
        fixed = [pair.info.name for pair in self._carried.layout.pairs if pair.kind in (FIXED, ONCE)]
        arrays = state.snapshot().arrays
        return self.new_state({name: arrays[name] for name in fixed if name in arrays})

    def audit(self) -> LaneAudit:
        """Reports what each run does, as for other lanes; `LaneAudit.state` has the inputs of the lane's own state."""
        audit = super().audit()
        return replace(audit, state=tuple(_audit(self.state, name) for name in self.state))

    def close(self) -> None:
        """Closes the lane. A state that you hold stays open, also the lane's own, and views stay valid."""
        super().close()
        self._own = None

    def __repr__(self) -> str:
        own = self._own
        if self._bound is None or own is None:
            return "StatefulLane(closed)"
        return f"{super().__repr__()[:-1]}; {own!r})"


def _require_possible(session: Session, ports: StatePorts, layout: Layout) -> None:
    if session._captures:
        raise UnsupportedError(
            "state: this session captures graphs, whose replay uses the same memory in every run; load it without"
        )
    for pair in layout.pairs:
        if ports.window and pair.axis is not None and not pair.memory.is_host:
            raise UnsupportedError(
                f"window: {pair.info.name!r} lies on {pair.memory.name}, and a window is for the host"
            )


def _growing(session: Session, carried: Carried) -> list[str]:
    """The outputs whose shape is another where a state holds steps, or is not declared and may be another."""
    if carried.later is None:
        return []
    sizes = []
    for known in (carried.shapes, carried.later):
        shapes = symbolic_shapes.complete(session.inputs, known)
        sizes.append(symbolic_shapes.bind(session.inputs, [shape or () for shape in shapes]))
    names = []
    for info in session.outputs:
        first, later = (symbolic_shapes.solve(info, each) for each in sizes)
        if info.name not in carried.output_shapes and (first is None or first != later):
            names.append(info.name)
    return names


def _audit(state: State, name: str) -> PortAudit:
    pair = state._layout.pairs[state._layout.by_name[name]]
    view = None if pair.kind == ONCE else state[name]
    on_host = isinstance(view, np.ndarray)
    address = None if view is None or not view.nbytes else address_of(view) if on_host else view.address
    return PortAudit(
        name=name,
        element_type=pair.element_type,
        shape=None if view is None else tuple(view.shape),
        nbytes=pair.nbytes,
        memory=pair.memory,
        kind="state",
        address=address if on_host else None,
        ort_address=address,
        alignment=alignment_of(address),
        allocates="the first run of a state makes it" if pair.kind == ONCE and pair.output is not None else "",
    )
