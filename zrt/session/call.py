"""`Call`: the constant part of all runs with the same names, types and shapes, laid out for one C call."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np

from zrt._native import lib, ort_messages, status
from zrt._native.cdata import NULL, from_buffer, new_array, strings
from zrt._native.handle import Handle
from zrt._native.library import api
from zrt.errors import AllocationError
from zrt.loading.run_options import RunOptions
from zrt.types import ElementType, ValueKind, creation_code, nbytes
from zrt.values import Value
from zrt.values.symbolic_shapes import Shape
from zrt.values.type_info import ValueInfo, is_plain

# An array, a list, a dict ...: it is Any so that users need no casts for type checkers.
Result: TypeAlias = Any

empty = np.empty
ndarray = np.ndarray
run_arrays = lib.zrt_call_run
run_values = lib.zrt_call_run_values


class Wanted:
    """One output of a call; ORT writes it into a fresh array if the feeds determine its shape."""

    __slots__ = ("dtype", "info", "passes_through", "shape")

    def __init__(self, info: ValueInfo, shape: Shape | None, passes_through: bool = False) -> None:
        kind = info.element_type
        plain = is_plain(info)
        self.info = info
        self.dtype = kind.dtype if plain else None
        if plain and shape is not None and nbytes(kind, shape) > sys.maxsize:
            raise AllocationError(f"output {info.name!r}: no memory has room for {list(shape)}")
        # An output that is also a fed input: ORT returns the feed and writes nothing.
        self.passes_through = passes_through
        self.shape = shape if plain and not passes_through else None


class Call:
    """A run, prepared for all feeds of one set of names, types and shapes.

    `positions` names the inputs that a list of feeds stands for. `distrusted` is the session's set of outputs whose
    declared shapes proved wrong; a run that proves it adds to the set.
    """

    __slots__ = (
        "_distrusted",
        "_positions",
        "count",
        "handle",
        "inputs",
        "layout",
        "outputs",
        "reference",
        "session",
        "settled",
    )

    handle: Handle
    """The ``zrt_call``."""
    session: Handle
    """The session that the call runs."""
    outputs: tuple[Wanted, ...]
    """The outputs to compute."""
    layout: tuple[tuple[Shape | None, Any], ...]
    """For each output the shape and dtype of its array; a shape of None leaves the output to ORT."""
    settled: tuple[tuple[Any, Any], ...] | None
    """`layout` if no output is left to ORT, else None."""

    def __init__(
        self,
        session: Handle,
        run_options: Handle,
        memory: Handle,
        inputs: Sequence[tuple[ValueInfo, Shape]],
        outputs: Sequence[Wanted],
        positions: tuple[str, ...],
        distrusted: set[str],
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
        self.handle = block
        self.reference = block.reference
        self.session = session
        self.count = len(inputs)
        # Arrays of these properties are fed as they are. No array has the dtype None, which stands for other kinds.
        self.inputs = tuple(
            (info.name, info.element_type.dtype if is_plain(info) else None, shape) for info, shape in inputs
        )
        self.outputs = tuple(outputs)
        self.layout = tuple((wanted.shape, wanted.dtype) for wanted in outputs)
        self.settled = None if any(wanted.shape is None for wanted in outputs) else self.layout
        self._positions = positions
        self._distrusted = distrusted

    def memory_of(self, feeds: Any) -> list[Any] | None:
        """The memory of the feeds if they are arrays just as this call takes them, else None.

        Does not look at their alignment: C does, and returns ``ZRT_MISALIGNED``.
        """
        memory = []
        try:
            if type(feeds) is not dict and isinstance(feeds, (list, tuple)):
                feeds = dict(zip(self._positions, feeds, strict=True))
            if len(feeds) != self.count:
                return None
            for name, dtype, shape in self.inputs:
                array = feeds[name]
                # A subclass of ndarray may report another shape than that of its memory.
                if type(array) is not ndarray or array.dtype is not dtype or array.shape != shape:
                    return None
                memory.append(from_buffer(array))
        except (LookupError, TypeError, AttributeError, ValueError, BufferError, MemoryError):
            return None
        return memory

    def attempt(self, function: Any, options: Any, inputs: Any) -> tuple[int, list[Any], Any]:
        """Calls `function`, which has the arguments of ``zrt_call_run``, with fresh arrays for the outputs.

        Returns its code, the arrays, and room for the values of the outputs that are left to ORT: these are None among
        the arrays. The room is NULL if no output is left.
        """
        results: list[Any] = []
        places: list[Any] = []
        left = NULL
        try:
            for shape, dtype in self.layout:
                if shape is None:
                    results.append(None)
                    places.append(NULL)
                    left = left or new_array("OrtValue *", len(self.outputs))
                else:
                    array = empty(shape, dtype)
                    results.append(array)
                    places.append(from_buffer(array))
        except (MemoryError, ValueError) as error:
            raise AllocationError(f"output {self.outputs[len(places)].info.name!r}: {error}") from error
        return function(self.reference, options, inputs, places, left), results, left

    def run(
        self, inputs: Any, feeds: Sequence[Handle] | None = None, options: RunOptions | None = None
    ) -> list[Result]:
        """One run, or two if the model declares wrong output shapes.

        `inputs` has the memory of an array for each input; with `feeds` an ``OrtValue`` for each, which these own.
        """
        function = run_arrays if feeds is None else run_values
        opened = RunOptions.opened(options, self.session)
        code, results, left = self.attempt(function, NULL if opened is None else opened.pointer, inputs)
        if code:
            self.prepare_retry(code, results)
            return self.run(inputs, feeds, options)
        return results if left is NULL else self.collect(results, left, feeds or ())

    def prepare_retry(self, code: int, results: Sequence[Any]) -> None:
        """Raises the error of a run that failed, unless a second run can succeed: the model declares wrong shapes.

        In that case ORT allocates these outputs from now on, in this call and in the session's calls to come.
        """
        error = status.to_error(code)
        if all(result is None for result in results) or not ort_messages.WRONG_OUTPUT_SHAPE.matches(error):
            raise error
        self._distrusted.update(wanted.info.name for wanted in self.outputs)
        self.settled = None
        self.layout = tuple((None, wanted.dtype) for wanted in self.outputs)

    def collect(self, results: list[Any], left: Any, feeds: Sequence[Handle]) -> list[Result]:
        """The results with the values of `left` in their places; takes these over."""
        for index, wanted in enumerate(self.outputs):
            if results[index] is None:
                results[index] = _take(left[index], wanted, feeds, self.session)
        return results


def _take(pointer: Any, wanted: Wanted, feeds: Sequence[Handle], session: Handle) -> Result:
    """The Python object for a value that ORT allocated: a view if numpy has its type, None for an absent optional."""
    if not pointer:
        return None
    shared = wanted.passes_through
    # A sequence may share the tensors of a sequence that was fed.
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
    pointers = strings(names)
    kept.append(pointers)
    return pointers


def _tensors(tensors: Sequence[tuple[ElementType, Shape | None]], kept: list[Any]) -> Any:
    table = new_array("zrt_tensor", len(tensors))
    for row, (element_type, shape) in zip(table, tensors, strict=True):
        if shape is None:
            continue
        dims = new_array("int64_t", shape)
        kept.append(dims)
        row.type = creation_code(element_type)
        row.bytes = nbytes(element_type, shape)
        # An empty array may have any address, as in numpy.
        row.alignment = element_type.dtype.alignment if row.bytes else 1
        row.rank = len(shape)
        row.dims = dims
    kept.append(table)
    return table
