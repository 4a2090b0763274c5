"""The operators and weights of a model, and the files that hold them; read without the onnx package."""

from __future__ import annotations

import math
import os
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias

from zrt._common.config_keys import SessionConfigKey
from zrt._common.files import require_other
from zrt._common.onnx_fields import Attribute, Function, Graph, Node
from zrt._common.protobuf_writer import LENGTH
from zrt.errors import ModelError, UnsupportedError
from zrt.loading import model_source
from zrt.loading.initializers import ONNX_DOMAIN, Field, Initializer, ModelFile, opened


@dataclass(slots=True)
class Contents:
    """The operators and weights of a model: of its graph, of all subgraphs and of the functions that it defines."""

    opsets: dict[str, int] = field(default_factory=dict)
    """The version of each operator set that the model imports, by domain."""
    operators: Counter[str] = field(default_factory=Counter)
    """How many nodes each operator has, the most frequent first; one of another domain is ``domain::name``."""
    weights: int = 0
    """The number of weights, constants among them."""
    parameters: int = 0
    """The number of their elements."""
    nbytes: int = 0
    outside: Counter[str] = field(default_factory=Counter)
    """The bytes in other files, by the names that the model has for the files."""


_Parts: TypeAlias = "tuple[int, int | None, int | None]"

# The fields of a graph and of a function that hold nodes, weights and sparse weights.
_GRAPH: Final[_Parts] = (Graph.NODE, Graph.INITIALIZER, Graph.SPARSE_INITIALIZER)
_FUNCTION: Final[_Parts] = (Function.NODE, None, None)


def contents_of(source: model_source.Source) -> Contents:
    """Reads a model's contents; `UnsupportedError` for ONNX Runtime's own format, `ModelError` for broken bytes."""
    with opened(source) as file:
        return _read(file)


def model_files(source: model_source.Source, entries: Mapping[str, Any]) -> list[str]:
    """The files of a model: its own, and those of its weights. The config `entries` of a session may name their folder.

    A model that cannot be read has its own alone.
    """
    own = [] if source.path is None else [os.fsdecode(source.path)]
    # A model in memory has its weights in the current folder.
    folder = entries.get(SessionConfigKey.MODEL_EXTERNAL_INITIALIZERS_FILE_FOLDER_PATH)
    beside = os.path.dirname(own[0]) if own else ""
    try:
        outside = contents_of(source).outside
    except (ModelError, UnsupportedError):
        return own
    return own + [os.path.join(folder or beside, name) for name in outside]


def require_other_optimized(source: model_source.Source, entries: Mapping[str, str], path: bytes) -> None:
    """Raises `ArgumentError` if a load would write the optimized model, or its weights, over a file of the model."""
    subject = "optimized_model_filepath"
    kept = model_files(source, entries)
    target = os.fsdecode(path)
    require_other(target, kept, subject)
    weights = entries.get(SessionConfigKey.OPTIMIZED_MODEL_EXTERNAL_INITIALIZERS_FILE_NAME)
    if weights:
        require_other(os.path.join(os.path.dirname(target), weights), kept, subject)


def _read(file: ModelFile) -> Contents:
    found = Contents(file.opsets())
    waiting: list[tuple[Field, _Parts]] = [(message, _GRAPH) for message in file.graphs()]
    waiting += [(message, _FUNCTION) for message in file.functions()]
    while waiting:
        message, (node, weight, sparse) = waiting.pop()
        for part in file.fields(message.content, message.end):
            if part.wire != LENGTH:
                continue
            if part.number == node:
                waiting += [(graph, _GRAPH) for graph in _read_node(file, part, found)]
            elif part.number == weight:
                _add(found, file.initializer(part))
            elif part.number == sparse:
                _add(found, file.sparse_initializer(part))
    found.operators = Counter(dict(found.operators.most_common()))
    return found


def _read_node(file: ModelFile, node: Field, found: Contents) -> Iterator[Field]:
    """Counts a node and its constants; the graphs inside it."""
    name = domain = ""
    for part in file.fields(node.content, node.end):
        if part.wire != LENGTH:
            continue
        if part.number == Node.OP_TYPE:
            name = file.text(part)
        elif part.number == Node.DOMAIN:
            domain = file.text(part)
        elif part.number == Node.ATTRIBUTE:
            for value in file.fields(part.content, part.end):
                if value.wire != LENGTH:
                    continue
                if value.number in (Attribute.G, Attribute.GRAPHS):
                    yield value
                elif value.number in (Attribute.T, Attribute.TENSORS):
                    _add(found, file.initializer(value))
                elif value.number == Attribute.SPARSE_TENSOR:
                    _add(found, file.sparse_initializer(value))
    found.operators[name if domain in ("", ONNX_DOMAIN) else f"{domain}::{name}"] += 1


def _add(found: Contents, weight: Initializer | None) -> None:
    if weight is None:
        return
    found.weights += 1
    found.parameters += math.prod(weight.shape)
    found.nbytes += weight.nbytes
    if weight.location is not None:
        found.outside[weight.location] += weight.nbytes
