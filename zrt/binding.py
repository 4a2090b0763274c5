"""`IoBinding`: inputs and outputs bound by name, and runs over what is bound."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from zrt._native import ffi, lib, status
from zrt._native.handle import Handle, Owner
from zrt._native.library import api
from zrt.buffers import Buffer
from zrt.calls import failure
from zrt.errors import ArgumentError, BusyError, DTypeError, Error, UnknownNameError
from zrt.feeds import check_type, names_of, right_value
from zrt.memory import CPU, MemoryInfo, default_allocator
from zrt.metadata import ValueInfo
from zrt.options import RunOptions
from zrt.session import Session
from zrt.shapes import check
from zrt.values import Value, as_value

BUSY = lib.ZRT_BUSY


def lane_block(
    session: Session,
    owner: Handle,
    binding: Handle,
    *,
    synchronize: bool,
    rebound: Sequence[tuple[str, Handle]] = (),
    left: Sequence[tuple[str, MemoryInfo]] = (),
    parents: Sequence[Handle] = (),
) -> Handle:
    """The ``zrt_lane`` for a binding: what each run does, and the flag that keeps a second thread out.

    `rebound` are inputs to bind anew before each run, `left` outputs to hand back to ORT.
    """
    options = session._run_options
    memories = [memory.handle() for _, memory in left]
    names = [ffi.new("char[]", name.encode()) for name, _ in (*rebound, *left)]
    input_names = ffi.new("const char *[]", names[: len(rebound)])
    output_names = ffi.new("const char *[]", names[len(rebound) :])
    input_values = ffi.new("OrtValue *[]", [value.pointer for _, value in rebound])
    output_memories = ffi.new("const OrtMemoryInfo *[]", [memory.pointer for memory in memories])
    kept = Handle.pin((names, input_names, output_names, input_values, output_memories))
    values = [value for _, value in rebound]
    block = Handle.block("zrt_lane", [owner, binding, options, kept, *values, *memories, *parents])
    lane = block.pointer
    lane.api = api()
    lane.session = owner.pointer
    lane.binding = binding.pointer
    lane.run_options = options.pointer
    lane.synchronize = synchronize
    lane.input_count, lane.output_count = len(rebound), len(left)
    lane.input_names, lane.output_names = input_names, output_names
    lane.input_values, lane.output_memories = input_values, output_memories
    return block


@contextmanager
def claimed(block: Handle, what: str) -> Iterator[None]:
    """Keeps runs out for a while; `BusyError` if one is under way."""
    if lib.zrt_lane_claim(block.reference):
        raise BusyError(f"this {what} is in use by another thread")
    try:
        yield
    finally:
        lib.zrt_lane_free(block.reference)


def run_failure(code: int, what: str, options: RunOptions | None = None) -> Error:
    """The exception for what a run of a lane returned."""
    if code == BUSY:
        return BusyError(f"this {what} is in use by another thread")
    return failure(code, options)


def bound_values(binding: Handle, keepers: Sequence[Handle]) -> list[Value | None]:
    """The values bound as outputs, in the order of their binding; `keepers` own the memory that was bound.

    None stands for what ORT has not made yet. ``OrtApi::GetBoundOutputValues``.
    """
    table = api()
    allocator = default_allocator()
    values, count = ffi.new("OrtValue ***"), ffi.new("size_t *")
    status.check(table.GetBoundOutputValues(binding.pointer, allocator, values, count))
    if not values[0]:
        return []
    try:
        owned = [Handle.own(values[0][i], table.ReleaseValue, keepers) for i in range(count[0])]
    finally:
        table.AllocatorFree(allocator, values[0])
    return [Value(handle) if status.fetch(table.HasValue, "int", handle.pointer) else None for handle in owned]


def writable_value(info: ValueInfo, place: np.ndarray[Any, Any] | Value | Buffer, subject: str) -> Value:
    """A value for ORT to write an output into: of the model's type, and of a shape that it admits."""
    if isinstance(place, np.ndarray) and not place.flags.writeable:
        raise ArgumentError(f"{subject}: the array is read-only")
    value = as_value(place, subject)
    check_type(info, value.element_type, subject)
    check(info, value.shape, subject)
    return value


