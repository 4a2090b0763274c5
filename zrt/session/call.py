"""`Call`: the constant part of all runs with the same names and types, laid out for one C call; deadlines of runs."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, TypeAlias

from zrt._common.arguments import seconds
from zrt._native import builtin, lib, ort_messages, status
from zrt._native.cdata import NULL, address_of, new_array, pointer_to, strings
from zrt._native.handle import Handle
from zrt._native.session_handle import SessionHandle
from zrt.errors import AllocationError, ArgumentError, UnsupportedError
from zrt.loading.run_options import RunOptions, default_run_options
from zrt.memory.allocators import cpu_memory
from zrt.memory.arrays import MOST_DIMENSIONS
from zrt.session.outputs import OwnedMemory, Wanted, allocated_outputs, object_of
from zrt.types import ElementType, creation_code, nbytes
from zrt.values.symbolic_shapes import Shape
from zrt.values.type_info import ValueInfo, format_shape, is_plain, is_text

# The number of calls of settled shapes that a session keeps, and of general ones.
CALLS_KEPT = 64
# After so many combinations for the same outputs there is one call for all others, which finds the shapes in each run.
CALLS_SETTLED = 8

# An array, a list, a dict ...: it is Any so that users need no casts for type checkers.
Result: TypeAlias = "Any"

# The builtins of call.h. `Call.settle` takes the tuple that a run returns in place of a list.
find_call: Callable[..., Call | None] = builtin.find_call
run_feeds: Callable[..., list[Result] | tuple[int, list[Result], Call] | None] = builtin.run_feeds
run_values: Callable[..., list[Result] | tuple[int, list[Result], Call]] = builtin.run_values


if lib.zrt_watch_open(threading.main_thread().ident, ort_messages.RUN_TERMINATED.words.encode()):
    raise AllocationError("no memory for deadlines")


class Call:
    """A run, prepared for all feeds of one set of names, types and shapes; or of names and types, if it is `general`.

    `key` identifies it among the calls of its session. `positions` are the session's inputs in the order of a list,
    and `wanted` the outputs where the caller named them. `distrusted` is the session's set of outputs whose declared
    shapes proved wrong; a run that proves it adds to the set. A general call has the shapes of `general_shapes`.
    """

    __slots__ = (
        "_allocated",
        "_distrusted",
        "address",
        "general",
        "handle",
        "has_text",
        "key",
        "outputs",
        "session",
        "wanted",
    )

    # Whether `run_feeds` and `find_call` may choose it: a `ValueCall` is found by its key alone.
    _by_feeds = True

    address: int
    """That of `handle`, for the builtins."""
    has_text: bool
    """Whether an input takes strings, which each run checks and converts."""

    def __init__(
        self,
        key: Any,
        session: SessionHandle,
        inputs: Sequence[tuple[ValueInfo, Shape | None]],
        outputs: Sequence[Wanted],
        positions: tuple[str, ...] = (),
        wanted: tuple[str, ...] | None = None,
        distrusted: set[str] | None = None,
        general: bool = False,
    ) -> None:
        keepalive: list[Any] = [wanted]
        names = [info.name for info, _ in inputs]
        takes_array = [is_plain(info) or is_text(info) for info, _ in inputs]
        run_options, memory = default_run_options(), cpu_memory()
        block = Handle.block("zrt_call", [session, run_options, memory, Handle.pin(keepalive)])
        call = block.pointer
        call.api = session.table.pointer
        call.session = session.pointer
        call.run_options = run_options.pointer
        call.memory = memory.pointer
        call.input_count, call.output_count = len(inputs), len(outputs)
        call.input_names = _keep(keepalive, strings(names))
        call.output_names = _keep(keepalive, strings([output.info.name for output in outputs]))
        call.general = general
        shapes = [shape if takes else None for (_, shape), takes in zip(inputs, takes_array, strict=True)]
        types = [info.element_type if takes else None for (info, _), takes in zip(inputs, takes_array, strict=True)]
        call.inputs = _tensors(types, shapes, keepalive)
        types = [None if output.shape is None else output.info.element_type for output in outputs]
        call.outputs = _tensors(types, [output.shape for output in outputs], keepalive)
        fresh = [None if o.shape is None else o.dtype if general else (o.shape, o.dtype) for o in outputs]
        call.fresh = _objects(fresh, keepalive)
        if self._by_feeds and all(takes_array):
            call.names = _objects(names, keepalive)
            call.dtypes = _objects(
                [None if is_text(info) else info.element_type.dtype for info, _ in inputs], keepalive
            )
            call.positional = positions == tuple(names)
        if wanted is not None:
            call.wanted = pointer_to(id(wanted))
        if session.arena is not None:
            call.arena = session.arena.pointer
            if not general:
                call.input_bytes = sum(
                    nbytes(info.element_type, shape)
                    for (info, _), shape in zip(inputs, shapes, strict=True)
                    if shape is not None and not is_text(info)
                )
        self.key: Any = key
        self.general: bool = general
        self.handle: Handle = block
        self.address = block.address
        self.has_text = any(is_text(info) for info, _ in inputs)
        self.session: SessionHandle = session
        self.outputs: tuple[Wanted, ...] = tuple(outputs)
        self.wanted: tuple[str, ...] | None = wanted
        self._distrusted = set() if distrusted is None else distrusted
        self._allocated: list[Handle] = []
        if any(output.shape is None for output in outputs):
            self._allocate([None if output.shape is not None else output for output in outputs])

    def _allocate(self, outputs: Sequence[Wanted | None]) -> None:
        """Lets ORT allocate these outputs in all later runs."""
        # A result in the arena would keep its region from going back to the system.
        block = allocated_outputs(outputs, copied=self.session.arena is not None)
        # A run of another thread may be reading the former block.
        self._allocated.append(block)
        self.handle.pointer.allocated = block.pointer

    def run(
        self, inputs: Any, handles: Sequence[Handle] | None = None, options: RunOptions | None = None, end: int = 0
    ) -> list[Result]:
        """One run, or two if the model declares outputs wrongly.

        `inputs` are the arrays by name, of the types and shapes of this call; with `handles` a C array of
        ``OrtValue *``, which these own. `end` is that of `end_of`.
        """
        limit = limits(options, end, self.session)
        calls, run_options = (self.address, self), address_of(limit.options)
        while True:
            if handles is None:
                answer = run_feeds(calls, inputs, self.wanted, run_options, end)
            else:
                answer = run_values(calls, address_of(inputs), run_options, end)
            if type(answer) is list:
                return answer
            if answer is None:
                raise ArgumentError("feeds: an array changed its type or shape, or there is no memory for a copy")
            code, results, _ = answer
            if self.settle(code, results, handles or ()):
                return results

    def settle(self, code: int, results: list[Result], handles: Sequence[Handle] = ()) -> bool:
        """Completes the results of a run that returned `code` and returns True, or raises the run's error.

        Returns False where the run must be made again, because the model declares outputs wrongly: ORT allocates these
        outputs from now on, in this call and in the session's calls to come. `results` of a failed run are arrays that
        are not filled, and Nones.
        """
        if code == status.VALUES:
            self.put_objects(results, handles)
            return True
        if code == status.NO_MEMORY and len(results) < len(self.outputs):
            output = self.outputs[len(results)]
            if output.shape is not None and len(output.shape) > MOST_DIMENSIONS:
                raise UnsupportedError(
                    f"output {output.info.name!r}: numpy has no array of {len(output.shape)} dimensions; run_values "
                    "gives a Value"
                )
            shape = format_shape(output.info.shape) if self.general else output.shape
            size = "the values" if output.shape is None else f"an array of the shape {shape}"
            raise AllocationError(f"output {output.info.name!r}: no memory for {size}")
        error = status.to_error(code)
        if all(result is None for result in results) or not ort_messages.declares_wrongly(error):
            try:
                raise error
            finally:
                # The exception's traceback keeps this frame: without the name there is no cycle, and the feeds go now.
                del error
        self._distrusted.update(output.info.name for output in self.outputs)
        self._allocate(self.outputs)
        return False

    def put_objects(self, results: list[Result], handles: Sequence[Handle]) -> None:
        """Replaces each value among the results by Python's object for it; `handles` own the fed values."""
        for index, output in enumerate(self.outputs):
            if type(results[index]) is OwnedMemory:
                results[index] = object_of(results[index], output, self.session, handles)


