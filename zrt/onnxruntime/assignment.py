"""`OrtEpAssignedSubgraph` and `OrtEpAssignedNode`: the nodes that each provider of a session runs."""

from __future__ import annotations

from typing import Any

from zrt.onnxruntime import errors
from zrt.onnxruntime.state.arguments import no_constructor
from zrt.onnxruntime.state.devices import NotPickled
from zrt.providers.node_assignment import ONNX_DOMAIN
from zrt.session.session import Session

_NOT_RECORDED = (
    "Session configuration entry 'session.record_ep_graph_assignment_info' must be set to \"1\" "
    "to retrieve EP graph assignment information."
)


class _Assigned(NotPickled):
    """Base of both: something that ONNX Runtime recorded at load."""

    __slots__ = ("_found",)

    _found: Any

    def __init__(self) -> None:
        raise no_constructor(self)

    @classmethod
    def _of(cls, found: Any) -> Any:
        made = cls.__new__(cls)
        made._found = found
        return made

    def __eq__(self, other: object) -> bool:
        return isinstance(other, type(self)) and self._found == other._found

    def __hash__(self) -> int:
        return hash(self._found)


class OrtEpAssignedNode(_Assigned):
    """A node of the model."""

    __slots__ = ()

    @property
    def name(self) -> str:
        """The node's name, which may be empty."""
        return str(self._found.name)

    @property
    def domain(self) -> str:
        """The operator's domain; "" is ONNX's own."""
        return "" if self._found.domain == ONNX_DOMAIN else str(self._found.domain)

    @property
    def op_type(self) -> str:
        """The operator."""
        return str(self._found.op_type)


class OrtEpAssignedSubgraph(_Assigned):
    """Nodes that one provider runs as a unit."""

    __slots__ = ()

    @property
    def ep_name(self) -> str:
        """The provider's name."""
        return str(self._found.provider)

    def get_nodes(self) -> list[OrtEpAssignedNode]:
        """The nodes."""
        return [OrtEpAssignedNode._of(node) for node in self._found.nodes]


def assigned(session: Session) -> list[OrtEpAssignedSubgraph]:
    """The subgraphs of a session; raises `Fail` if its options did not record them."""
    subgraphs = session.placement().subgraphs
    if subgraphs is None:
        raise errors.made(1, _NOT_RECORDED)
    return [OrtEpAssignedSubgraph._of(subgraph) for subgraph in subgraphs]
