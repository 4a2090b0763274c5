"""A model's initializers: the place of each one in the model's bytes, and a copy of the model with other weights.

It reads only the outer layers of protobuf and no weights, which may have gigabytes.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import NamedTuple

from zrt._common.arguments import shown
from zrt._common.onnx_fields import (
    Attribute,
    AttributeType,
    DataLocation,
    Graph,
    Model,
    Node,
    OperatorSet,
    SparseTensorFields,
    StringStringEntry,
    Tensor,
    ValueInfo,
)
from zrt._common.protobuf_writer import FIXED32, FIXED64, LENGTH, VARINT, head
from zrt._common.protobuf_writer import field as written
from zrt._common.public import public
from zrt._native.cdata import buffer_at
from zrt.errors import ModelError, UnsupportedError
from zrt.loading import model_source
from zrt.types import BY_ONNX_CODE, ElementType, nbytes

# The type of an attribute that is a graph, or a list of graphs, as the node's bytes contain it.
HAS_SUBGRAPH = tuple(written(Attribute.TYPE, kind) for kind in (AttributeType.GRAPH, AttributeType.GRAPHS))

# At most the bytes of a field's tag and its number or length.
LONGEST_HEAD = 20
ORT_FORMAT = b"ORTM"

# Smaller weights are scalars, shapes and axes, which ORT reads during the load: a load with weights of the caller's
# writes them into the model.
SMALLEST_LENT = 1024

# Weights that are inputs too may be fed from this IR version on.
OVERRIDABLE = 4

# The other name of ONNX's own domain, "".
ONNX_DOMAIN = "ai.onnx"

# The fields of a graph that define or use values.
_PARTS = (Graph.NODE, Graph.INITIALIZER, Graph.SPARSE_INITIALIZER, Graph.INPUT, Graph.OUTPUT)

_TYPED = {Tensor.FLOAT_DATA: ElementType.FLOAT, Tensor.DOUBLE_DATA: ElementType.DOUBLE}

Read = Callable[[int, int], bytes]
"""Returns the model's bytes from a start to an end."""


@public
@dataclass(frozen=True, slots=True)
class Initializer:
    """A weight of a model, and the place of its bytes (see `zrt.list_initializers`).

    `location` is the external file that holds them, relative to the model's folder as the model names it; None means
    the model itself. `offset` is the place of the first byte there, or None where the weight's protobuf encoding is
    not a plain memory image. An `overridable` weight is also an input: a run may feed another one. A `sparse` weight
    is sparse in the model alone: ONNX Runtime makes it dense at load, and `shape` and `nbytes` are the dense tensor's.
    """

    name: str
    element_type: ElementType
    shape: tuple[int, ...]
    nbytes: int
    location: str | None
    offset: int | None
    overridable: bool = False
    sparse: bool = False


class Field(NamedTuple):
    """One field of a message: its number, its value (of a VARINT), and where it and its content lie."""

    number: int
    wire: int
    value: int
    start: int
    content: int
    end: int


def require_onnx(head: bytes, subject: str) -> None:
    """Raises `UnsupportedError` for the first bytes of a file in ONNX Runtime's own format."""
    if head[4:8] == ORT_FORMAT:
        raise UnsupportedError(f"{subject} is in ONNX Runtime's own format, which zrt cannot read: give an ONNX model")


