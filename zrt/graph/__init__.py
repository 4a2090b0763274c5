"""Models built and edited in memory: `Graph` builds one, `edit` opens one that exists."""

from zrt.graph.builder import Graph, GraphValue
from zrt.graph.editing import GraphEdit, edit
from zrt.graph.engine import Engine
from zrt.graph.types import GraphType, MapType, OptionalType, SequenceType, SparseTensorType, TensorType

__all__ = [
    "Engine",
    "Graph",
    "GraphEdit",
    "GraphType",
    "GraphValue",
    "MapType",
    "OptionalType",
    "SequenceType",
    "SparseTensorType",
    "TensorType",
    "edit",
]
