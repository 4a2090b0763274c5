"""Models built and edited in memory: `Graph` builds a new one, `edit` opens an existing one."""

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