class ModelFile:
    """A model's bytes, read in pieces."""

    __slots__ = ("model", "read", "subject")

    def __init__(self, read: Read, size: int, subject: str) -> None:
        self.read: Read = read
        self.model: Field = Field(0, LENGTH, 0, 0, 0, size)
        self.subject: str = subject
        require_onnx(read(0, min(size, 8)), subject)

    def broken(self, reason: str) -> ModelError:
        """The error for bytes that are not a model."""
        return ModelError(f"{self.subject} cannot be read: {reason}")

    def fields(self, message: Field) -> Iterator[Field]:
        """The fields of a message."""
        at, end = message.content, message.end
        while at < end:
            head = self.read(at, min(at + LONGEST_HEAD, end))
            tag, used = self._varint(head, 0)
            number, wire = tag >> 3, tag & 7
            value = 0
            content = at + used
            if wire == VARINT:
                value, used = self._varint(head, used)
                after = at + used
            elif wire == LENGTH:
                length, used = self._varint(head, used)
                content = at + used
                after = content + length
            elif wire in (FIXED64, FIXED32):
                after = content + (8 if wire == FIXED64 else 4)
            else:
                raise self.broken(f"no protobuf field is of kind {wire}")
            if after > end or number == 0:
                raise self.broken("a field ends after its message")
            yield Field(number, wire, value, at, content, after)
            at = after

    def _varint(self, data: bytes, at: int) -> tuple[int, int]:
        value = 0
        for place, byte in enumerate(data[at : at + 10]):
            value |= (byte & 127) << (7 * place)
            if byte < 128:
                return value & (2**64 - 1), at + place + 1
        raise self.broken("a number has no end")

    def varints(self, field: Field) -> Iterator[int]:
        """The signed numbers of a repeated field, packed or not."""
        data, at = self.read(field.content, field.end), 0
        while at < len(data):
            value, at = self._varint(data, at)
            yield value - 2**64 if value >= 2**63 else value

    def messages(self, outer: Field, *numbers: int) -> Iterator[Field]:
        """The messages and texts that a message holds in the fields of these numbers."""
        for field in self.fields(outer):
            if field.wire == LENGTH and field.number in numbers:
                yield field

    def text(self, field: Field) -> str:
        """The content of a field of text."""
        try:
            return self.read(field.content, field.end).decode()
        except UnicodeDecodeError:
            raise self.broken("a name is not UTF-8") from None

    def texts(self, message: Field, number: int) -> list[str]:
        """The texts that a message holds in the field of this number."""
        return [self.text(field) for field in self.messages(message, number)]

    def pair(self, field: Field) -> tuple[str, str]:
        """The key and the value of a ``StringStringEntryProto``."""
        texts = {part.number: self.text(part) for part in self.fields(field) if part.wire == LENGTH}
        return texts.get(StringStringEntry.KEY, ""), texts.get(StringStringEntry.VALUE, "")

    def graphs(self) -> Iterator[Field]:
        """The pieces of the model's graph: protobuf allows more than one."""
        return self.messages(self.model, Model.GRAPH)

    def opsets(self) -> dict[str, int]:
        """The version of each operator set that the model imports, by domain; "" is ONNX's own."""
        versions: dict[str, int] = {}
        for message in self.messages(self.model, Model.OPSET_IMPORT):
            domain = "".join(self.texts(message, OperatorSet.DOMAIN)[-1:])
            numbers = [field.value for field in self.fields(message) if field.number == OperatorSet.VERSION]
            versions["" if domain == ONNX_DOMAIN else domain] = numbers[-1] if numbers else 0
        return versions

    def tensors(self) -> Iterator[tuple[Initializer, Field]]:
        """The main graph's initializers and their messages, without strings and types that ORT does not have."""
        inputs: set[str] = set()
        weights: list[Field] = []
        versions = [field.value for field in self.fields(self.model) if field.number == Model.IR_VERSION]
        overridable = not versions or versions[-1] >= OVERRIDABLE
        for graph in self.graphs():
            for field in self.messages(graph, Graph.INITIALIZER, Graph.SPARSE_INITIALIZER, Graph.INPUT):
                if field.number == Graph.INPUT:
                    inputs.update(self.texts(field, ValueInfo.NAME))
                else:
                    weights.append(field)
        for field in weights:
            read = self.sparse_initializer if field.number == Graph.SPARSE_INITIALIZER else self.initializer
            info = read(field, inputs if overridable else ())
            if info is not None:
                yield info, field

    def names(self) -> set[str]:
        """The names of the main graph's dense weights, also of those that `tensors` leaves out."""
        weights = (weight for graph in self.graphs() for weight in self.messages(graph, Graph.INITIALIZER))
        return {name for weight in weights for name in self.texts(weight, Tensor.NAME)}

    def initializer(self, tensor: Field, inputs: Collection[str] = ()) -> Initializer | None:
        """A weight as its message describes it; None for strings and a type that ONNX Runtime does not have."""
        name = ""
        code = 0
        dims: list[int] = []
        outside: dict[str, str] | None = None
        entries: dict[str, str] = {}
        raw: dict[int, tuple[int, int]] = {}
        for field in self.fields(tensor):
            if field.number == Tensor.DIMS:
                dims += self.varints(field)
            elif field.number == Tensor.DATA_TYPE:
                code = field.value
            elif field.number == Tensor.NAME:
                name = self.text(field)
            elif field.number in (Tensor.RAW_DATA, Tensor.FLOAT_DATA, Tensor.DOUBLE_DATA) and field.wire == LENGTH:
                # One piece of packed floats is a memory image; several pieces are not.
                raw[field.number] = (field.content, field.end) if field.number not in raw else (0, -1)
            elif field.number == Tensor.DATA_LOCATION and field.value == DataLocation.EXTERNAL:
                outside = entries
            elif field.number == Tensor.EXTERNAL_DATA and field.wire == LENGTH:
                entries.update([self.pair(field)])
        kind = BY_ONNX_CODE.get(code)
        if kind is None or not kind.bits:
            return None
        if any(dim < 0 for dim in dims):
            raise self.broken(f"initializer {name!r} has shape {dims}")
        size = nbytes(kind, dims)
        location, offset = None, None
        if outside is not None:
            location = outside.get("location", "")
            if "\0" in location:
                raise self.broken(f"initializer {name!r} has the external location {location!r}, with a NUL")
            offset = self._number(outside.get("offset", "0"), name, "offset")
            length = self._number(outside.get("length", str(size)), name, "length")
            if length != size:
                raise self.broken(f"initializer {name!r} takes {size} bytes, but its external length is {length}")
        else:
            for number, (start, end) in raw.items():
                if number == Tensor.RAW_DATA or _TYPED[number] is kind:
                    offset = start if end - start == size else None
        return Initializer(name, kind, tuple(dims), size, location, offset, name in inputs)

    def sparse_initializer(self, tensor: Field, inputs: Collection[str] = ()) -> Initializer | None:
        """The same for a sparse weight."""
        values: Initializer | None = None
        dims: list[int] = []
        for field in self.fields(tensor):
            if field.number == SparseTensorFields.DIMS:
                dims += self.varints(field)
            elif field.number == SparseTensorFields.VALUES and field.wire == LENGTH:
                values = self.initializer(field, inputs)
        if values is None:
            return None
        if any(dim < 0 for dim in dims):
            raise self.broken(f"sparse initializer {values.name!r} has shape {dims}")
        size = nbytes(values.element_type, dims)
        return replace(values, shape=tuple(dims), nbytes=size, location=None, offset=None, sparse=True)

    def uses(self) -> tuple[set[str], set[str]]:
        """The names of the values that nodes read or that are inputs or outputs, and those of subgraphs' initializers.

        Both at any depth. Unlike ONNX, ORT lets a subgraph's initializer have the name of an outer one.
        """
        used: set[str] = set()
        below: set[str] = set()
        graphs = [(graph, False) for graph in self.graphs()]
        while graphs:
            graph, inside = graphs.pop()
            for field in self.messages(graph, *_PARTS):
                if field.number in (Graph.INPUT, Graph.OUTPUT):
                    used.update(self._names(field, ValueInfo.NAME))
                elif field.number == Graph.NODE:
                    used.update(self._names(field, Node.INPUT))
                    content = self.read(field.content, field.end)
                    if any(mark in content for mark in HAS_SUBGRAPH):
                        for attribute in self.messages(field, Node.ATTRIBUTE):
                            graphs += [
                                (inner, True) for inner in self.messages(attribute, Attribute.G, Attribute.GRAPHS)
                            ]
                elif inside:
                    sparse = field.number == Graph.SPARSE_INITIALIZER
                    for tensor in self.messages(field, SparseTensorFields.VALUES) if sparse else [field]:
                        below.update(self.texts(tensor, Tensor.NAME))
        return used, below

    def _names(self, message: Field, number: int) -> Iterator[str]:
        """The names of values, which may be no UTF-8: ORT takes any bytes."""
        for name in self.messages(message, number):
            yield self.read(name.content, name.end).decode(errors="surrogateescape")

    def _number(self, text: str, name: str, key: str) -> int:
        # No file has a byte at 2**63 or behind it.
        if not (text.isascii() and text.isdecimal() and len(text) < 20 and int(text) < 1 << 63):
            raise self.broken(f"initializer {name!r} has the external {key} {shown(text)}")
        return int(text)

    def with_weights(self, weights: Mapping[str, bytes | None]) -> bytes:
        """The model with other initializers; None in place of the bytes marks a weight as external."""
        return self.with_messages(
            (field, written(Graph.INITIALIZER, _tensor(info, weights[info.name])))
            for info, field in self.tensors()
            if info.name in weights
        )

    def with_messages(self, replaced: Iterable[tuple[Field, bytes]]) -> bytes:
        """The model with other bytes in place of some fields of its graph, which come in their order."""
        waiting = list(replaced)
        pieces: list[bytes] = []
        at = 0
        for graph in self.graphs():
            inner: list[bytes] = []
            inside = graph.content
            for field, message in waiting:
                if graph.content <= field.start < graph.end:
                    inner += [self.read(inside, field.start), message]
                    inside = field.end
            inner.append(self.read(inside, graph.end))
            size = sum(map(len, inner))
            pieces += [self.read(at, graph.start), head(Model.GRAPH, size), *inner]
            at = graph.end
        pieces.append(self.read(at, self.model.end))
        return b"".join(pieces)