class IoBinding(Owner):
    """What a run reads and writes, bound by name (``OrtIoBinding``).

    The binding keeps alive what is bound to it. A second thread that uses it at the same time gets `BusyError`.
    """

    __slots__ = ("_block", "_inputs", "_outputs", "_owner", "_session")

    def __init__(self, session: Session) -> None:
        self._handle = None
        table = api()
        owner = session._open()
        pointer = status.make(table.CreateIoBinding, "OrtIoBinding", owner.pointer)
        handle = Handle.own(pointer, table.ReleaseIoBinding, [owner])
        # The session's own handle: the binding goes on working when the session is closed.
        self._owner = owner
        self._session = session
        self._inputs: dict[str, Handle] = {}
        self._outputs: dict[str, Handle | MemoryInfo] = {}
        self._block = lane_block(session, owner, handle, synchronize=False)
        self._handle = handle

    def close(self) -> None:
        """Closes it; what was bound is let go, unless a run is under way: then with the object."""
        super().close()
        if not lib.zrt_lane_claim(self._block.reference):
            self._inputs, self._outputs = {}, {}
            lib.zrt_lane_free(self._block.reference)

    def bind_input(self, name: str, feed: np.ndarray[Any, Any] | Value | Buffer) -> None:
        """Binds an input to the feed's own memory; binding a name again replaces what was bound.

        For an input that the session wants on a device, ORT copies the feed there now, and later writes to it are
        seen only after binding it again. ``OrtApi::BindInput``.
        """
        handle = self._open()
        info = _find(name, (*self._session.inputs, *self._session.initializers), "input")
        value = right_value(info, feed)._open()
        with claimed(self._block, "IoBinding"), _about(f"input {name!r}"):
            status.check(api().BindInput(handle.pointer, name.encode(), value.pointer))
            self._inputs[name] = value

    def bind_output(self, name: str, place: np.ndarray[Any, Any] | Value | Buffer | MemoryInfo | None = None) -> None:
        """Binds an output to the caller's memory, or leaves it to ORT on a memory (None: on the host).

        ``OrtApi::BindOutput``, ``BindOutputToDevice``.
        """
        handle = self._open()
        info = _find(name, self._session.outputs, "output")
        subject = f"output {name!r}"
        if place is None or isinstance(place, MemoryInfo):
            memory = place or CPU
            where = memory.handle()
            with claimed(self._block, "IoBinding"), _about(subject):
                status.check(api().BindOutputToDevice(handle.pointer, name.encode(), where.pointer))
                self._outputs[name] = memory
            return
        if name in self._session.input_names:
            raise ArgumentError(f"{subject} is an input as well: ORT hands it out again and writes nothing")
        value = writable_value(info, place, subject)._open()
        with claimed(self._block, "IoBinding"), _about(subject):
            status.check(api().BindOutput(handle.pointer, name.encode(), value.pointer))
            self._outputs[name] = value

    def clear_inputs(self) -> None:
        """Forgets every bound input. ``OrtApi::ClearBoundInputs``."""
        handle = self._open()
        with claimed(self._block, "IoBinding"):
            api().ClearBoundInputs(handle.pointer)
            self._inputs = {}

    def clear_outputs(self) -> None:
        """Forgets every bound output. ``OrtApi::ClearBoundOutputs``."""
        handle = self._open()
        with claimed(self._block, "IoBinding"):
            api().ClearBoundOutputs(handle.pointer)
            self._outputs = {}

    def synchronize_inputs(self) -> None:
        """Waits until the devices have the bound inputs. ``OrtApi::SynchronizeBoundInputs``."""
        handle = self._open()
        with claimed(self._block, "IoBinding"):
            status.check(api().SynchronizeBoundInputs(handle.pointer))

    def synchronize_outputs(self) -> None:
        """Waits until the devices have written the bound outputs. ``OrtApi::SynchronizeBoundOutputs``."""
        handle = self._open()
        with claimed(self._block, "IoBinding"):
            status.check(api().SynchronizeBoundOutputs(handle.pointer))

    def run(self, options: RunOptions | None = None) -> None:
        """One inference over what is bound. ``OrtApi::RunWithBinding``.

        On a session with devices the calls that synchronize come before and after it by themselves. An input that
        is not bound is an `ArgumentError`; an output that is not bound is not computed.
        """
        handle = self._open()
        missing = [info for info in self._session.inputs if info.name not in self._inputs]
        if missing:
            raise ArgumentError(f"input {names_of(missing)} is not bound")
        if not self._outputs:
            raise ArgumentError("no output is bound")
        if options is not None and not isinstance(options, RunOptions):
            raise DTypeError(f"options: expected RunOptions, got {type(options).__name__}")
        chosen = options._open() if options is not None else self._session._run_options
        with claimed(self._block, "IoBinding"):
            table = api()
            devices = len(self._session.providers) > 1
            for name, place in self._outputs.items():
                if isinstance(place, MemoryInfo):
                    # ORT would take what it made in the last run for memory of the caller's.
                    where = place.handle()
                    status.check(table.BindOutputToDevice(handle.pointer, name.encode(), where.pointer))
            if devices:
                status.check(table.SynchronizeBoundInputs(handle.pointer))
            result = table.RunWithBinding(self._owner.pointer, chosen.pointer, handle.pointer)
            if result:
                raise failure(int(ffi.cast("uintptr_t", result)), options)
            if devices:
                status.check(table.SynchronizeBoundOutputs(handle.pointer))

    def outputs(self) -> dict[str, Value]:
        """The outputs that the last run wrote, by name, in the order of their binding."""
        handle = self._open()
        with claimed(self._block, "IoBinding"):
            keepers = [place for place in self._outputs.values() if isinstance(place, Handle)]
            values = bound_values(handle, keepers)
            return {name: value for name, value in zip(self._outputs, values, strict=True) if value is not None}

    def numpy(self) -> dict[str, np.ndarray[Any, Any]]:
        """The same as numpy views on their memory; what lies on a device is refused (see `Value.numpy`)."""
        return {name: value.numpy() for name, value in self.outputs().items()}


def _find(name: str, infos: Sequence[ValueInfo], what: str) -> ValueInfo:
    for info in infos:
        if info.name == name:
            return info
    raise UnknownNameError(f"the model has no {what} {name!r}; it has {names_of(infos)}")


@contextmanager
def _about(subject: str) -> Iterator[None]:
    """Puts the subject in front of what ORT says."""
    try:
        yield
    except BusyError:
        raise
    except Error as error:
        raise status.about(subject, error) from error
