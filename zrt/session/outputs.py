"""The outputs of a run: their names, `Wanted` for each, and the objects for those that ONNX Runtime allocates."""

from __future__ import annotations

import sys
from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from zrt._common.arguments import shown, wrong_type
from zrt._native import builtin, lib
from zrt._native.cdata import NULL, address_of, new_array, pointer_to
from zrt._native.handle import Handle
from zrt._native.library import api
from zrt.errors import AllocationError, ArgumentError, UnknownNameError
from zrt.memory.allocators import CPU, MemoryInfo
from zrt.types import ValueKind, nbytes
from zrt.values import symbolic_shapes
from zrt.values.symbolic_shapes import Shape
from zrt.values.type_info import Dim, ValueInfo, is_plain, is_text

if TYPE_CHECKING:
    from zrt.values.value import Value

ANY_SIZE: int = lib.ZRT_ANY_SIZE

OwnedMemory: type = builtin.OwnedMemory
"""The type of a result that owns a value of which Python makes another object than an array."""


class Wanted:
    """One output of a call; ORT writes it into a fresh array if the feeds determine its shape."""

    __slots__ = ("dtype", "info", "passes_through", "shape")

    def __init__(self, info: ValueInfo, shape: Shape | None, passes_through: bool = False) -> None:
        kind = info.element_type
        plain = is_plain(info)
        self.info: ValueInfo = info
        self.dtype: np.dtype[Any] | None = kind.dtype if plain or is_text(info) else None
        if plain and shape is not None and nbytes(kind, shape) > sys.maxsize:
            raise AllocationError(f"output {info.name!r}: no memory can hold {list(shape)}")
        # An output that is also a fed input: ORT returns the feed and writes nothing.
        self.passes_through: bool = passes_through
        self.shape: Shape | None = shape if plain and not passes_through else None


def checked_names(outputs: Sequence[str] | None, known: Sequence[str]) -> tuple[str, ...] | None:
    """The names of the outputs to compute, checked; None for all. `known` are those that the model has."""
    if outputs is None:
        return None
    if isinstance(outputs, Mapping):
        raise wrong_type("outputs", f"a list of names {_order(known)}", outputs)
    if isinstance(outputs, str) or not isinstance(outputs, Sequence):
        raise wrong_type("outputs", "a list of names", outputs)
    wanted = []
    for name in outputs:
        # A subclass of str may override comparison: compare the name that C reads.
        plain = str.__str__(name) if issubclass(type(name), str) else None
        if plain is None or plain not in known:
            more = f" {_order(known)}" if isinstance(name, np.ndarray) else ""
            names = ", ".join(map(repr, known)) or "none"
            raise UnknownNameError(f"outputs: the model has no output {shown(name)}{more}; it has {names}")
        wanted.append(plain)
    if not wanted or len(set(wanted)) != len(wanted):
        raise ArgumentError(f"outputs: expected names, each once, got {shown(outputs)}")
    return tuple(wanted)


def _order(known: Sequence[str]) -> str:
    """A hint for users of onnxruntime, whose `run` takes the names first."""
    return f"(zrt takes the feeds first, as in run(feeds, {list(known[:1])}))"


