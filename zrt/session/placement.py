"""Where a session's inputs and outputs live, and which provider runs each of its nodes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from zrt._common.public import public
from zrt._native import status
from zrt._native.cdata import new_array
from zrt._native.handle import Handle
from zrt._native.library import api
from zrt.environment import provider_libraries
from zrt.environment.devices import EpDevice, device_at
from zrt.errors import Error, FailError
from zrt.memory.allocators import MemoryInfo, session_memories
from zrt.providers import node_assignment
from zrt.providers.node_assignment import Assignment, operator_of
from zrt.values.type_info import ValueInfo


@public
@dataclass(frozen=True, slots=True)
class PortPlacement:
    """Where the session reads an input, or writes an output."""

    name: str
    memory: MemoryInfo
    """Memory elsewhere means a copy in each run."""
    provider: str | None
    """The provider of the node that reads or writes it; None where ONNX Runtime does not say."""
    device: EpDevice | None
    """The first device that the provider offers; None where it offers none, or ONNX Runtime does not say."""


@public
@dataclass(frozen=True, slots=True)
class NodePlacement:
    """A node, and the provider that runs it."""

    name: str
    op_type: str
    domain: str
    provider: str


@public
@dataclass(frozen=True, slots=True)
class Placement:
    """What `Session.placement` says; printed, it is a table."""

    inputs: tuple[PortPlacement, ...]
    outputs: tuple[PortPlacement, ...]
    subgraphs: tuple[Assignment, ...] | None
    """What was given to a provider together, in ONNX Runtime's order; None where it was not recorded."""
    reason: str
    """Why nothing is known of the nodes; "" where it is."""

    @property
    def nodes(self) -> tuple[NodePlacement, ...]:
        """Every node with its provider; none where it was not recorded (see `reason`)."""
        return tuple(
            NodePlacement(node.name, node.op_type, node.domain, subgraph.provider)
            for subgraph in self.subgraphs or ()
            for node in subgraph.nodes
        )

    @property
    def providers(self) -> dict[str, int]:
        """How many nodes each provider runs."""
        counts: dict[str, int] = {}
        for node in self.nodes:
            counts[node.provider] = counts.get(node.provider, 0) + 1
        return counts

    def to_dict(self) -> dict[str, Any]:
        """The same in plain dicts and lists, for JSON; `nodes` is None where it was not recorded."""
        return {
            "inputs": [_port(port) for port in self.inputs],
            "outputs": [_port(port) for port in self.outputs],
            "nodes": None if self.subgraphs is None else [asdict(node) for node in self.nodes],
            "reason": self.reason,
        }

    def rows(self) -> list[tuple[str, str, str, str]]:
        """The same for people: what it is, its name, its memory or its operator, and the provider."""
        rows = [
            (word, port.name, _where(port.memory), port.provider or "?")
            for word, ports in (("input", self.inputs), ("output", self.outputs))
            for port in ports
        ]
        return rows + [
            ("node", node.name or "?", operator_of(node.op_type, node.domain), node.provider) for node in self.nodes
        ]

    def __str__(self) -> str:
        rows = self.rows()
        widths = [max((len(row[column]) for row in rows), default=0) for column in range(3)]
        lines = [
            "  ".join([*(cell.ljust(width) for cell, width in zip(row, widths, strict=False)), row[3]]) for row in rows
        ]
        return "\n".join([*lines, f"nodes: {self.reason}"] if self.reason else lines)


def _where(memory: MemoryInfo) -> str:
    return memory.name if memory.is_host else f"{memory.name}:{memory.device_id}"


def _port(port: PortPlacement) -> dict[str, Any]:
    return {
        "name": port.name,
        "memory": port.memory.name,
        "device_id": port.memory.device_id,
        "on_host": port.memory.is_host,
        "provider": port.provider,
        "device": None if port.device is None else str(port.device),
    }


def read(
    session: Handle, inputs: Sequence[ValueInfo], outputs: Sequence[ValueInfo], providers: Sequence[str]
) -> Placement:
    """The placement of a session."""
    table = api()
    # With one provider there is no question; of several ONNX Runtime names those that take part in device selection.
    only = providers[0] if len(providers) == 1 else None
    try:
        subgraphs: tuple[Assignment, ...] | None = node_assignment.read(session)
        reason = ""
    except FailError:
        subgraphs = None
        reason = "not recorded; load the session with SessionOptions(record_placement=True)"
    return Placement(
        _ports(session, inputs, table.SessionGetMemoryInfoForInputs, table.SessionGetEpDeviceForInputs, only),
        _ports(session, outputs, table.SessionGetMemoryInfoForOutputs, table.SessionGetEpDeviceForOutputs, only),
        subgraphs,
        reason,
    )


def _ports(
    session: Handle, infos: Sequence[ValueInfo], where: Any, device: Any, only: str | None
) -> tuple[PortPlacement, ...]:
    placed = []
    for info, memory, found in zip(
        infos, session_memories(where, session, len(infos)), _devices(device, session, len(infos)), strict=True
    ):
        placed.append(PortPlacement(info.name, memory, found.provider if found else only, found))
    return tuple(placed)


def _devices(function: Any, session: Handle, count: int) -> list[EpDevice | None]:
    places = new_array("const OrtEpDevice *", count)
    with provider_libraries.lock:
        try:
            if count:
                provider_libraries.check_whole()
                status.check(function(session.pointer, places, count))
        except Error:
            # An output that is an input or a weight as well has no node that makes it, and spoils it for the others.
            return [None] * count
        return [device_at(place) for place in places]
