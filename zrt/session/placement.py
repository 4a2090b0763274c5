"""The memory of a session's inputs and outputs, and the provider of each node."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from zrt._common.public import public
from zrt._native import status
from zrt._native.cdata import new_array
from zrt._native.handle import Handle
from zrt._native.library import api
from zrt.environment import provider_libraries
from zrt.environment.devices import EpDevice
from zrt.errors import FailError, UnsupportedError
from zrt.memory.allocators import MemoryInfo, session_memories
from zrt.providers import node_assignment
from zrt.providers.node_assignment import Assignment, operator_of
from zrt.values.type_info import ValueInfo


@public
@dataclass(frozen=True, slots=True)
class PortPlacement:
    """The memory in which the session reads an input or writes an output."""

    name: str
    memory: MemoryInfo
    """A feed or an output in other memory costs a copy in each run."""
    provider: str | None
    """The provider of the node that reads or writes it; None if ONNX Runtime does not report it."""
    device: EpDevice | None
    """The provider's first device; None if it has none, or if ONNX Runtime does not report it."""


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
    """The result of `Session.placement`; `str` gives a table."""

    inputs: tuple[PortPlacement, ...]
    outputs: tuple[PortPlacement, ...]
    subgraphs: tuple[Assignment, ...] | None
    """The subgraphs that were assigned to providers, in ONNX Runtime's order; None if they were not recorded."""
    reason: str
    """Why the nodes are not known; "" if they are."""

    @property
    def nodes(self) -> tuple[NodePlacement, ...]:
        """Every node with its provider; empty if they were not recorded (see `reason`)."""
        return tuple(
            NodePlacement(node.name, node.op_type, node.domain, subgraph.provider)
            for subgraph in self.subgraphs or ()
            for node in subgraph.nodes
        )

    @property
    def providers(self) -> dict[str, int]:
        """The number of nodes that each provider runs."""
        return dict(Counter(node.provider for node in self.nodes))

    def to_dict(self) -> dict[str, Any]:
        """Plain dicts and lists, for JSON; `nodes` is None if they were not recorded."""
        return {
            "inputs": [_port(port) for port in self.inputs],
            "outputs": [_port(port) for port in self.outputs],
            "nodes": None if self.subgraphs is None else [asdict(node) for node in self.nodes],
            "reason": self.reason,
        }

    def rows(self) -> list[tuple[str, str, str, str]]:
        """Rows of a table: kind, name, memory or operator, and provider."""
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
    table = api()
    # A single provider runs everything. Of several, ONNX Runtime reports those that take part in device selection.
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
    memories, devices = session_memories(where, session, len(infos)), _devices(device, session, len(infos))
    return tuple(
        PortPlacement(info.name, memory, place.provider if place else only, place)
        for info, memory, place in zip(infos, memories, devices, strict=True)
    )


def _devices(function: Any, session: Handle, count: int) -> list[EpDevice | None]:
    places = new_array("const OrtEpDevice *", count)
    with provider_libraries.lock:
        try:
            if count:
                provider_libraries.check_whole()
                status.check(function(session.pointer, places, count))
        except (FailError, UnsupportedError):
            # The call fails for all outputs if one is an input or a weight, which no node makes.
            return [None] * count
        return [EpDevice._read(place) if place else None for place in places]