def resolved(
    declared: Sequence[ValueInfo],
    names: Sequence[str],
    inputs: symbolic_shapes.Inputs,
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


def general_shapes(
    declared: Sequence[ValueInfo],
    names: Sequence[str],
    inputs: symbolic_shapes.Inputs,
    distrusted: Collection[str],
) -> tuple[list[tuple[ValueInfo, Shape | None]], list[Wanted]] | None:
    """The inputs and the outputs of these names for a general call (call.h).

    In their shapes a number stands for each size that has a name. None if there are more names than C has room for, and
    where an input takes no array.
    """
    numbers: dict[str, int] = {}

    def number(dim: Dim) -> int:
        if isinstance(dim, int):
            return dim
        return ANY_SIZE if dim is None else numbers.setdefault(dim, ANY_SIZE - 1 - len(numbers))

    pairs = [(info, None if info.shape is None else tuple(map(number, info.shape))) for info, _ in inputs]
    if len(numbers) > lib.ZRT_MOST_SIZES or not all(is_plain(info) or is_text(info) for info, _ in inputs):
        return None
    fed = {info.name for info, _ in inputs}
    infos = {info.name: info for info in declared}
    outputs = [Wanted(infos[name], None, passes_through=name in fed) for name in names]
    for output in outputs:
        if is_plain(output.info) and not output.passes_through and output.info.name not in distrusted:
            output.shape = symbolic_shapes.solve(output.info, numbers)
    return pairs, outputs


def allocated_outputs(outputs: Sequence[Wanted | None], parents: Sequence[Handle] = (), copied: bool = False) -> Handle:
    """The ``zrt_allocated`` for outputs of which ORT allocates all but those that are None.

    The objects of these outputs keep `parents` alive. Arrays are copies if they are to be `copied`.
    """
    references = new_array("zrt_handle *", [parent.reference for parent in parents])
    table = new_array("zrt_output", len(outputs))
    for row, output in zip(table, outputs, strict=True):
        if output is not None:
            row.allocated = 1
            row.copied = copied or output.passes_through
            row.type = int(output.info.element_type)
            row.dtype = NULL if output.dtype is None else pointer_to(id(output.dtype))
    block = Handle.block("zrt_allocated", [*parents, Handle.pin((references, table, outputs))])
    allocated = block.pointer
    allocated.api = api()
    allocated.parents, allocated.parent_count = references, len(parents)
    allocated.count, allocated.outputs = len(outputs), table
    return block


def _take(owned: object, parents: Sequence[Handle]) -> Handle:
    """The handle of the value that an `OwnedMemory` owns; it keeps `parents` alive."""
    handle = Handle.own(NULL, api().ReleaseValue, parents)
    lib.zrt_owned_move(id(owned), handle.reference)
    handle.pointer = pointer_to(address_of(handle.reference.pointer), "OrtValue")
    return handle


def take_value(
    owned: object,
    session: Handle | None,
    parents: Sequence[Handle] = (),
    memory: MemoryInfo = CPU,
    writeable: bool = True,
) -> Value:
    """The value that an `OwnedMemory` owns; it keeps `parents` alive, and the session if that has to free its memory.

    `memory` is the place of other than tensors. A value that shares the memory of a feed is not `writeable`: the feed
    may be read-only.
    """
    # Deferred: most runs return arrays only.
    from zrt.values.value import Value

    value = Value(_take(owned, parents), writeable, memory)
    if session is not None:
        value._hold(session)
    return value


def object_of(owned: object, output: Wanted, session: Handle, handles: Sequence[Handle]) -> Any:
    """The Python object for the value that an `OwnedMemory` owns; a copy if a feed shares it.

    `handles` own the fed values.
    """
    from zrt.values import containers
    from zrt.values.value import Value

    info, shared = output.info, output.passes_through
    # A sequence may share the tensors of a sequence that was fed.
    handle = _take(owned, handles if shared or output.dtype is None else ())
    if info.kind in (ValueKind.SEQUENCE, ValueKind.MAP):
        content = containers.read(handle, info.kind, info.element_type, info.key_type)
        if content is not None:
            return content
    value = Value(handle)
    value._hold(session)
    if not value.memory.is_host:
        return value
    if value.kind is ValueKind.SEQUENCE:
        return value.to_list()
    if value.kind is ValueKind.SPARSE_TENSOR:
        return value.sparse().copy() if shared else value.sparse()
    if not value.is_tensor:
        return value
    if value.element_type.packed:
        return Value.from_packed(value.numpy().copy(), value.element_type, value.shape) if shared else value
    return value.numpy().copy() if shared else value.numpy()
