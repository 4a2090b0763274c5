"""`Call`: the constant part of all runs with the same names, types and shapes, laid out for one C call."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np

from zrt._native import lib, status
from zrt._native.cdata import NULL, from_buffer, new_array, pointer_to, strings
from zrt._native.forks import SessionHandle
from zrt._native.handle import Handle
from zrt.errors import AllocationError
from zrt.loading.run_options import RunOptions
from zrt.session.outputs import MadeOutputs, Wanted
from zrt.types import ElementType, creation_code, nbytes
from zrt.values.symbolic_shapes import Shape
from zrt.values.type_info import ValueInfo, is_plain, is_text

# An array, a list, a dict ...: it is Any so that users need no casts for type checkers.
Result: TypeAlias = Any

LEFT = status.LEFT

# The number of `MadeOutputs` that a call keeps for its next runs.
SPARE_KEPT = 16

empty = np.empty
ndarray = np.ndarray
run_arrays = lib.zrt_call_run
run_values = lib.zrt_call_run_values
run_until = lib.zrt_call_run_until


class Call:
    """A run, prepared for all feeds of one set of names, types and shapes.

    `positions` names the inputs that a list of feeds stands for. `distrusted` is the session's set of outputs whose
    declared shapes proved wrong; a run that proves it adds to the set.
    """

    __slots__ = (
        "_distrusted",
        "_positions",
        "_spare",
        "count",
        "handle",
        "inputs",
        "layout",
        "output_names",
        "outputs",
        "reference",
        "session",
        "settled",
        "takes_arrays",
    )

    handle: Handle
    """The ``zrt_call``."""
    takes_arrays: bool
    """Whether every input takes an array, so that C can run it from the caller's feeds."""
    session: SessionHandle
    """The session that the call runs."""
    outputs: tuple[Wanted, ...]
    """The outputs to compute."""
    output_names: list[str]
    """Their names."""
    layout: tuple[tuple[Shape | None, Any], ...]
    """For each output the shape and dtype of its array; a shape of None leaves the output to ORT."""
    settled: tuple[tuple[Any, Any], ...] | None
    """`layout` if no output is left to ORT, else None."""

    def __init__(
        self,
        session: SessionHandle,
        run_options: Handle,
        memory: Handle,
        inputs: Sequence[tuple[ValueInfo, Shape]],
        outputs: Sequence[Wanted],
        positions: tuple[str, ...],
        distrusted: set[str],
    ) -> None:
        kept: list[Any] = []
        input_names = _names([info.name for info, _ in inputs], kept)
        self.output_names = [wanted.info.name for wanted in outputs]
        output_names = _names(self.output_names, kept)
        input_tensors = _tensors(
            [(info.element_type, shape if is_plain(info) or is_text(info) else None) for info, shape in inputs], kept
        )
        output_tensors = _tensors([(wanted.info.element_type, wanted.shape) for wanted in outputs], kept)
        self.takes_arrays = all(is_plain(info) or is_text(info) for info, _ in inputs)
        if self.takes_arrays:
            names = _objects([info.name for info, _ in inputs], kept)
            dtypes = _objects([None if is_text(info) else info.element_type.dtype for info, _ in inputs], kept)
            shapes = [None if wanted.shape is None else (wanted.shape, wanted.dtype) for wanted in outputs]
            fresh = _objects(shapes, kept)
        block = Handle.block("zrt_call", [session, run_options, memory, Handle.pin(kept)])
        call = block.pointer
        call.api = session.table.pointer
        call.session = session.pointer
        call.run_options = run_options.pointer
        call.memory = memory.pointer
        call.input_count, call.output_count = len(inputs), len(outputs)
        call.input_names, call.output_names = input_names, output_names
        call.inputs, call.outputs = input_tensors, output_tensors
        if self.takes_arrays:
            call.names, call.dtypes, call.fresh = names, dtypes, fresh
            call.positional = positions == tuple(info.name for info, _ in inputs)
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
        self._spare: list[MadeOutputs] = []

    def memory_of(self, feeds: Any) -> list[Any] | None:
        """The memory of the feeds if they are arrays of the types and shapes of this call, else None.

        Strided arrays are copied. Does not look at the arrays' alignment: C does, and returns ``ZRT_MISALIGNED``.
        """
        memory: list[Any] = []
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
                memory.append(from_buffer(array if array.flags.c_contiguous else array.copy()))
        except (LookupError, TypeError, AttributeError, ValueError, BufferError, MemoryError):
            return None
        return memory

    def arrays(self) -> tuple[list[Any], list[Any], MadeOutputs | None]:
        """Fresh arrays for the outputs of one run, their memory, and room for the outputs that are left to ORT.

        The room is None if no output is left.
        """
        layout, made = self.settled, None
        if layout is None:
            made = self.made_outputs()
            layout = made.layout
        results: list[Any] = []
        places: list[Any] = []
        try:
            for shape, dtype in layout:
                if shape is None:
                    results.append(None)
                    places.append(NULL)
                    continue
                array = empty(shape, dtype)
                results.append(array)
                places.append(from_buffer(array))
        except (MemoryError, ValueError) as error:
            raise AllocationError(f"output {self.outputs[len(places)].info.name!r}: {error}") from error
        return results, places, made

    def run(
        self, inputs: Any, feeds: Sequence[Handle] | None = None, options: RunOptions | None = None, end: int = 0
    ) -> list[Result]:
        """One run, or two if the model declares outputs wrongly.

        `inputs` has the memory of an array for each input; with `feeds` an ``OrtValue`` for each, which these own.
        `end` is that of `deadlines.end_of`. Raises `status.MisalignedError` for an array at an address that does not
        suit its type.
        """
        opened = RunOptions.opened(options, self.session)
        if end and options is not None:
            # A deadline must not end other runs with the same options.
            options = options.twin()
            opened = options._open()
        results, places, made = self.arrays()
        chosen = NULL if opened is None else opened.pointer
        room = NULL if made is None else made.pointer
        if end:
            memory, values = (inputs, NULL) if feeds is None else (NULL, inputs)
            code = run_until(self.reference, chosen, end, memory, values, places, room, id(results))
        else:
            function = run_arrays if feeds is None else run_values
            code = function(self.reference, chosen, inputs, places, room, id(results))
        if code and code != LEFT:
            self.prepare_retry(code, made)
            return self.run(inputs, feeds, options, end)
        return results if made is None else self.collect(code, results, made, feeds or ())

    def prepare_retry(self, code: int, made: MadeOutputs | None) -> None:
        """Raises the error of a run that failed, unless a second run can succeed: the model declares outputs wrongly.

        In that case ORT allocates these outputs from now on, in this call and in the session's calls to come.
        """
        # Deferred: most models declare their outputs rightly.
        from zrt._native import ort_messages

        error = status.to_error(code)
        if (made is not None and not made.binds) or not ort_messages.declares_wrongly(error):
            try:
                raise error
            finally:
                # The exception's traceback keeps this frame: without the name there is no cycle, and the feeds go now.
                del error
        self._distrusted.update(wanted.info.name for wanted in self.outputs)
        self.layout = tuple((None, wanted.dtype) for wanted in self.outputs)
        self._spare = []
        self.settled = None

    def made_outputs(self) -> MadeOutputs:
        """Room for the outputs of one run that are left to ORT: that of an earlier run, or a new one."""
        try:
            return self._spare.pop()
        except IndexError:
            return MadeOutputs(self.session, self.outputs, self.layout)

    def spare(self, made: MadeOutputs) -> None:
        """Keeps room for the outputs of a later run."""
        # Many runs may have been under way at the same time.
        if len(self._spare) < SPARE_KEPT:
            self._spare.append(made)

    def collect(
        self, waiting: int, results: list[Any], made: MadeOutputs, feeds: Sequence[Handle] = ()
    ) -> list[Result]:
        """The results of a successful run. `waiting` is not 0 if an output still waits for its object."""
        if waiting:
            made.collect(results, feeds)
        self.spare(made)
        return results


