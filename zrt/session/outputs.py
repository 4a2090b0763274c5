"""The outputs of a run: their names, `Wanted` for each, `MadeOutputs` for those that ONNX Runtime allocates."""

from __future__ import annotations

import sys
from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from zrt._common.arguments import shown, wrong_type
from zrt._native import lib
from zrt._native.cdata import NULL, address_of, new_array, pointer_to
from zrt._native.handle import Handle
from zrt._native.library import api
from zrt.errors import AllocationError, ArgumentError, UnknownNameError
from zrt.memory.allocators import CPU, MemoryInfo
from zrt.types import ValueKind, nbytes
from zrt.values import symbolic_shapes
from zrt.values.symbolic_shapes import Shape
from zrt.values.type_info import ValueInfo, is_plain, is_text

if TYPE_CHECKING:
    from zrt.values import Value

if lib.zrt_arrays_open(id(np.ndarray), id(np.empty)):
    raise AllocationError("no memory for the type of the memory of outputs")


class Wanted:
    """One output of a call; ORT writes it into a fresh array if the feeds determine its shape."""

    __slots__ = ("dtype", "info", "passes_through", "shape")

    def __init__(self, info: ValueInfo, shape: Shape | None, passes_through: bool = False) -> None:
        kind = info.element_type
        plain = is_plain(info)
        self.info = info
        self.dtype = kind.dtype if plain or is_text(info) else None
        if plain and shape is not None and nbytes(kind, shape) > sys.maxsize:
            raise AllocationError(f"output {info.name!r}: no memory has room for {list(shape)}")
        # An output that is also a fed input: ORT returns the feed and writes nothing.
        self.passes_through = passes_through
        self.shape = shape if plain and not passes_through else None


def chosen(outputs: Sequence[str] | None, known: Sequence[str]) -> tuple[str, ...] | None:
    """The names of the outputs to compute, checked; None for all. `known` are those that the model has."""
    if outputs is None:
        return None
    if isinstance(outputs, Mapping):
        raise wrong_type("outputs", f"a list of names {_order(known)}", outputs)
    if isinstance(outputs, str) or not isinstance(outputs, Sequence):
        raise wrong_type("outputs", "a list of names", outputs)
    for name in outputs:
        if not isinstance(name, str) or name not in known:
            more = f" {_order(known)}" if isinstance(name, np.ndarray) else ""
            names = ", ".join(map(repr, known)) or "none"
            raise UnknownNameError(f"outputs: the model has no output {shown(name)}{more}; it has {names}")
    if not outputs or len(set(outputs)) != len(outputs):
        raise ArgumentError(f"outputs: expected names, each once, got {shown(outputs)}")
    return tuple(outputs)


def _order(known: Sequence[str]) -> str:
    """A hint for users of onnxruntime, whose `run` takes the names first."""
    return f"(zrt takes the feeds first, as in run(feeds, {list(known[:1])}))"


def resolved(
    declared: Sequence[ValueInfo],
    names: Sequence[str],
    inputs: Sequence[tuple[ValueInfo, Shape]],
    distrusted: Collection[str],
) -> list[Wanted]:
    """The outputs of these names for inputs of these shapes; the declarations of `distrusted` ones are wrong."""
    sizes = symbolic_shapes.bind([info for info, _ in inputs], [shape for _, shape in inputs])
    fed = {info.name for info, _ in inputs}
    infos = {info.name: info for info in declared}
    return [
        Wanted(
            infos[name],
            None if name in distrusted else symbolic_shapes.solve(infos[name], sizes),
            passes_through=name in fed,
        )
        for name in names
    ]


class MadeOutputs:
    """Room for the values of one run's outputs that ORT allocated (``zrt_made``).

    C puts the arrays of plain outputs into the list of results. One run at a time uses the room; an interrupted run
    drops it, with the values in it.
    """

    __slots__ = ("_outputs", "_session", "binds", "handle", "layout", "pointer")

    binds: bool
    """Whether other outputs of the run are bound to arrays."""
    layout: tuple[tuple[Shape | None, Any], ...]
    """For each output the shape and dtype of its array; a shape of None leaves the output to ORT."""

    def __init__(
        self,
        session: Handle | None,
        outputs: Sequence[Wanted],
        layout: tuple[tuple[Shape | None, Any], ...],
        parents: Sequence[Handle] = (),
    ) -> None:
        """The arrays keep `parents` alive, and the other outputs' values `session`, which tensors on the host do not
        need.
        """
        pointer = lib.zrt_made_new(api(), len(outputs))
        if not pointer:
            raise AllocationError("no memory for the outputs of a run")
        references = new_array("zrt_handle *", [parent.reference for parent in parents])
        kept = [*parents] if session is None else [session, *parents]
        self.handle = Handle.own(pointer, lib.zrt_made_free, kept, (references,))
        self.pointer = pointer
        self.binds = False
        self.layout = layout
        self._session = session
        self._outputs = outputs
        pointer.parents, pointer.parent_count = references, len(parents)
        for row, wanted, (shape, _) in zip(pointer.rows[0 : len(outputs)], outputs, layout, strict=True):
            if shape is not None:
                self.binds = True
                continue
            row.left = 1
            row.shared = wanted.passes_through
            if wanted.dtype is not None:
                row.type = int(wanted.info.element_type)
                row.dtype = pointer_to(id(wanted.dtype))

    def waits(self, index: int) -> bool:
        """Whether an output of the last run has a value, and no array."""
        return bool(self.pointer.rows[index].value)

    def kind(self, index: int) -> ValueKind:
        """The kind of an output that waits."""
        return ValueKind(self.pointer.rows[index].seen.kind)

    def take(self, index: int, parents: Sequence[Handle], memory: MemoryInfo = CPU, writeable: bool = True) -> Value:
        """The value of an output that waits; it keeps `parents` alive. `memory` is the place of other than tensors.

        A value that shares the memory of a feed is not `writeable`: the feed may be read-only.
        """
        # Deferred: most runs return arrays only.
        from zrt.values import Value

        handle = Handle.own(NULL, api().ReleaseValue, parents)
        lib.zrt_made_move(self.pointer, index, handle.reference)
        handle.pointer = pointer_to(address_of(handle.reference.pointer), "OrtValue")
        value = Value(handle, writeable, memory)
        if self._session is not None:
            value._hold(self._session)
        return value

    def collect(self, results: list[Any], feeds: Sequence[Handle]) -> None:
        """Puts the objects of the outputs that are no arrays into `results`; `feeds` own the values that were fed."""
        for index, wanted in enumerate(self._outputs):
            if self.waits(index):
                shared = wanted.passes_through
                # A sequence may share the tensors of a sequence that was fed.
                value = self.take(index, feeds if shared or wanted.dtype is None else ())
                results[index] = _object(value, shared)


def _object(value: Value, shared: bool) -> Any:
    """The Python object for a value; a copy if it is `shared` with a feed."""
    if not value.memory.is_host:
        return value
    if value.kind is ValueKind.SEQUENCE:
        return value.to_list()
    if value.kind is ValueKind.MAP:
        return value.to_dict()
    if value.kind is ValueKind.SPARSE_TENSOR:
        return value.sparse().copy() if shared else value.sparse()
    if not value.is_tensor:
        return value
    if value.element_type.packed:
        return type(value).from_packed(value.numpy().copy(), value.element_type, value.shape) if shared else value
    return value.numpy().copy() if shared else value.numpy()
