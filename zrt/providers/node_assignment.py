"""Which provider runs which node, as ONNX Runtime recorded it at load, and the demand that none is the processor's."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from zrt._common.arguments import boolean, text, wrong_type
from zrt._common.config_keys import SessionConfigKey
from zrt._native import status
from zrt._native.handle import Handle
from zrt._native.library import api
from zrt.errors import ArgumentError, ProviderError
from zrt.providers.config_entries import add_entry
from zrt.providers.vendors.cpu import CPU

RECORD = SessionConfigKey.RECORD_EP_GRAPH_ASSIGNMENT_INFO.encode()

# How ONNX's own domain, whose name is empty, is called.
ONNX_DOMAIN = "ai.onnx"

# How many nodes a refusal names.
NAMED = 20


def operator_of(op_type: str, domain: str) -> str:
    """An operator for people: "Shape", "com.microsoft::FusedMatMul"."""
    return op_type if domain == ONNX_DOMAIN else f"{domain}::{op_type}"


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


@dataclass(frozen=True, slots=True)
class Assignment:
    """Nodes that one provider took together; subgraphs of loops and branches have assignments of their own."""

    provider: str
    """The provider's full name."""
    nodes: tuple[AssignedNode, ...]
    """What it took."""


def record(options: Handle) -> None:
    """Has a session that is loaded with these options remember the assignment."""
    add_entry(options, RECORD, b"1")


def read(session: Handle) -> tuple[Assignment, ...]:
    """The assignment of a session that was loaded to `record` it; of another, ORT's own refusal."""
    table = api()

    def said(function: Any, thing: Any) -> str:
        return status.string(status.make(function, "const char", thing))

    def parts(function: Any, kind: str, thing: Any) -> list[Any]:
        # All of it is the session's own memory.
        return status.fetch_list(function, f"const {kind} *const", thing)

    def node(pointer: Any) -> AssignedNode:
        return AssignedNode(
            said(table.EpAssignedNode_GetName, pointer),
            said(table.EpAssignedNode_GetOperatorType, pointer),
            said(table.EpAssignedNode_GetDomain, pointer) or ONNX_DOMAIN,
        )

    return tuple(
        Assignment(
            said(table.EpAssignedSubgraph_GetEpName, subgraph),
            tuple(map(node, parts(table.EpAssignedSubgraph_GetNodes, "OrtEpAssignedNode", subgraph))),
        )
        for subgraph in parts(table.Session_GetEpGraphAssignmentInfo, "OrtEpAssignedSubgraph", session.pointer)
    )


@dataclass(frozen=True, slots=True)
class Strictness:
    """The demand that the processor runs no node of a session for which something else was asked, but for `allow`."""

    asked: tuple[str, ...]
    allow: frozenset[str]

    @classmethod
    def of(cls, strict: bool, allow: Iterable[str], asked: Sequence[str]) -> Strictness:
        """From a load's arguments, `asked` the providers; where that is only the processor, nothing is demanded."""
        names = _operators(allow)
        if not boolean(strict, "strict"):
            if names:
                raise ArgumentError("allow: it exempts operators from strict=True, which is not given")
            return cls((), frozenset())
        return cls(tuple(name for name in asked if name != CPU.name), names)

    def record(self, options: Handle) -> None:
        """Has the session remember what `check` asks."""
        if self.asked:
            record(options)

    def check(self, session: Handle, subject: str) -> None:
        """Raises a `ProviderError` that names the nodes that the processor runs; `subject` is the model's name."""
        if not self.asked:
            return
        fell = [
            node
            for assignment in read(session)
            if assignment.provider == CPU.name
            for node in assignment.nodes
            if not self.allow & {node.op_type, f"{node.domain}::{node.op_type}"}
        ]
        if fell:
            named = ", ".join(map(str, fell[:NAMED]))
            more = f" and {len(fell) - NAMED} more" if len(fell) > NAMED else ""
            raise ProviderError(
                f"{subject}: strict: of its nodes {len(fell)} would run on {CPU.name}, though "
                f"{', '.join(self.asked)} was asked for: {named}{more}"
            )


def _operators(allow: Iterable[str]) -> frozenset[str]:
    if isinstance(allow, str) or not isinstance(allow, Iterable):
        raise wrong_type("allow", "a list of operators", allow)
    names = [text(name, "allow").decode() for name in allow]
    # "::Shape" is "ai.onnx::Shape".
    return frozenset(ONNX_DOMAIN + name if name.startswith("::") else name for name in names)
