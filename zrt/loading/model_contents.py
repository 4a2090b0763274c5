"""The operators and weights of a model, and the files that hold them; read without the onnx package."""

from __future__ import annotations

import math
import os
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from zrt._common.config_keys import SessionConfigKey
from zrt._common.onnx_fields import Attribute, Function, Graph, Model, Node, SparseTensorFields
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
    functions: set[str] = field(default_factory=set)
    """The functions that the model defines, as in `operators`."""
    weights: int = 0
    """The number of weights, constants among them."""
    parameters: int = 0
    """The number of their elements."""
    nbytes: int = 0
    outside: Counter[str] = field(default_factory=Counter)
    """The bytes in other files, by the names that the model has for the files."""


# The fields of a graph and of a function that hold nodes, weights and sparse weights.
_GRAPH: tuple[int, ...] = (Graph.NODE, Graph.INITIALIZER, Graph.SPARSE_INITIALIZER)
_FUNCTION: tuple[int, ...] = (Function.NODE,)
_VALUES = (Attribute.G, Attribute.GRAPHS, Attribute.T, Attribute.TENSORS, Attribute.SPARSE_TENSOR)


def contents_of(source: model_source.Source) -> Contents:
    """Reads a model's contents; `UnsupportedError` for ONNX Runtime's own format, `ModelError` for broken bytes."""
    with opened(source) as file:
        contents = Contents(file.opsets())
        functions = list(file.messages(file.model, Model.FUNCTIONS))
        contents.functions = {_operator(file, each, Function.NAME, Function.DOMAIN) for each in functions}
        waiting = [(function, _FUNCTION) for function in functions] + [(graph, _GRAPH) for graph in file.graphs()]
        while waiting:
            message, numbers = waiting.pop()
            for part in file.messages(message, *numbers):
                if part.number == numbers[0]:
                    waiting += [(graph, _GRAPH) for graph in _read_node(file, part, contents)]
                elif part.number == Graph.INITIALIZER:
                    _add(contents, file.initializer(part))
                else:
                    _add_sparse(contents, file, part)
        contents.operators = Counter(dict(contents.operators.most_common()))
        return contents


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


def optimized_weights(path: str, entries: Mapping[str, str]) -> list[str]:
    """The name of the file of weights that a load writes beside its `optimized_model_filepath`, if it writes one."""
    weights = entries.get(SessionConfigKey.OPTIMIZED_MODEL_EXTERNAL_INITIALIZERS_FILE_NAME)
    # A model in ONNX Runtime's own format keeps its weights.
    in_ort_format = entries.get(SessionConfigKey.SAVE_MODEL_FORMAT, os.path.splitext(path)[1][1:]).upper() == "ORT"
    return [os.path.normpath(weights)] if weights and not in_ort_format else []


def _read_node(file: ModelFile, node: Field, contents: Contents) -> Iterator[Field]:
    """Counts a node and its constants; the graphs inside it."""
    for attribute in file.messages(node, Node.ATTRIBUTE):
        for value in file.messages(attribute, *_VALUES):
            if value.number in (Attribute.G, Attribute.GRAPHS):
                yield value
            elif value.number == Attribute.SPARSE_TENSOR:
                _add_sparse(contents, file, value)
            else:
                _add(contents, file.initializer(value))
    contents.operators[_operator(file, node, Node.OP_TYPE, Node.DOMAIN)] += 1


def _operator(file: ModelFile, message: Field, of_name: int, of_domain: int) -> str:
    """The operator of a node or of a function, as `Contents` has it; the numbers are those of the two fields."""
    name = domain = ""
    for part in file.messages(message, of_name, of_domain):
        if part.number == of_name:
            name = file.text(part)
        else:
            domain = file.text(part)
    return name if domain in ("", ONNX_DOMAIN) else f"{domain}::{name}"


def _add(contents: Contents, weight: Initializer | None) -> None:
    if weight is None:
        return
    contents.weights += 1
    contents.parameters += math.prod(weight.shape)
    contents.nbytes += weight.nbytes
    if weight.location is not None:
        contents.outside[weight.location] += weight.nbytes


def _add_sparse(contents: Contents, file: ModelFile, weight: Field) -> None:
    """Counts a sparse weight as the dense one that ONNX Runtime makes of it, and its parts in other files."""
    _add(contents, file.sparse_initializer(weight))
    for part in file.messages(weight, SparseTensorFields.VALUES, SparseTensorFields.INDICES):
        info = file.initializer(part)
        if info is not None and info.location is not None:
            contents.outside[info.location] += info.nbytes
