"""Writes models to files, with their weights inside or in a second file."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, BinaryIO

from zrt._common.arguments import boolean, integer, path_bytes, text
from zrt._common.files import plain_name, replacing, writing
from zrt.errors import ArgumentError
from zrt.graph.model_proto import graphs_in, serialize
from zrt.graph.tensors import TYPED_FIELDS, outside, raw
from zrt.values.value import Value

# Each tensor in the file of weights begins on a page boundary, so that it can be memory-mapped.
ALIGNMENT = 4096


def save(
    model: Any,
    borrowed: Mapping[str, Value],
    path: str | os.PathLike[str],
    external_data: bool,
    location: str | None,
    size_threshold: int,
    inputs: Iterable[str],
) -> None:
    """Writes the model, whose `borrowed` initializers are without content; modifies `model`.

    None of the files `inputs` is written.
    """
    where = os.fsdecode(path_bytes(path, "path"))
    least = integer(size_threshold, "size_threshold", 0, 1 << 62)
    name = os.path.basename(where)
    if not name:
        raise ArgumentError(f"path: {where!r} does not name a file")
    beside = f"{name}.data" if location is None else location
    if boolean(external_data, "external_data"):
        # The model names this file, and its strings are UTF-8.
        plain_name(text(beside, "location").decode(), where, "location")
    elif location is not None:
        raise ArgumentError(f"location: {location!r} is for external_data=True")
    places = replacing(where, *([beside] if external_data else []), inputs=inputs)
    with places as (model_path, *weights_path), writing(where):
        if external_data:
            with open(weights_path[0], "wb") as file:
                _write_weights(model.graph, borrowed, beside, least, file)
        else:
            fill(model, borrowed)
        content = serialize(model, f"model {where!r}")
        with open(model_path, "wb") as file:
            file.write(content)


def fill(model: Any, borrowed: Mapping[str, Value]) -> Any:
    """Copies the content of the borrowed initializers into the model."""
    for tensor in model.graph.initializer:
        if tensor.name in borrowed:
            _fill(tensor, borrowed[tensor.name])
    return model


def _fill(tensor: Any, value: Value) -> None:
    tensor.ClearField("data_location")
    tensor.ClearField("external_data")
    tensor.raw_data = value.numpy().tobytes()


def _write_weights(graph: Any, borrowed: Mapping[str, Value], location: str, least: int, file: BinaryIO) -> None:
    """Writes each weight of at least `least` bytes, and replaces it in the model by a reference to the file."""
    for tensor, value in _initializers(graph, borrowed):
        content = value.numpy().tobytes() if value is not None else raw(tensor)
        # An empty weight could get an offset beyond the end of the file.
        if len(content) < max(least, 1):
            if value is not None:
                _fill(tensor, value)
            continue
        offset = -(-file.tell() // ALIGNMENT) * ALIGNMENT
        file.seek(offset)
        file.write(content)
        placed = outside(tensor.name, tensor.data_type, tensor.dims, location, offset, len(content))
        # Its description and metadata stay.
        for name in ("raw_data", *TYPED_FIELDS, "external_data"):
            tensor.ClearField(name)
        tensor.data_location = placed.data_location
        tensor.external_data.extend(placed.external_data)


def _initializers(graph: Any, borrowed: Mapping[str, Value]) -> Iterator[tuple[Any, Value | None]]:
    """The initializers of a graph and its subgraphs that may become external, each with the value it borrows."""
    for each in graphs_in(graph):
        for tensor in each.initializer:
            if tensor.data_type != tensor.STRING:
                yield tensor, borrowed.get(tensor.name) if each is graph else None
