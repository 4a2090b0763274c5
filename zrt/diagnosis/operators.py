"""The distinct operators of a model: what its nodes ask of a library. Needs the onnx package."""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Iterator, Mapping
from copy import deepcopy
from dataclasses import dataclass, field
from typing import Any

from zrt.graph.model_proto import is_light, light, package, subgraphs, with_types
from zrt.loading.initializers import ONNX_DOMAIN
from zrt.types import BY_ONNX_CODE, ElementType


@dataclass(slots=True)
class Operator:
    """An operator with the types of its inputs, and the nodes that have them."""

    node: Any
    """The first of the nodes, an ``onnx.NodeProto``."""
    version: int | None
    """The version of the operator's domain that the model imports; None if it imports none."""
    types: dict[str, Any]
    """The types of its inputs by their names, each an ``onnx.TypeProto`` without shapes."""
    constants: dict[str, Any]
    """Small weights among its inputs."""
    outputs: dict[str, Any]
    """The types of the outputs that are known."""
    nodes: list[str] = field(default_factory=list)

    @property
    def domain(self) -> str:
        """The operator's domain; "" for ONNX's own."""
        return domain_of(self.node)

    @property
    def name(self) -> str:
        """The operator for messages."""
        domain = f"{self.domain}." if self.domain else ""
        return f"operator {domain}{self.node.op_type}"

    @property
    def element_types(self) -> list[ElementType]:
        """The element types of its inputs that are tensors, each once."""
        codes = (kind.tensor_type.elem_type for kind in self.types.values() if kind.HasField("tensor_type"))
        return list(dict.fromkeys(BY_ONNX_CODE[code] for code in codes if code in BY_ONNX_CODE))

    @property
    def typed(self) -> bool:
        """Whether the types of all inputs are known."""
        return all(name in self.types for name in self.node.input if name)


def domain_of(node: Any) -> str:
    """A node's domain; "" for ONNX's own."""
    return "" if node.domain == ONNX_DOMAIN else node.domain


def versions_of(proto: Any) -> dict[str, int]:
    """The version of each domain that a model imports; "" is ONNX's own."""
    return {"" if each.domain == ONNX_DOMAIN else each.domain: each.version for each in proto.opset_import}


def operators_of(proto: Any) -> list[Operator]:
    """The distinct operators of a model, of its subgraphs and of the functions that it defines.

    Types come from ONNX's inference, which knows ONNX's own operators alone.
    """
    model = light(proto)
    try:
        if model.functions:
            # A separate module of the package.
            from onnx import inliner

            model = inliner.inline_local_functions(model)
        model = with_types(model)
    # Inference, inlining and protobuf raise classes of their own; the nodes then have the types that the model says.
    except Exception:
        pass
    found: dict[tuple[Any, ...], Operator] = {}
    versions = versions_of(model)
    for node, types, constants in _nodes(model.graph, ChainMap(), ChainMap()):
        operator = Operator(
            node,
            versions.get(domain_of(node)),
            {name: types[name] for name in node.input if name in types},
            {name: constants[name] for name in node.input if name in constants},
            {name: types[name] for name in node.output if name in types},
        )
        given = tuple(types[name].SerializeToString() if name in types else name and None for name in node.input)
        attributes = tuple(sorted((each.name, each.type) for each in node.attribute))
        key = (operator.domain, node.op_type, given, len(node.output), attributes)
        found.setdefault(key, operator).nodes.append(node.name or next(iter(node.output), ""))
    return list(found.values())


def _nodes(
    graph: Any, outer: ChainMap[str, Any], weights: ChainMap[str, Any]
) -> Iterator[tuple[Any, Mapping[str, Any], Mapping[str, Any]]]:
    """The nodes of a graph and its subgraphs, with the types and the small weights by name that they see."""
    onnx = package()
    types, constants = outer.new_child(), weights.new_child()
    for info in (*graph.input, *graph.value_info, *graph.output):
        if info.type.WhichOneof("value"):
            types[info.name] = _without_shape(info.type)
    for tensor in graph.initializer:
        types[tensor.name] = onnx.helper.make_tensor_type_proto(tensor.data_type, None)
        if is_light(tensor):
            constants[tensor.name] = tensor
    for node in graph.node:
        yield node, types, constants
        for inner in subgraphs(node):
            yield from _nodes(inner, types, constants)


def _without_shape(kind: Any) -> Any:
    """A type whose tensors have any shape."""
    bare = deepcopy(kind)
    inner = bare
    while inner.WhichOneof("value") in ("sequence_type", "optional_type", "map_type"):
        held = getattr(inner, inner.WhichOneof("value"))
        inner = held.value_type if inner.WhichOneof("value") == "map_type" else held.elem_type
    if inner.WhichOneof("value") in ("tensor_type", "sparse_tensor_type"):
        getattr(inner, inner.WhichOneof("value")).ClearField("shape")
    return bare
