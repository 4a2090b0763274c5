"""`Call`: what stays the same between runs with the same names, types and shapes, laid out for one C call."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np

from zrt._native import ffi, lib, status
from zrt._native.handle import Handle
from zrt._native.library import api
from zrt.errors import AllocationError, Error, FailError, TerminatedError
from zrt.loading.session_options import RunOptions
from zrt.types import ElementType, ValueKind, creation_code, nbytes
from zrt.values import Value
from zrt.values.symbolic_shapes import Shape
from zrt.values.type_info import ValueInfo, is_plain

# An array, a list, a dict ...; Any, so that users need not tell type checkers which.
Result: TypeAlias = Any

NULL = ffi.NULL
from_buffer = ffi.from_buffer
run_arrays = lib.zrt_call_run
run_values = lib.zrt_call_run_values


def failure(address: int) -> Error:
    """The exception for a run's status, given by its address: one of its own where `RunOptions.terminate` ended it."""
    error = status.to_error_at(address)
    # ORT has no code for it.
    if type(error) is FailError and "terminate flag" in str(error):
        return TerminatedError(str(error))
    return error


def shape_was_wrong(error: Error) -> bool:
    """Whether the run failed because an output turned out otherwise than the array it was to go into."""
    return "output OrtValue provided for output" in str(error)


def was_misaligned(error: Error) -> bool:
    """Whether nothing was run, because a feed's memory does not suit its type: C sees that for less than Python."""
    return "zrt: this memory is misaligned" in str(error)


class Wanted:
    """One output of a call: its shape where the feeds settle it, so that ORT writes into a fresh array."""

    __slots__ = ("dtype", "info", "passes_through", "shape")

    def __init__(self, info: ValueInfo, shape: Shape | None, passes_through: bool = False) -> None:
        kind = info.element_type
        plain = is_plain(info)
        self.info = info
        self.dtype = kind.dtype if plain else None
        if plain and shape is not None and nbytes(kind, shape) > sys.maxsize:
            raise AllocationError(f"output {info.name!r}: no memory has room for {list(shape)}")
        # ORT never writes an output that is a fed input: it hands the feed out again.
        self.passes_through = passes_through
        self.shape = shape if plain and not passes_through else None

    def empty(self) -> np.ndarray[Any, Any]:
        """A fresh array for ORT to write into."""
        try:
            return np.empty(self.shape, self.dtype)
        except (MemoryError, ValueError) as error:
            raise AllocationError(f"output {self.info.name!r}: {error}") from error


