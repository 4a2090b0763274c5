"""The provider that runs each node, as ONNX Runtime records it at load, and `strict`, which allows none on the CPU."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from zrt._common.arguments import boolean, texts
from zrt._common.config_keys import SessionConfigKey
from zrt._common.public import public_in
from zrt._native import status
from zrt._native.handle import Handle
from zrt._native.library import api
from zrt.environment.pool_options import PoolOptions
from zrt.errors import ArgumentError, ProviderError
from zrt.providers.vendors.cpu import CPU

RECORD = SessionConfigKey.RECORD_EP_GRAPH_ASSIGNMENT_INFO

# The readable name of ONNX's own domain, whose real name is empty.
ONNX_DOMAIN = "ai.onnx"

# An error names at most this many nodes.
NAMED = 20


def operator_of(op_type: str, domain: str) -> str:
    """The operator's name in messages: "Shape", "com.microsoft::FusedMatMul"."""
    return op_type if domain == ONNX_DOMAIN else f"{domain}::{op_type}"


@public_in("zrt.typing")
@dataclass(frozen=True, slots=True)
class AssignedNode:
    """A node of the graph as it was when the providers chose: after the basic optimizations."""

    name: str
    """The node's name, which may be empty."""
    op_type: str
    """Its operator."""
    domain: str
    """The operator's domain, "ai.onnx" for ONNX's own."""

    def __str__(self) -> str:
        operator = operator_of(self.op_type, self.domain)
        return f"{operator} {self.name!r}" if self.name else operator


@public_in("zrt.typing")
@dataclass(frozen=True, slots=True)
class Assignment:
    """Nodes that one provider runs as a unit; the bodies of loops and branches have assignments of their own."""

    provider: str
    """The provider's full name."""
    nodes: tuple[AssignedNode, ...]
    """The nodes."""


def record(options: PoolOptions) -> None:
    """Makes a session that is loaded with these options record the assignment."""
    options.add_config_entry(RECORD, b"1")


def read(session: Handle) -> tuple[Assignment, ...]:
    """The assignment of a session whose options were passed to `record`; for others ORT raises an error."""
    table = api()

    def word(function: Any, owner: Any) -> str:
        return status.string(status.make(function, "const char", owner))

    def parts(function: Any, kind: str, owner: Any) -> list[Any]:
        # The session owns the array and its items.
        return status.fetch_list(function, f"const {kind} *const", owner)

    def node(pointer: Any) -> AssignedNode:
        return AssignedNode(
            word(table.EpAssignedNode_GetName, pointer),
            word(table.EpAssignedNode_GetOperatorType, pointer),
            word(table.EpAssignedNode_GetDomain, pointer) or ONNX_DOMAIN,
        )

    return tuple(
        Assignment(
            word(table.EpAssignedSubgraph_GetEpName, subgraph),
            tuple(map(node, parts(table.EpAssignedSubgraph_GetNodes, "OrtEpAssignedNode", subgraph))),
        )
        for subgraph in parts(table.Session_GetEpGraphAssignmentInfo, "OrtEpAssignedSubgraph", session.pointer)
    )


@dataclass(frozen=True, slots=True)
class Strictness:
    """The demand that the CPU runs no node of a session on other providers, except the operators in `allow`."""

    asked: tuple[str, ...]
    allow: frozenset[str]

    @classmethod
    def of(cls, strict: bool, allow: Iterable[str], asked: Sequence[str]) -> Strictness:
        """From a load's arguments; `asked` are the providers. It demands nothing where they are only the CPU."""
        # "::Shape" is "ai.onnx::Shape".
        given = texts(allow, "allow", "a list of operators", Iterable)
        names = frozenset(ONNX_DOMAIN + name if name.startswith("::") else name for name in given)
        if not boolean(strict, "strict"):
            if names:
                raise ArgumentError("allow: it exempts operators from strict=True, which is not given")
            return cls((), frozenset())
        return cls(tuple(name for name in asked if name != CPU.name), names)

    def record(self, options: PoolOptions) -> None:
        """Makes the session record what `check` reads."""
        if self.asked:
            record(options)

    def check(self, session: Handle, subject: str) -> None:
        """Raises a `ProviderError` that names the nodes on the CPU; `subject` is the model's name in messages."""
        if not self.asked:
            return
        on_cpu = [
            node
            for assignment in read(session)
            if assignment.provider == CPU.name
            for node in assignment.nodes
            if not self.allow & {node.op_type, f"{node.domain}::{node.op_type}"}
        ]
        if on_cpu:
            named = ", ".join(map(str, on_cpu[:NAMED]))
            more = f" and {len(on_cpu) - NAMED} more" if len(on_cpu) > NAMED else ""
            raise ProviderError(
                f"{subject}: strict: of its nodes {len(on_cpu)} would run on {CPU.name}, though "
                f"{', '.join(self.asked)} was asked for: {named}{more}"
            )
