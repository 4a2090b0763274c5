"""`IoBinding`: inputs and outputs bound by name, and runs over them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

import numpy as np

from zrt._common.arguments import shown, wrong_type
from zrt._common.public import public
from zrt._native import ffi, lib, ort_messages, status
from zrt._native.builtin import bind_array, set_builtin
from zrt._native.busy import claimed
from zrt._native.cdata import NULL, new_array, strings
from zrt._native.handle import Handle
from zrt._native.library import api
from zrt._native.session_handle import SessionHandle
from zrt.errors import ArgumentError, ClosedError, DTypeError, Error, ShapeError, UnknownNameError, UnsupportedError
from zrt.loading.run_options import RunOptions
from zrt.memory.allocators import CPU, MemoryInfo, handle_of, has_device, require_memory
from zrt.memory.buffers import Buffer
from zrt.session.bound_run import BoundOutputs, BoundRun, Form, lane_block, run_limited
from zrt.session.feeds import check_kind, check_type, names_of
from zrt.session.session import Session
from zrt.session.value_feeds import check_reach, right_value
from zrt.types import ElementType, ValueKind, creation_code
from zrt.values.symbolic_shapes import check, fits, solve
from zrt.values.type_info import ValueInfo, format_type, is_plain, phrase
from zrt.values.value import Value, as_output, as_value

bind_address = lib.zrt_bind_address
bind_output = lib.zrt_bind_output


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
    return as_output(value)


# For the dtypes of arrays that can be bound as they are, ORT's number of the type and the bits of an element.
ARRAYS = {
    dtype: (creation_code(ElementType.of(dtype)), 8 * dtype.itemsize)
    for dtype in map(np.dtype, ("?", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "f2", "f4", "f8"))
}


# The number of combinations of outputs for which a session keeps a reader.
READERS_KEPT = 16


class Place(NamedTuple):
    """A memory in which addresses lie that the caller keeps alive."""

    pointer: Any
    handle: Handle
    entry: tuple[MemoryInfo]
    """Stands in a table of `_Bound` for what is bound there."""

    @classmethod
    def of(cls, memory: MemoryInfo) -> Place:
        handle = handle_of(memory)
        return cls(handle.pointer, handle, (memory,))


def _is_given(entry: tuple[Any, ...]) -> bool:
    """Whether an output is bound to a value or an array, which is its result."""
    return isinstance(entry[-1], (Handle, np.ndarray))


class _OnMemory(NamedTuple):
    """Stands in a table of `_Bound` for an output that ORT allocates: in each run, or once for all if it is `lasting`.

    The last field is the memory, as the last one of other entries is the object that owns theirs.
    """

    handle: Handle
    lasting: bool
    memory: MemoryInfo


class _Ports:
    """The inputs and outputs of a session, as its bindings need them."""

    def __init__(self, session: Session, owner: Handle) -> None:
        # The inputs, and the initializers that a run may override.
        self.inputs = {info.name: info for info in (*session.inputs, *session.initializers)}
        self.outputs = {info.name: info for info in session.outputs}
        absent = {info.name for info in session.inputs if info.kind is ValueKind.OPTIONAL}
        # The inputs without which no run is possible, and the outputs that may be absent.
        self.required = frozenset(session.input_names) - absent
        self.optional = frozenset(info.name for info in session.outputs if info.kind is ValueKind.OPTIONAL)
        # The outputs that may lie in the memory of any input, such as sequences.
        self.sharing = frozenset(info.name for info in session.outputs if not is_plain(info))
        sizes = {dim: 1 for info in session.inputs for dim in info.symbolic_dimensions}
        # The tensors of numbers among the outputs whose shapes follow from those of the inputs, and that are no inputs.
        self.settled = frozenset(
            info.name
            for info in session.outputs
            if is_plain(info) and info.name not in self.inputs and solve(info, sizes) is not None
        )
        # Many sessions name a provider that takes no node of their model.
        self.has_device = len(session.providers) > 1 and has_device(owner, len(session.inputs), len(session.outputs))
        valued = absent or self.sharing
        plain = {name for name, info in self.inputs.items() if is_plain(info)}
        # The ports to which memory is bound without a `Value`: nothing needs one later.
        self.direct_inputs = frozenset() if valued else frozenset(plain - self.outputs.keys())
        self.direct_outputs = frozenset() if valued else frozenset(self.outputs.keys() - self.inputs.keys())
        # The entries for outputs that ORT makes on the host: in each run, and once for all.
        self.on_host = tuple(_OnMemory(handle_of(CPU), lasting, CPU) for lasting in (False, True))
        # The readers of outputs that are plain and that ORT makes on the host, by the names of the outputs.
        self.readers: dict[tuple[str, ...], BoundOutputs] = {}
        self.host = Place.of(CPU)

    @classmethod
    def of(cls, session: Session, owner: Handle) -> _Ports:
        """Those of a session, which all its bindings share; `owner` is its handle."""
        ports = _ports.get(session)
        if ports is None:
            ports = _ports[session] = cls(session, owner)
        return ports

    def place(self, memory: MemoryInfo) -> Place | None:
        """The place of addresses on a memory; None for one on a device if the session has nothing there."""
        if memory.is_host:
            # Also for pinned memory: see `as_output`.
            return self.host
        return Place.of(memory) if self.has_device else None


_ports: WeakKeyDictionary[Session, _Ports] = WeakKeyDictionary()


class _Bound:
    """The state of an open binding, in one attribute of `IoBinding`: `close` must not affect a run in another thread.

    An interrupt within a method never leaves anything bound that is not kept alive.
    """

    # Whether the object has a reference of its own to `block`.
    counted = False

    def __init__(self, session: Session, owner: SessionHandle) -> None:
        self.session = session
        self.ports = _Ports.of(session, owner)
        self.owner = owner
        # By name, the objects that keep the bound memory alive. The last one is the handle of a value, an array, or the
        # memory of an address (`Place.entry`); or it is an `_OnMemory`. The flag of `block` guards both. `block` owns
        # them: ORT frees a value on a device by the allocator of the value's own session, which must be there until
        # ORT's binding lets the value go.
        self.inputs: dict[str, tuple[Any, ...]] = {}
        self.outputs: dict[str, tuple[Any, ...]] = {}
        tables = Handle.pin((self.inputs, self.outputs))
        self.block = lane_block(owner, None, synchronize=len(session.providers) > 1, parents=[tables])
        self.block.pointer.incomplete = 1
        self.address = self.block.address
        # The types and shapes of arrays that fit the declarations.
        self.fitting: dict[str, tuple[bool, Any, Any]] = {}
        # The names and memories of the outputs that each run returns to ORT.
        self.allocated: Any = None
        # Reads the outputs, which have these names, while the lane has this version.
        self.reader: tuple[int, tuple[str, ...], BoundOutputs] | None = None
        # GC may finalize `block` before this object, whose `__del__` needs it.
        lib.zrt_handle_ref(self.block.reference)
        self.counted = True

    def __del__(
        self, unref: Callable[..., None] = lib.zrt_handle_unref, is_own: Callable[..., int] = lib.zrt_handle_is_own
    ) -> None:
        """Unbinds everything: a value that this binding made, and that is bound here, would keep the binding alive.

        At Python's end the names of this module may be gone before this object.
        """
        if self.counted:
            # A forked child never releases what its parent made.
            if is_own(self.block.reference):
                lane = self.block.pointer
                lane.api.ClearBoundInputs(lane.binding)
                lane.api.ClearBoundOutputs(lane.binding)
            self.inputs.clear()
            self.outputs.clear()
            unref(self.block.reference)

    @property
    def binding(self) -> Any:
        """The ``OrtIoBinding *``."""
        return self.block.pointer.binding

    def claimed(self, work: Callable[..., Any], *arguments: Any) -> Any:
        """Calls `work` while no run and no other thread can use the binding."""
        return claimed(ffi.addressof(self.block.pointer, "busy"), "IoBinding", work, *arguments)

    def changed(self, work: Callable[..., Any], *arguments: Any) -> None:
        """As `claimed`, for a method that changes what is bound. Raises `ForkedError` in the child of a fork."""
        # It would release values: a thread of the parent's may hold the lock of their allocator for ever.
        self.owner.check()

        def change() -> None:
            lane = self.block.pointer
            lane.incomplete = 1
            lane.version += 1
            work(*arguments)

        self.claimed(change)

    def bind_value(self, is_output: bool, name: str, value: Handle) -> None:
        if is_output:
            # One call, which no interrupt divides: ORT must have the outputs in the order of the table.
            request = self.outputs, name, (value,)
            self._bound(True, name, bind_output(self.block.reference, id(request), value.pointer, NULL))
        else:
            self.changed(self._bind_input, name, value)

    def _bind_input(self, name: str, value: Handle) -> None:
        bound = self.inputs
        former = bound.get(name, ())
        bound[name] = (*former, value)
        try:
            status.check(self.owner.table.pointer.BindInput(self.binding, name.encode(), value.pointer))
        except Error as error:
            if former:
                bound[name] = former
            else:
                del bound[name]
            raise status.about(f"input {name!r}", error) from error
        self._release_outputs((name,))
        bound[name] = (value,)

    def bind_array(self, is_output: bool, name: str, array: np.ndarray[Any, Any]) -> bool:
        """Binds an array's own memory without a `Value`; returns False where that is impossible.

        ORT checks the type and the shape in each run.
        """
        ports = self.ports
        if name not in (ports.direct_outputs if is_output else ports.direct_inputs):
            return False
        code = bind_array(self.address, self.outputs if is_output else self.inputs, name, array, is_output)
        return not code or self._bound(is_output, name, code)

    def bind_fitting(self, is_output: bool, name: str, array: np.ndarray[Any, Any]) -> bool:
        """`bind_array`, if the array fits the model's declaration."""
        fitting = is_output, array.dtype, array.shape
        if self.fitting.get(name) != fitting:
            info = (self.ports.outputs if is_output else self.ports.inputs).get(name)
            if info is None or not is_plain(info) or array.dtype is not info.element_type.dtype:
                return False
            if not fits(info, array.shape):
                return False
            self.fitting[name] = fitting
        return self.bind_array(is_output, name, array)

    def bind_address(
        self, is_output: bool, name: str, place: Place, address: int, shape: Any, kind: tuple[int, int]
    ) -> bool:
        """Binds memory at an address of a place, which the caller keeps alive; returns False where that is impossible.

        ORT checks the type and the shape in each run.
        """
        ports = self.ports
        if name not in (ports.direct_outputs if is_output else ports.direct_inputs):
            return False
        pointer, _, entry = place
        request = self.outputs if is_output else self.inputs, name, entry
        code = bind_address(self.block.reference, id(request), is_output, pointer, address, shape, len(shape), *kind)
        return not code or self._bound(is_output, name, code)

    def leave_on_host(self, name: str, lasting: bool) -> bool:
        """`leave` for an output that lies on the host in any case; returns False for others."""
        if name not in self.ports.direct_outputs:
            return False
        self._leave(name, self.ports.on_host[lasting])
        return True

    def leave(self, name: str, memory: MemoryInfo, lasting: bool = False) -> None:
        """Lets ORT allocate an output, in each run or with `lasting` once; releases that of the last run."""
        entry = self.outputs.get(name)
        if not isinstance(entry, _OnMemory) or (entry.lasting, entry.memory) != (lasting, memory):
            entry = _OnMemory(handle_of(memory), lasting, memory)
        self._leave(name, entry)

    def _leave(self, name: str, entry: _OnMemory) -> None:
        # The same entry again leaves the binding complete.
        request = self.outputs, name, entry
        self._bound(True, name, bind_output(self.block.reference, id(request), NULL, entry.handle.pointer))

    def lasting(self) -> set[str]:
        """The outputs that ORT makes once."""
        return {name for name, entry in tuple(self.outputs.items()) if isinstance(entry, _OnMemory) and entry.lasting}

    @staticmethod
    def _bound(is_output: bool, name: str, code: Any) -> bool:
        """Whether the memory was bound; False where it does not suit. Raises for a failure."""
        if code and code != status.MISALIGNED:
            raise status.about(f"{'output' if is_output else 'input'} {name!r}", status.to_error(code, "IoBinding"))
        return not code

    def require_complete(self) -> None:
        """Raises if an input or every output is not bound; otherwise permits runs."""
        missing = self.ports.required - self.inputs.keys()
        if missing:
            names = (repr(name) for name in self.ports.inputs if name in missing)
            raise ArgumentError(f"input {', '.join(names)} is not bound")
        if not self.outputs:
            raise ArgumentError("no output is bound")
        # Each run returns the outputs that ORT allocates to ORT first (see lane.h).
        places = {
            name: entry.handle
            for name, entry in self.outputs.items()
            if isinstance(entry, _OnMemory) and not entry.lasting
        }
        lane = self.block.pointer
        # With a count of 0 an interrupt between these lines leaves no pointer in use that is not kept alive.
        lane.output_count = 0
        self.allocated = None
        if places:
            names = strings(places)
            memories = new_array("const OrtMemoryInfo *", [place.pointer for place in places.values()])
            self.allocated = (names, memories, places)
            lane.output_names, lane.output_memories = names, memories
            lane.output_count = len(places)
        lane.incomplete = 0

    def clear_inputs(self) -> None:
        self._release_outputs(self.inputs)
        self._clear(self.owner.table.pointer.ClearBoundInputs, self.inputs)

    def clear_outputs(self) -> None:
        self._clear(api().ClearBoundOutputs, self.outputs)

    def _clear(self, unbind: Callable[..., Any], bound: dict[str, tuple[Any, ...]]) -> None:
        """Unbinds all inputs or outputs; an interrupt in between leaves none in the table that is not bound."""
        binding = self.binding
        try:
            unbind(binding)
        finally:
            bound.clear()

    def leave_out(self, name: str) -> None:
        """Unbinds one input: ORT can only unbind all, so the others are bound again."""
        if name not in self.inputs:
            return
        table = self.owner.table.pointer
        table.ClearBoundInputs(self.binding)
        self._release_outputs([name])
        for other, values in self.inputs.items():
            if other != name:
                status.check(table.BindInput(self.binding, other.encode(), values[-1].pointer))
        del self.inputs[name]

    def _release_outputs(self, names: Iterable[str]) -> None:
        """Releases the outputs that may share memory with the inputs of these names, when those go.

        These are the outputs of the same names; and sequences, which may share the tensors of any input.
        """
        for name in (*names, *self.ports.sharing):
            entry = self.outputs.get(name)
            if isinstance(entry, _OnMemory):
                status.check(api().BindOutputToDevice(self.binding, name.encode(), entry.handle.pointer))

    def read(self, form: Form) -> dict[str, Any]:
        """The bound outputs that exist."""
        current = self.reader
        if current is None or current[0] != self.block.pointer.version:
            current = self.claimed(self._current_reader)
        version, names, reader = current
        objects = reader.read_at(self.block, version, form) if reader.reads == len(names) else []
        if not objects:
            # One is bound to memory of the caller's, or another thread has bound one since.
            named: dict[str, Any] = self.claimed(self._read_claimed, form)
            return named
        optional = self.ports.optional
        return {name: each for name, each in zip(names, objects, strict=True) if each is not None or name in optional}

    def _read_claimed(self, form: Form) -> dict[str, Any]:
        _, _, reader = self._current_reader()
        objects = reader.read(self.binding, form)
        named: dict[str, Any] = {}
        for (name, entry), each in zip(self.outputs.items(), objects, strict=True):
            if _is_given(entry):
                owner = entry[-1]
                each = Value(owner) if isinstance(owner, Handle) else Value.from_array(owner)
                if form is not Form.VALUES and is_plain(self.ports.outputs[name]) and each.memory.is_host:
                    each = each.numpy().copy() if form is Form.COPIES else each.numpy()
            if each is not None or name in self.ports.optional:
                named[name] = each
        return named

    def _current_reader(self) -> tuple[int, tuple[str, ...], BoundOutputs]:
        """The reader of what is bound now; no other thread can use the binding meanwhile."""
        version = self.block.pointer.version
        if self.reader is None or self.reader[0] != version:
            self.reader = version, tuple(self.outputs), self._new_reader()
        return self.reader

    def _new_reader(self) -> BoundOutputs:
        ports, names = self.ports, tuple(self.outputs)
        # The values that ORT makes on the host keep their memory alive by themselves.
        alone = ports.direct_outputs.issuperset(names) and all(
            isinstance(entry, _OnMemory) and entry.memory is CPU for entry in self.outputs.values()
        )
        reader = ports.readers.get(names) if alone else None
        if reader is not None:
            return reader
        # The memory in which an output lies, and None for one that is its own result.
        outputs = [(ports.outputs[name], None if _is_given(it) else it[-1]) for name, it in self.outputs.items()]
        if alone:
            if len(ports.readers) >= READERS_KEPT:
                ports.readers = {}
            reader = ports.readers[names] = BoundOutputs(None, outputs, (), (), "IoBinding")
            return reader
        # An output that is also an input shares the input's memory, and a sequence may share the tensors of any input.
        # Keep no other inputs: a loop that feeds its outputs back would keep those of all its runs.
        shares = not ports.sharing.isdisjoint(names)
        keepers = [
            owner if isinstance(owner, Handle) else Handle.pin(owner)
            for name, entry in self.inputs.items()
            if shares or name in names
            for owner in entry
        ]
        return BoundOutputs(self.block, outputs, keepers, self.inputs, "IoBinding")