class Call:
    """A run, prepared for all feeds of one set of names, types and shapes."""

    __slots__ = ("_made_of", "count", "handle", "inputs", "outputs", "reference", "settled")

    def __init__(
        self,
        session: Handle,
        run_options: Handle,
        memory: Handle,
        inputs: Sequence[tuple[ValueInfo, Shape]],
        outputs: Sequence[Wanted],
    ) -> None:
        kept: list[Any] = []
        input_names = _names([info.name for info, _ in inputs], kept)
        output_names = _names([wanted.info.name for wanted in outputs], kept)
        input_tensors = _tensors(
            [(info.element_type, shape if is_plain(info) else None) for info, shape in inputs], kept
        )
        output_tensors = _tensors([(wanted.info.element_type, wanted.shape) for wanted in outputs], kept)
        block = Handle.block("zrt_call", [session, run_options, memory, Handle.pin(kept)])
        call = block.pointer
        call.api = api()
        call.session = session.pointer
        call.run_options = run_options.pointer
        call.memory = memory.pointer
        call.input_count, call.output_count = len(inputs), len(outputs)
        call.input_names, call.output_names = input_names, output_names
        call.inputs, call.outputs = input_tensors, output_tensors
        self._made_of = (session, run_options, memory, inputs)
        self.handle = block
        self.reference = block.reference
        self.outputs = tuple(outputs)
        # For the short way of Session.run: what an array must have to be fed as it is, which only numbers can be.
        self.count = len(inputs)
        self.inputs = tuple(
            (info.name, info.element_type.dtype if is_plain(info) else None, shape) for info, shape in inputs
        )
        # Every output's shape and dtype, or None where one is left to ORT.
        self.settled: tuple[tuple[Any, Any], ...] | None = (
            tuple((wanted.shape, wanted.dtype) for wanted in outputs)
            if all(wanted.shape is not None for wanted in outputs)
            else None
        )

    @property
    def session(self) -> Handle:
        """The session that it is a call of."""
        return self._made_of[0]

    def left_open(self) -> Call:
        """The same call with every output's shape left to ORT."""
        return Call(*self._made_of, [Wanted(wanted.info, None, wanted.passes_through) for wanted in self.outputs])

    def run_arrays(self, memory: list[Any], options: RunOptions | None = None) -> list[Result]:
        """One run over the inputs' memory."""
        return self._run(run_arrays, memory, (), options)

    def run_values(self, pointers: Any, feeds: Sequence[Handle], options: RunOptions | None = None) -> list[Result]:
        """One run over values: `pointers` has an ``OrtValue`` for each input, `feeds` the handles that own them."""
        return self._run(run_values, pointers, feeds, options)

    def _run(self, function: Any, inputs: Any, feeds: Sequence[Handle], options: RunOptions | None) -> list[Result]:
        results, places = self.room()
        left = NULL if self.settled is not None else ffi.new("OrtValue *[]", len(results))
        chosen = RunOptions.opened(options, self.session)
        code = function(self.reference, NULL if chosen is None else chosen.pointer, inputs, places, left)
        if code:
            raise failure(code)
        return results if self.settled is not None else self.collect(results, left, feeds)

    def memory_of(self, given: Any) -> list[Any] | None:
        """The inputs' memory where a dict has just these arrays; None for all else, which wants a closer look."""
        if type(given) is not dict or len(given) != self.count:
            return None
        memory = []
        try:
            for name, dtype, shape in self.inputs:
                array = given[name]
                if type(array) is not np.ndarray or array.dtype is not dtype or array.shape != shape:
                    return None
                # A run that has begun in the background is no longer to be begun anew, as `Session.run` does.
                if not array.flags.aligned:
                    return None
                memory.append(from_buffer(array))
        except (LookupError, ValueError, BufferError, MemoryError):
            return None
        return memory

    def room(self) -> tuple[list[Any], list[Any]]:
        """For each output a fresh array and its memory, or None and NULL where it is left to ORT."""
        results: list[Any] = []
        places = []
        for wanted in self.outputs:
            if wanted.shape is None:
                results.append(None)
                places.append(NULL)
            else:
                array = wanted.empty()
                results.append(array)
                places.append(from_buffer(array))
        return results, places

    def collect(self, results: list[Any], left: Any, feeds: Sequence[Handle]) -> list[Result]:
        """The results with what ORT made in its places; takes over the values of `left`."""
        for index, wanted in enumerate(self.outputs):
            if wanted.shape is None:
                results[index] = _take(left[index], wanted, feeds, self.session)
        return results


def _take(pointer: Any, wanted: Wanted, feeds: Sequence[Handle], session: Handle) -> Result:
    """What ORT made, as Python has it: a view where numpy has the type, None where there is nothing."""
    if not pointer:
        return None
    shared = wanted.passes_through
    # A sequence may have its tensors from one that was fed.
    value = Value.own(pointer, feeds if shared or wanted.dtype is None else ())
    value.hold(session)
    if not value.memory.is_host:
        return value
    if wanted.dtype is not None:
        array = value.numpy()
        return array.copy() if shared else array
    if value.kind is ValueKind.SEQUENCE:
        return value.to_list()
    if value.kind is ValueKind.MAP:
        return value.to_dict()
    if value.kind is ValueKind.SPARSE_TENSOR:
        return value.sparse().copy() if shared else value.sparse()
    if not value.is_tensor:
        return value
    if value.element_type.packed:
        return Value.from_packed(value.numpy().copy(), value.element_type, value.shape) if shared else value
    return value.numpy().copy() if shared else value.numpy()


def _names(names: Sequence[str], kept: list[Any]) -> Any:
    texts = [ffi.new("char[]", name.encode()) for name in names]
    pointers = ffi.new("const char *[]", texts)
    kept += [*texts, pointers]
    return pointers


def _tensors(tensors: Sequence[tuple[ElementType, Shape | None]], kept: list[Any]) -> Any:
    table = ffi.new("zrt_tensor[]", len(tensors))
    for row, (element_type, shape) in zip(table, tensors, strict=True):
        if shape is None:
            continue
        dims = ffi.new("int64_t[]", shape)
        kept.append(dims)
        row.type = creation_code(element_type)
        row.bytes = nbytes(element_type, shape)
        # Where there is nothing to read any address will do, as in numpy.
        row.alignment = element_type.dtype.alignment if row.bytes else 1
        row.rank = len(shape)
        row.dims = dims
    kept.append(table)
    return table