def known(calls: tuple[Any, ...], key: Any) -> Call | None:
    """The call with a key in the table of a session's calls, which call.h describes."""
    return next((call for call in calls[1::2] if call.key == key), None)


def kept(new: Call, calls: tuple[Any, ...]) -> tuple[Any, ...]:
    """The table of a session's calls with a new one: the newest first, and general ones at the end."""
    settled, general = ([call for call in calls[1::2] if call.general is kind] for kind in (False, True))
    (general if new.general else settled).insert(0, new)
    return tuple(part for call in (*settled[:CALLS_KEPT], *general[:CALLS_KEPT]) for part in (call.address, call))


def end_of(timeout: float | None) -> int:
    """The time at which C ends a run that starts now (watch.c); 0 if `timeout` is None.

    Raises for no number of seconds.
    """
    if timeout is None:
        return 0
    return int(lib.zrt_clock()) + int(seconds(timeout, "timeout") * 1e9)


class Limits(NamedTuple):
    """The options and the deadline of one run; `owners` keep the options alive, also if another thread closes them."""

    options: Any
    end: int
    owners: tuple[RunOptions | None, Handle | None]


def limits(options: RunOptions | None, end: int, session: Handle, bound: bool = False) -> Limits:
    """The limits of one run of `session`; the arguments are those of `RunOptions.opened` and of `Call.run`."""
    opened = RunOptions.opened(options, session, bound)
    if end and options is not None:
        # A deadline must not end other runs with the same options.
        options = options.twin()
        opened = options._open()
    return Limits(NULL if opened is None else opened.pointer, end, (options, opened))


def _keep(keepalive: list[Any], data: Any) -> Any:
    keepalive.append(data)
    return data


def _objects(things: Sequence[object], keepalive: list[Any]) -> Any:
    """The addresses of Python's objects, NULL for None; `keepalive` keeps the objects too."""
    keepalive.append(things)
    return _keep(keepalive, new_array("void *", [NULL if thing is None else pointer_to(id(thing)) for thing in things]))


def _tensors(types: Sequence[ElementType | None], shapes: Sequence[Shape | None], keepalive: list[Any]) -> Any:
    table = _keep(keepalive, new_array("zrt_tensor", len(types)))
    for row, element_type, shape in zip(table, types, shapes, strict=True):
        if element_type is None:
            continue
        row.type = creation_code(element_type)
        row.alignment = 1 if element_type is ElementType.STRING else element_type.dtype.alignment
        if shape is not None:
            row.rank = len(shape)
            row.dims = _keep(keepalive, new_array("int64_t", shape))
            if not all(shape):
                # An empty array may have any address, as in numpy.
                row.alignment = 1
    return table