@public
class IoBinding(BoundRun, guarded=False):
    """Inputs and outputs of a run, bound by name (``OrtIoBinding``).

    The binding keeps the bound memory alive, and stays usable after its session is closed. A second thread that uses
    it at the same time gets `BusyError`.
    """

    __slots__ = ("_bound",)

    # The address of the ``zrt_lane`` that `_Bound` keeps alive, for the builtin `run`.
    _bound: tuple[int, _Bound] | None

    def __init__(self, session: Session) -> None:
        if not isinstance(session, Session):
            raise wrong_type("session", "a Session", session)
        owner = session._open()
        bound = _Bound(session, owner)
        self._handle = bound.block
        self._bound = bound.address, bound

    def _opened(self) -> _Bound:
        bound = self._bound
        if bound is None:
            raise ClosedError("this IoBinding is closed")
        return bound[1]

    def bind_input(self, name: str, feed: np.ndarray[Any, Any] | Value | Buffer | None) -> None:
        """Binds an input to the feed's own memory; binding a name again replaces the earlier feed.

        Strings, sparse tensors, sequences and maps are bound as a `Value`. None unbinds an input of optional type.

        If the session reads the input on a device, ORT copies the feed there now. Later writes to the feed take effect
        only after binding it again.
        """
        bound = self._opened()
        if type(feed) is np.ndarray and type(name) is str and bound.bind_fitting(False, name, feed):
            return
        info = _find(name, bound.ports.inputs, "input", bound.session)
        if feed is None and info.kind is ValueKind.OPTIONAL:
            bound.changed(bound.leave_out, name)
            return
        value = right_value(info, feed)
        check_reach(bound.session, bound.owner, value, f"input {name!r}")
        bound.bind_value(False, info.name, value._open())

    def bind_output(self, name: str, place: np.ndarray[Any, Any] | Value | Buffer | MemoryInfo | None = None) -> None:
        """Binds an output to the caller's memory, or lets ORT allocate it on a memory (None: on the host).

        Raises `ArgumentError` for a memory that the session does not have.
        """
        bound = self._opened()
        # The caller may change the shape of its own object.
        if type(place) is np.ndarray and type(name) is str and bound.bind_fitting(True, name, place.view()):
            return
        info = _find(name, bound.ports.outputs, "output", bound.session)
        subject = f"output {name!r}"
        if place is None and bound.leave_on_host(info.name, False):
            return
        if place is None or isinstance(place, MemoryInfo):
            memory = place or CPU
            require_memory(bound.owner, memory, subject)
            bound.leave(info.name, memory)
            return
        if name in bound.ports.inputs:
            raise ArgumentError(f"{subject} is an input as well: ORT hands it out again and writes nothing")
        value = writable_value(info, place, subject)
        check_reach(bound.session, bound.owner, value, subject)
        bound.bind_value(True, info.name, value._open())

    def _bind_value(self, name: str, value: Value, output: bool = False) -> None:
        """Binds an input or an output whose type and shape only ONNX Runtime checks, in each run.

        The model has the name, and an output's value is writeable.
        """
        bound = self._opened()
        check_reach(bound.session, bound.owner, value, f"{'output' if output else 'input'} {name!r}")
        bound.bind_value(output, name, value._open())

    def _views(self) -> dict[str, Any]:
        """The outputs of the last run: tensors of numbers on the host as numpy views, others as values."""
        return self._opened().read(Form.VIEWS)

    def _copies(self) -> dict[str, Any]:
        """`_views`, whose arrays have memory of their own."""
        return self._opened().read(Form.COPIES)

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
        status.check(bound.claimed(api().SynchronizeBoundInputs, bound.binding))

    def synchronize_outputs(self) -> None:
        """Waits until the devices have written the bound outputs."""
        bound = self._opened()
        status.check(bound.claimed(api().SynchronizeBoundOutputs, bound.binding))

    def run(self, options: RunOptions | None = None, timeout: float | None = None) -> None:
        """One inference over the bound inputs and outputs.

        A session with devices synchronizes them before and after the run by itself. Raises `ArgumentError` if an input
        or every output is not bound; an output that is not bound is not computed. `timeout` is that of `Session.run`.
        """
        bound = self._opened()
        code = run_limited(bound.block, bound.owner, options, timeout)
        if code:
            self._run_failed(code, options, timeout)

    def _run_failed(self, code: int, options: RunOptions | None = None, timeout: float | None = None) -> None:
        """Runs it once more if it may be complete now; else raises the error of a run."""
        if code == status.INCOMPLETE:
            bound = self._opened()
            bound.claimed(bound.require_complete)
            # Without an argument the run is a builtin.
            self.run() if options is None and timeout is None else self.run(options, timeout)
            return
        if code == status.BUSY:
            # In the child of a fork, a thread of the parent's uses it.
            self._opened().owner.check()
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

    def outputs(self) -> dict[str, Any]:
        """The outputs of the last run, each a `Value`, by name in the order of binding.

        An absent output of optional type is None.
        """
        return self._opened().read(Form.VALUES)

    def numpy(self) -> dict[str, Any]:
        """The outputs of the last run as numpy views; `UnsupportedError` for one on a device, or that is no tensor."""
        arrays = {}
        for name, one in self._views().items():
            try:
                arrays[name] = one.numpy() if isinstance(one, Value) else one
            except UnsupportedError as error:
                raise status.about(f"output {name!r}", error) from error
        return arrays


set_builtin(IoBinding, "run", lib.ZRT_BINDING_RUN, "_bound", "options=None, timeout=None")


def _find(name: str, infos: Mapping[str, ValueInfo], role: str, session: Session) -> ValueInfo:
    info = infos.get(name) if isinstance(name, str) else None
    if info is None:
        known = session.inputs if role == "input" else session.outputs
        raise UnknownNameError(f"the model has no {role} {shown(name)}; it has {names_of(known)}")
    return info