def key_of(feeds: Any, outputs: Any) -> Any:
    """The shapes of the feeds, in the order given, and the outputs; None unless the feeds are arrays of numpy.

    Feeds that are not those of the call with an equal key fail its checks: names and shapes are compared again.
    """
    given: Sequence[Any]
    if type(feeds) is dict:
        # A list: another thread may change the dict meanwhile.
        given = list(feeds.values())
    elif type(feeds) is list or type(feeds) is tuple:
        given = feeds
    else:
        return None
    key: list[Any] = []
    for array in given:
        if type(array) is not ndarray:
            return None
        key.append(array.shape)
    if outputs is not None:
        if type(outputs) is not list and type(outputs) is not tuple:
            return None
        names = tuple(outputs)
        try:
            hash(names)
        except Exception:  # of a name's own hash: the checks refuse such a name
            return None
        key.append(names)
    return tuple(key)


def _names(names: Sequence[str], kept: list[Any]) -> Any:
    pointers = strings(names)
    kept.append(pointers)
    return pointers


def _objects(things: Sequence[object], kept: list[Any]) -> Any:
    """The addresses of Python's objects, NULL for None; `kept` keeps the objects too."""
    pointers = new_array("void *", [NULL if thing is None else pointer_to(id(thing)) for thing in things])
    kept += [pointers, things]
    return pointers


def _tensors(tensors: Sequence[tuple[ElementType, Shape | None]], kept: list[Any]) -> Any:
    table = new_array("zrt_tensor", len(tensors))
    for row, (element_type, shape) in zip(table, tensors, strict=True):
        if shape is None:
            continue
        dims = new_array("int64_t", shape)
        kept.append(dims)
        row.type = creation_code(element_type)
        row.bytes = 0 if element_type is ElementType.STRING else nbytes(element_type, shape)
        # An empty array may have any address, as in numpy.
        row.alignment = element_type.dtype.alignment if row.bytes else 1
        row.rank = len(shape)
        row.dims = dims
    kept.append(table)
    return table