def _tensor(info: Initializer, data: bytes | None) -> bytes:
    """A ``TensorProto`` with its data; or with an external place that ORT never opens, as the caller gives the data."""
    described = b"".join(written(Tensor.DIMS, dim) for dim in info.shape)
    described += written(Tensor.DATA_TYPE, info.element_type.onnx_code) + written(Tensor.NAME, info.name)
    if data is not None:
        return described + written(Tensor.RAW_DATA, data)
    place = {"location": "given", "offset": "0", "length": str(info.nbytes)}
    return described + pairs(Tensor.EXTERNAL_DATA, place) + written(Tensor.DATA_LOCATION, DataLocation.EXTERNAL)


def pairs(number: int, texts: Mapping[str, str]) -> bytes:
    """The fields of this number, each a ``StringStringEntryProto``."""
    entries = (written(StringStringEntry.KEY, key) + written(StringStringEntry.VALUE, texts[key]) for key in texts)
    return b"".join(written(number, entry) for entry in entries)


@contextmanager
def opened(source: model_source.Source) -> Iterator[ModelFile]:
    """A model's bytes, from its file or from memory. `ModelError` where they cannot be read."""
    if source.path is None:
        memory = buffer_at(source.data)
        yield ModelFile(lambda start, end: memory[start:end], len(memory), source.subject)
        return
    try:
        file = os.open(source.path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError as error:
        raise ModelError(f"{source.subject} cannot be read: {error.strerror}") from error

    def read(start: int, end: int) -> bytes:
        try:
            data = os.pread(file, end - start, start)
        except OSError as error:
            raise ModelError(f"{source.subject} cannot be read: {error.strerror}") from error
        if len(data) < end - start:
            raise ModelError(f"{source.subject} cannot be read: it became shorter during the read")
        return data

    try:
        yield ModelFile(read, os.fstat(file).st_size, source.subject)
    finally:
        os.close(file)


@public
def list_initializers(model: model_source.Model) -> tuple[Initializer, ...]:
    """The weights of a model's main graph: names, types, shapes, and the places of their bytes, which are not read.

    They give the arguments for `zrt.MappedFile` and the names for `SessionOptions.initializers`. Weights of strings are
    left out. Raises `ModelError` where the bytes are not a model, `UnsupportedError` for a model in ONNX Runtime's own
    format.
    """
    with model_source.Source(model) as source, opened(source) as file:
        return tuple(info for info, _ in file.tensors())
