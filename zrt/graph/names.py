"""The names in a graph: those in use, and new unique ones."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from zrt._common.arguments import text
from zrt.errors import ArgumentError
from zrt.graph import model_proto


def checked(value: Any, subject: str) -> str:
    """A name, checked: a non-empty string without NUL."""
    name = text(value, subject).decode()
    if not name:
        raise ArgumentError(f"{subject}: the name is empty")
    return name


class Names:
    """The names in an ``onnx.GraphProto``; a subgraph also sees the names of the enclosing graphs."""

    __slots__ = ("_below", "_graph", "_nodes", "_numbers", "_outer", "_used", "_values")

    def __init__(self, graph: Any, around: Names | None) -> None:
        self._graph = graph
        # The names of each enclosing graph, from the nearest to the model's own.
        self._outer: tuple[Names, ...] = () if around is None else (around, *around._outer)
        # Each value's name with a description of its definition.
        self._values = model_proto.definitions(graph)
        self._nodes = {node.name for node in graph.node}
        # The names of values in subgraphs, which the values of enclosing graphs must not have.
        self._below = {name for node in graph.node for name in _within(node)}
        # Shared by all graphs of the model, so that generated names are unique in the whole model.
        self._used: set[str] = set() if around is None else around._used
        self._numbers: dict[str, int] = {} if around is None else around._numbers
        self._used.update(model_proto.all_names(graph))

    def __contains__(self, name: object) -> bool:
        return name in self._values

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def fresh(self, base: str) -> str:
        """A new name that is unique in the model."""
        number = self._numbers.get(base, 0)
        while f"{base}_{number}" in self._used:
            number += 1
        self._numbers[base] = number + 1
        self._used.add(f"{base}_{number}")
        return f"{base}_{number}"

    def check_free(self, name: Any, subject: str) -> None:
        """Raises an `ArgumentError` where a new value cannot have this name."""
        checked(name, subject)
        for names in (self, *self._outer):
            if name in names:
                where = "" if names is self else f" in graph {names._graph.name!r} around it"
                raise ArgumentError(f"{subject}: the name is taken by an {names._values[name]}{where}")
        if name in self._below:
            raise ArgumentError(f"{subject}: the name is taken by a value in a subgraph")

    def add(self, name: str, definition: str) -> None:
        self._values[name] = definition
        self._used.add(name)

    def add_node(self, node: Any, subject: str) -> None:
        """Registers the names of a new node and its outputs, or raises an `ArgumentError` and registers none."""
        if node.name in self._nodes:
            raise ArgumentError(f"{subject}: there is already a node {node.name!r}")
        below = set(_within(node))
        for names in (self, *self._outer):
            if hidden := below & names._values.keys():
                raise ArgumentError(
                    f"{subject}: a value {min(hidden)!r} in its subgraph hides that of graph {names._graph.name!r}"
                )
        for label in node.output:
            if label in below:
                raise ArgumentError(f"{subject}: output {label!r}: a value in its own subgraph has that name")
            self.check_free(label, f"{subject}: output {label!r}")
        for label in node.output:
            self.add(label, f"output of {model_proto.called(node)}")
        self._below |= below
        self._used.add(node.name)
        self._nodes.add(node.name)

    def remove(self, name: str) -> None:
        del self._values[name]


def _within(node: Any) -> Iterator[str]:
    """The names of the values in a node's subgraphs."""
    for inner in model_proto.subgraphs(node):
        for graph in model_proto.graphs_in(inner):
            yield from (name for name, _ in model_proto.defined(graph))
