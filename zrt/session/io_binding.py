"""`IoBinding`: inputs and outputs bound by name, and runs over them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from threading import Lock
from typing import Any

import numpy as np

from zrt._common.arguments import integer, shown, wrong_type
from zrt._common.public import public
from zrt._native import lib, ort_messages, status
from zrt._native.busy import claimed
from zrt._native.cdata import from_buffer, new_array, strings
from zrt._native.forks import SessionHandle
from zrt._native.handle import Handle, Owner
from zrt._native.library import api
from zrt.errors import (
    AllocationError,
    ArgumentError,
    ClosedError,
    DTypeError,
    Error,
    ShapeError,
    UnknownNameError,
    UnsupportedError,
)
from zrt.loading.run_options import RunOptions
from zrt.memory.allocators import CPU, MemoryInfo, cpu_memory, handle_of, require_memory
from zrt.memory.buffers import Buffer
from zrt.session.bound_run import BoundOutputs, busy_flag, lane_block, run_limited
from zrt.session.feeds import check_kind, check_type, names_of
from zrt.session.session import Session
from zrt.session.value_feeds import check_reach, right_value
from zrt.types import ElementType, ValueKind, creation_code
from zrt.values import Value, as_value
from zrt.values.symbolic_shapes import check
from zrt.values.type_info import ValueInfo, format_type, is_plain, phrase

run_lane = lib.zrt_lane_run
rebind_in_c = lib.zrt_lane_rebind


def writable_value(info: ValueInfo, place: np.ndarray[Any, Any] | Value | Buffer, subject: str) -> Value:
    """A value over `place` for ORT to write an output into; raises for a wrong type or shape."""
    check_kind(info, subject)
    value = as_value(place, subject)
    if not value.is_tensor:
        raise DTypeError(f"{subject}: expected {format_type(info)}, got {phrase(value.kind)}")
    if not value.writeable:
        raise ArgumentError(f"{subject}: the array is read-only")
    check_type(info, value.element_type, subject)
    check(info, value.shape, subject)
    return value


class _Slot:
    """Room for arrays of one dtype and shape (``zrt_slot``), of which C binds one after another."""

    __slots__ = ("dtype", "kept", "pointer", "shape")

    def __init__(self, name: str, array: np.ndarray[Any, Any], is_output: bool) -> None:
        element_type = ElementType.of(array.dtype)
        self.dtype, self.shape = array.dtype, array.shape
        self.pointer = new_array("zrt_slot", 1)
        slot = self.pointer[0]
        self.kept = (strings([name]), cpu_memory(), new_array("int64_t", array.shape))
        slot.name, slot.place, slot.dims = self.kept[0][0], self.kept[1].pointer, self.kept[2]
        slot.rank, slot.bytes = array.ndim, array.nbytes
        slot.alignment = array.dtype.alignment if array.nbytes else 1
        slot.type = creation_code(element_type)
        slot.is_output = is_output


def _new_lock() -> Any:
    try:
        return Lock()
    except RuntimeError as error:
        raise AllocationError("no memory for a lock") from error


@dataclass(slots=True)
class _Bound:
    """The state of an open binding, in one attribute of `IoBinding`: `close` must not affect a run in another thread.

    A thread must claim the binding before it calls a method. An interrupt within a method never leaves a value bound
    that is not kept alive.
    """

    session: Session
    owner: SessionHandle
    binding: Handle
    block: Handle
    # Handles of values, or the memory of arrays. `binding` owns a reference to both tables: ORT frees a value on a
    # device by the allocator of the value's own session, which must be there until ORT's binding lets the value go.
    inputs: dict[str, tuple[Any, ...]]
    outputs: dict[str, tuple[Any, ...]]
    left: Any = None
    slots: dict[tuple[bool, str], _Slot] = field(default_factory=dict)
    rebinding: Any = field(default_factory=_new_lock)
    # Another object after each change. A reader of the outputs is of use while this is what it was before the tables
    # were read for it. A rebinding in another thread sets it once the tables have the array, before ORT's binding has.
    version: object = None
    reader: tuple[object, BoundOutputs] | None = None
    counted: bool = False

    def __post_init__(self) -> None:
        # GC may finalize `binding` before this object, whose `__del__` needs it.
        lib.zrt_handle_ref(self.binding.reference)
        self.counted = True

    def __del__(self) -> None:
        """Unbinds everything: a value that this binding made, and that is bound here, would keep the binding alive."""
        if getattr(self, "counted", False):
            # A forked child never releases what its parent made.
            if not self.owner.table.lost:
                table = api()
                table.ClearBoundInputs(self.binding.pointer)
                table.ClearBoundOutputs(self.binding.pointer)
            self.inputs.clear()
            self.outputs.clear()
            lib.zrt_handle_unref(self.binding.reference)

    def claimed(self, work: Callable[..., Any], *arguments: Any) -> Any:
        """Calls `work` while no run and no other thread can use the binding."""
        return claimed(busy_flag(self.block), "IoBinding", work, *arguments)

    def changed(self, work: Callable[..., Any], *arguments: Any) -> None:
        """As `claimed`, for a method that changes what is bound."""

        def change() -> None:
            self.version, self.reader = object(), None
            work(*arguments)

        # A rebinding in another thread changes the same tables.
        with self.rebinding:
            self.claimed(change)

    def _open_slot(self, name: str, array: np.ndarray[Any, Any], is_output: bool) -> None:
        """Prepares `rebind` for what is bound now, to this array.

        Not so for arrays that are bound as a copy; nor where a value is needed later: on a device, for outputs that may
        share memory with inputs, and for sessions with inputs that can be unbound one by one.
        """
        if not array.dtype.isnative or ElementType.of(array.dtype).bits < 8:
            return
        infos = {info.name: info for info in self.session.outputs}
        if self.block.pointer.synchronize or any(info.kind is ValueKind.OPTIONAL for info in self.session.inputs):
            return
        if all(is_plain(infos[other]) for other in self.outputs) and not (name in self.inputs and name in self.outputs):
            self.slots[is_output, name] = _Slot(name, array, is_output)

    def rebind(self, name: str, array: np.ndarray[Any, Any], is_output: bool) -> bool:
        """Binds another array of the same dtype and shape as before, if a slot is prepared for these."""
        slots = self.slots
        slot = slots.get((is_output, name))
        if slot is None or array.dtype is not slot.dtype or array.shape != slot.shape:
            return False
        try:
            memory = from_buffer(array)
        except (ValueError, BufferError):
            return False
        bound: dict[str, tuple[Any, ...]] = self.outputs if is_output else self.inputs
        with self.rebinding:
            former = bound.get(name)
            # Another thread may have changed what is bound.
            if former is None or self.slots is not slots:
                return False
            # As in `bind_input`: an interrupt must not leave memory bound that is not kept alive.
            bound[name] = (*former, memory)
            self.version = kept = (memory,)
            code = rebind_in_c(self.block.reference, slot.pointer, memory)
            if code:
                self.version, kept = object(), former
            bound[name] = kept
            self.reader = None
        if code and code != status.MISALIGNED:
            raise status.to_error(code, "IoBinding")
        return not code

    def bind_input(self, name: str, value: Handle, array: np.ndarray[Any, Any] | None = None) -> None:
        """Binds a value; with the `array` that it is over, `rebind` takes others like it."""
        former = self.inputs.get(name, ())
        self.inputs[name] = (*former, value)
        try:
            status.check(api().BindInput(self.binding.pointer, name.encode(), value.pointer))
        except Error as error:
            _restore(self.inputs, name, former)
            raise status.about(f"input {name!r}", error) from error
        self._release_outputs([name])
        self.inputs[name] = (value,)
        if array is not None:
            self._open_slot(name, array, False)

    def bind_output(self, name: str, value: Handle, array: np.ndarray[Any, Any] | None = None) -> None:
        """As `bind_input`."""
        self.slots = {}
        former = self.outputs.get(name, ())
        self.outputs[name] = (*former, value)
        try:
            status.check(api().BindOutput(self.binding.pointer, name.encode(), value.pointer))
        except Error as error:
            _restore(self.outputs, name, former)
            raise status.about(f"output {name!r}", error) from error
        self.outputs[name] = (value,)
        self._leave()
        if array is not None:
            self._open_slot(name, array, True)

    def leave_output(self, name: str, memory: MemoryInfo) -> None:
        self.slots = {}
        former = self.outputs.get(name, ())
        self.outputs[name] = (*former, memory)
        try:
            self._hand_back(name, memory)
        except Error as error:
            _restore(self.outputs, name, former)
            raise status.about(f"output {name!r}", error) from error
        self.outputs[name] = (memory,)
        self._leave()

    def require_complete(self) -> None:
        """Raises if an input or every output is not bound; otherwise permits runs."""
        missing = [
            info for info in self.session.inputs if info.name not in self.inputs and info.kind is not ValueKind.OPTIONAL
        ]
        if missing:
            raise ArgumentError(f"input {names_of(missing)} is not bound")
        if not self.outputs:
            raise ArgumentError("no output is bound")
        self.block.pointer.incomplete = 0

    def clear_inputs(self) -> None:
        self.slots = {}
        self.block.pointer.incomplete = 1
        api().ClearBoundInputs(self.binding.pointer)
        self._release_outputs(self.inputs)
        self.inputs.clear()

    def clear_outputs(self) -> None:
        self.slots = {}
        self.block.pointer.incomplete = 1
        api().ClearBoundOutputs(self.binding.pointer)
        self.outputs.clear()
        self._leave()

    def values(self) -> dict[str, Any]:
        return self._named(self._reader().values())

    def views(self) -> dict[str, Any]:
        return self._named(self._reader().views())

    def _reader(self) -> BoundOutputs:
        version, latest = self.version, self.reader
        if latest is None or latest[0] is not version:
            latest = self.reader = (version, self._new_reader())
        return latest[1]

    def _new_reader(self) -> BoundOutputs:
        # An output that is also an input shares the input's memory, and a sequence may share the tensors of any input.
        # Keep no other inputs: a loop that feeds its outputs back would keep those of all its runs.
        infos = {info.name: info for info in self.session.outputs}
        shares = not all(is_plain(infos[name]) for name in self.outputs)
        inputs = [kept for name, kept in self.inputs.items() if shares or name in self.outputs]
        places = [place for kept in (*inputs, *self.outputs.values()) for place in kept]
        keepers = [
            place if isinstance(place, Handle) else Handle.pin(place)
            for place in places
            if not isinstance(place, MemoryInfo)
        ]
        outputs = [(infos[name], kept[-1]) for name, kept in self.outputs.items()]
        return BoundOutputs(self.binding, outputs, keepers, self.inputs)

    def _named(self, found: Sequence[Any]) -> dict[str, Any]:
        optional = {info.name for info in self.session.outputs if info.kind is ValueKind.OPTIONAL}
        named = zip(self.outputs, found, strict=True)
        return {name: one for name, one in named if one is not None or name in optional}

    def _hand_back(self, name: str, memory: MemoryInfo) -> None:
        """Leaves an output to ORT, and releases the value of the last run."""
        where = handle_of(memory)
        status.check(api().BindOutputToDevice(self.binding.pointer, name.encode(), where.pointer))

    def _release_outputs(self, names: Iterable[str]) -> None:
        """Releases the outputs that may share memory with the inputs of these names, when those go.

        These are the outputs of the same names; and sequences, which may share the tensors of any input.
        """
        sharing = [info.name for info in self.session.outputs if not is_plain(info)]
        for name in (*names, *sharing):
            for memory in self.outputs.get(name, ()):
                if isinstance(memory, MemoryInfo):
                    self._hand_back(name, memory)

    def leave_out(self, name: str) -> None:
        """Unbinds one input: ORT can only unbind all, so the others are bound again."""
        if name not in self.inputs:
            return
        table = api()
        table.ClearBoundInputs(self.binding.pointer)
        self._release_outputs([name])
        for other, values in self.inputs.items():
            if other != name:
                status.check(table.BindInput(self.binding.pointer, other.encode(), values[-1].pointer))
        del self.inputs[name]

    def _leave(self) -> None:
        """Makes each run return the outputs that ORT allocates to ORT first (see lane.h)."""
        last = {name: kept[-1] for name, kept in self.outputs.items()}
        places = {name: handle_of(place) for name, place in last.items() if isinstance(place, MemoryInfo)}
        names = strings(places)
        memories = new_array("const OrtMemoryInfo *", [place.pointer for place in places.values()])
        lane = self.block.pointer
        # With a count of 0 an interrupt between these lines leaves no pointer in use that is not kept alive.
        lane.output_count = 0
        self.left = (names, memories, places)
        lane.output_names, lane.output_memories = names, memories
        lane.output_count = len(places)


def _restore(bound: dict[str, Any], name: str, former: Any) -> None:
    if former:
        bound[name] = former
    else:
        del bound[name]


@public
class IoBinding(Owner):
    """Inputs and outputs of a run, bound by name (``OrtIoBinding``).

    The binding keeps the bound memory alive, and stays usable after its session is closed. A second thread that uses
    it at the same time gets `BusyError`.
    """

    __slots__ = ("_bound",)

    def __init__(self, session: Session) -> None:
        self._handle = None
        self._bound: _Bound | None = None
        if not isinstance(session, Session):
            raise wrong_type("session", "a Session", session)
        table = api()
        owner = session._open()
        inputs: dict[str, tuple[Any, ...]] = {}
        outputs: dict[str, tuple[Any, ...]] = {}
        parents = [owner, Handle.pin((inputs, outputs))]
        binding = Handle.make(table.ReleaseIoBinding, parents, table.CreateIoBinding, "OrtIoBinding", owner.pointer)
        self._handle = lane_block(owner, binding, session._run_options, synchronize=len(session.providers) > 1)
        self._handle.pointer.incomplete = 1
        self._bound = _Bound(session, owner, binding, self._handle, inputs, outputs)

    def _opened(self) -> _Bound:
        bound = self._bound
        if bound is None:
            raise ClosedError("this IoBinding is closed")
        return bound

    def close(self) -> None:
        """Closes the binding and releases the bound memory; a run in progress releases it when it ends."""
        super().close()
        self._bound = None

    def bind_input(self, name: str, feed: np.ndarray[Any, Any] | Value | Buffer | None) -> None:
        """Binds an input to the feed's own memory; binding a name again replaces the earlier feed.

        Strings, sparse tensors, sequences and maps are bound as a `Value`. None unbinds an input of optional type.

        If the session reads the input on a device, ORT copies the feed there now. Later writes to the feed take effect
        only after binding it again.
        """
        bound = self._opened()
        if type(feed) is np.ndarray and type(name) is str and bound.rebind(name, feed, False):
            return
        info = _find(name, (*bound.session.inputs, *bound.session.initializers), "input")
        if feed is None and info.kind is ValueKind.OPTIONAL:
            bound.changed(bound.leave_out, name)
            return
        value = right_value(info, feed)
        check_reach(bound.session, bound.owner, value, f"input {name!r}")
        bound.changed(bound.bind_input, name, value._open(), feed if type(feed) is np.ndarray else None)

    def bind_output(self, name: str, place: np.ndarray[Any, Any] | Value | Buffer | MemoryInfo | None = None) -> None:
        """Binds an output to the caller's memory, or lets ORT allocate it on a memory (None: on the host).

        Raises `ArgumentError` for a memory that the session does not have.
        """
        bound = self._opened()
        info = _find(name, bound.session.outputs, "output")
        subject = f"output {name!r}"
        if place is None or isinstance(place, MemoryInfo):
            memory = place or CPU
            require_memory(bound.owner, memory, subject)
            bound.changed(bound.leave_output, name, memory)
            return
        if any(name == info.name for info in (*bound.session.inputs, *bound.session.initializers)):
            raise ArgumentError(f"{subject} is an input as well: ORT hands it out again and writes nothing")
        value = writable_value(info, place, subject)
        check_reach(bound.session, bound.owner, value, subject)
        bound.changed(bound.bind_output, name, value._open())

    def _bind_value(
        self, name: str, value: Value, output: bool = False, array: np.ndarray[Any, Any] | None = None
    ) -> None:
        """Binds an input or an output whose type and shape only ONNX Runtime checks, in each run.

        The model has the name, and an output's value is writeable. With the `array` that the value is over,
        `_Bound.rebind` takes others like it.
        """
        bound = self._opened()
        check_reach(bound.session, bound.owner, value, f"{'output' if output else 'input'} {name!r}")
        bound.changed(bound.bind_output if output else bound.bind_input, name, value._open(), array)

    def _views(self) -> dict[str, Any]:
        """The outputs of the last run: tensors of numbers on the host as numpy views, others as values."""
        bound = self._opened()
        views: dict[str, Any] = bound.claimed(bound.views)
        return views

    def clear_inputs(self) -> None:
        """Unbinds every input."""
        bound = self._opened()
        bound.changed(bound.clear_inputs)

    def clear_outputs(self) -> None:
        """Unbinds every output."""
        bound = self._opened()
        bound.changed(bound.clear_outputs)

    def synchronize_inputs(self) -> None:
        """Waits until the bound inputs are on their devices."""
        bound = self._opened()
        status.check(bound.claimed(api().SynchronizeBoundInputs, bound.binding.pointer))

    def synchronize_outputs(self) -> None:
        """Waits until the devices have written the bound outputs."""
        bound = self._opened()
        status.check(bound.claimed(api().SynchronizeBoundOutputs, bound.binding.pointer))

    def run(self, options: RunOptions | None = None, timeout: float | None = None) -> None:
        """One inference over the bound inputs and outputs.

        A session with devices synchronizes them before and after the run by itself. Raises `ArgumentError` if an input
        is not bound; an output that is not bound is not computed. `timeout` is that of `Session.run`.
        """
        bound = self._opened()
        block = bound.block.reference
        plain = options is None and timeout is None
        code = run_lane(block) if plain else run_limited(bound.block, bound.owner, options, timeout)
        while code == status.INCOMPLETE:
            bound.claimed(bound.require_complete)
            code = run_lane(block) if plain else run_limited(bound.block, bound.owner, options, timeout)
        if code:
            error = status.to_error(code, "IoBinding")
            if ort_messages.WRONG_OUTPUT_SHAPE.matches(error):
                raise ShapeError(
                    f"an output comes in another shape than is bound (without memory, ORT makes it anew): {error}"
                ) from error
            if ort_messages.SPARSE_OUTPUT.matches(error):
                raise UnsupportedError(
                    f"an output is sparse, and dense memory is bound (without memory, ORT makes it): {error}"
                ) from error
            raise error

    def prime(self, runs: int = 1) -> None:
        """Runs it `runs` times before serving, so that ORT plans and allocates its memory for these shapes."""
        for _ in range(integer(runs, "runs")):
            self.run()

    def outputs(self) -> dict[str, Any]:
        """The outputs of the last run, each a `Value`, by name in the order of binding.

        An absent output of optional type is None.
        """
        bound = self._opened()
        values: dict[str, Any] = bound.claimed(bound.values)
        return values

    def numpy(self) -> dict[str, Any]:
        """The outputs of the last run as numpy views; raises for an output on a device, or of another kind."""
        return {name: one.numpy() if isinstance(one, Value) else one for name, one in self._views().items()}


def _find(name: str, infos: Sequence[ValueInfo], role: str) -> ValueInfo:
    for info in infos:
        if isinstance(name, str) and info.name == name:
            return info
    raise UnknownNameError(f"the model has no {role} {shown(name)}; it has {names_of(infos)}")
