"""`NodeArg` and `ModelMetadata`: the declarations of a session's model as the official package gives them."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

from zrt.onnxruntime import conversions
from zrt.onnxruntime.state.arguments import no_constructor
from zrt.onnxruntime.state.devices import NotPickled
from zrt.types import ValueKind
from zrt.values.type_info import ValueInfo

if TYPE_CHECKING:
    from zrt.values.model_metadata import ModelMetadata as ZrtMetadata


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


class _Declared(NotPickled):
    """Base of both: sessions alone make it."""

    __slots__ = ()

    def __init__(self) -> None:
        raise no_constructor(self)


class NodeArg(_Declared):
    """An input, an output or an overridable initializer of a model."""

    __slots__ = ("_info",)

    _info: ValueInfo

    @classmethod
    def _of(cls, info: ValueInfo) -> NodeArg:
        made = cls.__new__(cls)
        made._info = info
        return made

    @property
    def name(self) -> str:
        """The name."""
        return self._info.name

    @property
    def type(self) -> str:
        """The type, such as "tensor(float)"."""
        return type_string(self._info)

    @property
    def shape(self) -> list[int | str | None]:
        """Sizes, names of symbolic sizes, None for nameless ones; [] for other than tensors and for unknown ranks."""
        return list(self._info.shape or ())

    def __str__(self) -> str:
        dims = ", ".join(f"'{dim}'" if isinstance(dim, str) else str(dim) for dim in self.shape)
        return f"NodeArg(name='{self.name}', type='{self.type}', shape=[{dims}])"


def _field(name: str, convert: Callable[[Any, str], Any], meaning: str) -> Any:
    def read(self: ModelMetadata) -> Any:
        return self._fields[name]

    def write(self: ModelMetadata, value: Any) -> None:
        self._fields[name] = convert(value, name)

    return property(read, write, doc=meaning)


class ModelMetadata(_Declared):
    """The text that the model's author wrote into it; writing changes this object alone, and not the model."""

    __slots__ = ("_fields",)

    _fields: dict[str, Any]

    @classmethod
    def _of(cls, metadata: ZrtMetadata) -> ModelMetadata:
        made = cls.__new__(cls)
        made._fields = {name: getattr(metadata, name) for name in metadata.__match_args__}
        return made

    producer_name = _field("producer_name", conversions.string, "The tool that wrote the model.")
    graph_name = _field("graph_name", conversions.string, "The name of the graph.")
    domain = _field("domain", conversions.string, "The domain of the model.")
    description = _field("description", conversions.string, "The description of the model.")
    graph_description = _field("graph_description", conversions.string, "The description of the graph.")
    version = _field(
        "version", partial(conversions.integer, limits=conversions.INT64), "The version; 2**63 - 1 for none."
    )

    @property
    def custom_metadata_map(self) -> dict[str, str]:
        """Further texts by name: a new dictionary, which may be set as a whole."""
        return dict(self._fields["custom_metadata_map"])

    @custom_metadata_map.setter
    def custom_metadata_map(self, value: Any) -> None:
        self._fields["custom_metadata_map"] = conversions.strings(value, "custom_metadata_map")
