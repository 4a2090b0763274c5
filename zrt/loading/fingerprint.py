"""`fingerprint`: two digests of a model, of its graph and of its weights, wherever it is stored."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from zrt._common.onnx_fields import Attribute, Function, Graph, Node, SparseTensorFields, Tensor
from zrt._common.onnx_fields import Model as ModelFields
from zrt._common.onnx_fields import ValueInfo as ValueFields
from zrt._common.protobuf_writer import VARINT
from zrt._common.public import public
from zrt.loading.external_weights import Path, WeightFiles, naming, require
from zrt.loading.initializers import Field, Initializer, ModelFile, opened
from zrt.loading.model_source import Model, Source

_CHUNK: Final = 1 << 20
# As deep as protobuf's own readers follow messages.
_DEEPEST: Final = 100

# By the number of their field, the messages within each kind of message; None for the fields that do not change what a
# model computes: names of graphs and nodes, producers, documentation, metadata, and the types of intermediate values.
_INNER: Final[Mapping[str, Mapping[int, str | None]]] = {
    "model": {
        **dict.fromkeys((ModelFields.PRODUCER_NAME, ModelFields.PRODUCER_VERSION, ModelFields.DOMAIN)),
        **dict.fromkeys((ModelFields.MODEL_VERSION, ModelFields.DOC_STRING, ModelFields.METADATA_PROPS)),
        ModelFields.GRAPH: "graph",
        ModelFields.FUNCTIONS: "function",
    },
    "graph": {
        **dict.fromkeys((Graph.NAME, Graph.DOC_STRING, Graph.VALUE_INFO, Graph.METADATA_PROPS)),
        **dict.fromkeys((Graph.INPUT, Graph.OUTPUT), "value"),
        Graph.NODE: "node",
        Graph.INITIALIZER: "tensor",
        Graph.SPARSE_INITIALIZER: "sparse tensor",
    },
    "function": {
        **dict.fromkeys((Function.DOC_STRING, Function.VALUE_INFO, Function.METADATA_PROPS)),
        Function.NODE: "node",
    },
    "node": {**dict.fromkeys((Node.NAME, Node.DOC_STRING, Node.METADATA_PROPS)), Node.ATTRIBUTE: "attribute"},
    "attribute": {
        Attribute.DOC_STRING: None,
        **dict.fromkeys((Attribute.G, Attribute.GRAPHS), "graph"),
        **dict.fromkeys((Attribute.T, Attribute.TENSORS), "tensor"),
        **dict.fromkeys((Attribute.SPARSE_TENSOR, Attribute.SPARSE_TENSORS), "sparse tensor"),
    },
    "sparse tensor": dict.fromkeys((SparseTensorFields.VALUES, SparseTensorFields.INDICES), "tensor"),
    "value": dict.fromkeys((ValueFields.DOC_STRING, ValueFields.METADATA_PROPS)),
}

# The fields of a tensor that hold its elements.
_DATA: Final = (
    Tensor.FLOAT_DATA,
    Tensor.INT32_DATA,
    Tensor.STRING_DATA,
    Tensor.INT64_DATA,
    Tensor.RAW_DATA,
    Tensor.DOUBLE_DATA,
    Tensor.UINT64_DATA,
)


@public
@dataclass(frozen=True, slots=True)
class Fingerprint:
    """The digests of a model (SHA-256, in hexadecimal); `str` is that of both. `fingerprint` makes it."""

    graph: str
    """Of the operators, their attributes, the inputs, the outputs, and the names, types and shapes of the weights."""
    weights: str
    """Of the elements of all weights."""

    def __str__(self) -> str:
        return hashlib.sha256(f"{self.graph} {self.weights}".encode()).hexdigest()


@public
def fingerprint(
    model: Model,
    *,
    external_data_dir: str | os.PathLike[str] | None = None,
    trusted_folders: Sequence[str | os.PathLike[str]] = (),
) -> Fingerprint:
    """The `Fingerprint` of a model: equal for models with the same graph and weights, however their files differ.

    It is that of the content, not of the files: their names, weights inside or outside of the model, producers,
    documentation, metadata, the names of nodes, and the types of intermediate values do not change it. Weights of the
    same numbers in another encoding may change it. All weights are read; those outside the model from its folder or
    `external_data_dir`, and from `trusted_folders` where a path leads there.

    Raises `ModelError` for a model or a file of weights that cannot be read, and `UnsupportedError` for a model in ONNX
    Runtime's own format.
    """
    with Source(model) as source:
        return of_source(source, external_data_dir, trusted_folders)


def of_source(source: Source, folder: Path | None, trusted: Sequence[Path]) -> Fingerprint:
    """The fingerprint of a model whose outside weights are in `folder`, by default its own, or in `trusted` ones."""
    with opened(source) as file, WeightFiles(source, folder, trusted) as outside:
        reader = _Reader(file, outside)
        reader.read(file.model, "model", 0)
        return Fingerprint(reader.graph.hexdigest(), reader.weights.hexdigest())


class _Reader:
    """Reads a model once, and feeds both digests."""

    __slots__ = ("_file", "_outside", "graph", "weights")

    def __init__(self, file: ModelFile, outside: WeightFiles) -> None:
        self._file = file
        self._outside = outside
        self.graph = hashlib.sha256()
        self.weights = hashlib.sha256()

    def read(self, message: Field, kind: str, depth: int) -> None:
        """Feeds a message of this kind."""
        if depth > _DEEPEST:
            raise self._file.broken(f"its messages lie more than {_DEEPEST} levels deep")
        for field in self._file.fields(message):
            within = _INNER[kind].get(field.number, "")
            if within is None:
                continue
            if within == "tensor":
                self._tensor(field)
            elif within:
                self._mark(f"{within} begins")
                self.read(field, within, depth + 1)
                self._mark(f"{within} ends")
            elif field.wire == VARINT:
                self._mark(f"{field.number} is {field.value}")
            else:
                content = self._file.read(field.content, field.end)
                self._mark(f"{field.number} has {len(content)} bytes")
                self.graph.update(content)

    def _mark(self, text: str) -> None:
        # Each with its length, so that no two models feed the same bytes.
        self.graph.update(f"{len(text)} {text}".encode())

    def _tensor(self, tensor: Field) -> None:
        info = self._file.initializer(tensor)
        if info is not None:
            described = f"{info.name!r} is {info.element_type.name} {list(info.shape)}"
            self._mark(described)
            self.weights.update(f"{len(described)} {described}".encode())
            if info.location is not None:
                self._feed_outside(info)
                return
            if info.offset is not None:
                self._feed(self._file.read, info.offset, info.offset + info.nbytes)
                return
        # Texts, and numbers that are no plain memory image.
        for field in self._file.fields(tensor):
            content = self._file.read(field.start, field.end)
            if field.number in _DATA:
                self.weights.update(f"{len(content)} bytes".encode())
                self.weights.update(content)
            elif info is None and field.number != Tensor.DOC_STRING:
                self._mark(f"{len(content)} bytes")
                self.graph.update(content)

    def _feed(self, read: Callable[[int, int], bytes], start: int, end: int) -> None:
        for place in range(start, end, _CHUNK):
            self.weights.update(read(place, min(place + _CHUNK, end)))

    def _feed_outside(self, info: Initializer) -> None:
        with naming(self._file.subject, info), self._outside.open(info.location or "") as file:
            require(info, os.fstat(file.fileno()).st_size)
            start = info.offset or 0
            self._feed(lambda at, end: os.pread(file.fileno(), end - at, at), start, start + info.nbytes)
