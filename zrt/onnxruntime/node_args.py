"""The description of a model that a session gives: `NodeArg`, `ModelMetadata`, and the provider of each node."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, Final, Self

from zrt.onnxruntime import conversions
from zrt.onnxruntime.wrapper import Unique, Wrapper, attribute
from zrt.types import ValueKind
from zrt.values.model_metadata import ModelMetadata as ZrtMetadata
from zrt.values.type_info import ValueInfo


def type_string(info: ValueInfo) -> str:
    """ONNX Runtime's name of a type: "tensor(float)", "seq(map(string,tensor(float)))"."""
    if info.kind is ValueKind.TENSOR:
        return f"tensor({info.element_type.onnx_name})"
    if info.kind is ValueKind.SPARSE_TENSOR:
        return f"sparse_tensor({info.element_type.onnx_name})"
    if info.element is None:
        return ""
    inner = type_string(info.element)
    if info.kind is ValueKind.MAP:
        return f"map({info.key_type.onnx_name},{inner})"
    return f"{'seq' if info.kind is ValueKind.SEQUENCE else 'optional'}({inner})"


class NodeArg(Wrapper):
    """An input, an output or an overridable initializer of a model."""

    __slots__ = ()

    name: Final[str] = attribute("name", "The name.")

    @property
    def type(self) -> str:
        """The type, such as "tensor(float)"."""
        return type_string(self._wrapped)

    @property
    def shape(self) -> list[int | str | None]:
        """Sizes, names of symbolic sizes, None for nameless ones; [] for other than tensors and for unknown ranks."""
        return list(self._wrapped.shape or ())

    def __str__(self) -> str:
        dims = ", ".join(f"'{dim}'" if isinstance(dim, str) else str(dim) for dim in self.shape)
        return f"NodeArg(name='{self.name}', type='{self.type}', shape=[{dims}])"


def _field(name: str, convert: Callable[[Any, str], Any], doc: str, read: Callable[[Any], Any] = lambda v: v) -> Any:
    def write(self: ModelMetadata, value: Any) -> None:
        self._wrapped[name] = convert(value, name)

    return property(lambda self: read(self._wrapped[name]), write, doc=doc)


class ModelMetadata(Wrapper):
    """The text that the model's author wrote into it; writing changes this object alone, and not the model."""

    __slots__ = ()

    @classmethod
    def _of(cls, metadata: ZrtMetadata) -> Self:
        return super()._of({name: getattr(metadata, name) for name in metadata.__match_args__})

    producer_name: str = _field("producer_name", conversions.string, "The tool that wrote the model.")
    graph_name: str = _field("graph_name", conversions.string, "The name of the graph.")
    domain: str = _field("domain", conversions.string, "The domain of the model.")
    description: str = _field("description", conversions.string, "The description of the model.")
    graph_description: str = _field("graph_description", conversions.string, "The description of the graph.")
    version: int = _field(
        "version", partial(conversions.integer, limits=conversions.INT64), "The version; 2**63 - 1 for none."
    )
    custom_metadata_map: dict[str, str] = _field(
        "custom_metadata_map", conversions.texts, "Further texts by name: a new dictionary, set as a whole.", dict
    )


class OrtEpAssignedNode(Unique):
    """A node of the model."""

    name: Final[str] = attribute("name", "The node's name, which may be empty.")
    domain: Final[str] = attribute(
        "domain", 'The domain of the operator; "" is that of ONNX.', lambda name: "" if name == "ai.onnx" else name
    )
    op_type: Final[str] = attribute("op_type", "The operator.")


class OrtEpAssignedSubgraph(Unique):
    """Nodes that one provider runs as a unit."""

    ep_name: Final[str] = attribute("provider", "The provider's name.")

    def get_nodes(self) -> list[OrtEpAssignedNode]:
        """The nodes."""
        return [OrtEpAssignedNode._of(node) for node in self._wrapped.nodes]
