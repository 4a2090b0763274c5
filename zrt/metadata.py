"""What a loaded session says of its model: `ValueInfo` for inputs and outputs, `ModelMetadata` for the rest."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from zrt._native import ffi, status
from zrt._native.handle import Handle
from zrt._native.library import api
from zrt.memory import default_allocator, take_string
from zrt.types import ElementType, ValueKind

Dim: TypeAlias = "int | str | None"


@dataclass(frozen=True, slots=True)
class ValueInfo:
    """One input, output or overridable initializer as the model declares it."""

    name: str
    kind: ValueKind
    element_type: ElementType
    """The type of a tensor's elements; UNDEFINED for what is no tensor."""
    shape: tuple[Dim, ...] | None
    """Sizes, names of symbolic sizes, None for nameless ones; None as a whole where the rank is open."""

    @property
    def is_tensor(self) -> bool:
        """Whether it is a dense tensor, rather than a sequence, a map ..."""
        return self.kind is ValueKind.TENSOR

    @property
    def symbolic_dimensions(self) -> tuple[str, ...]:
        """The names among the sizes."""
        return tuple(dim for dim in self.shape or () if isinstance(dim, str))

    @property
    def static_shape(self) -> tuple[int, ...] | None:
        """The shape where every size is a number, else None."""
        if self.shape is None:
            return None
        dims = tuple(dim for dim in self.shape if isinstance(dim, int))
        return dims if len(dims) == len(self.shape) else None

    def __str__(self) -> str:
        if not self.is_tensor:
            return f"{self.name}: {self.kind.name.lower()}"
        return f"{self.name}: {type_name(self.element_type)}{format_shape(self.shape)}"


def type_name(element_type: ElementType) -> str:
    """An element type as numpy's users know it: "float32", "bfloat16"."""
    named = element_type.dtype is not None and element_type is not ElementType.STRING
    return element_type.dtype.name if named else element_type.name.lower()


def format_shape(shape: tuple[Dim, ...] | None) -> str:
    """A shape as people write it: "[batch, 1, 28, ?]"."""
    if shape is None:
        return "[...]"
    return "[" + ", ".join("?" if dim is None else str(dim) for dim in shape) + "]"


@dataclass(frozen=True, slots=True)
class ModelMetadata:
    """What the model's author wrote into it. ``OrtApi::SessionGetModelMetadata``."""

    producer_name: str
    graph_name: str
    domain: str
    description: str
    graph_description: str
    version: int
    custom_metadata_map: dict[str, str] = field(default_factory=dict)


def _text(dim: Any) -> str | None:
    return str(ffi.string(dim).decode(errors="replace")) or None if dim else None


def _shape(info: Any) -> tuple[Dim, ...] | None:
    table = api()
    if not table.TensorTypeAndShape_HasShape(info):
        return None
    rank = status.fetch(table.GetDimensionsCount, "size_t", info)
    sizes, names = ffi.new("int64_t[]", rank), ffi.new("const char *[]", rank)
    status.check(table.GetDimensions(info, sizes, rank))
    status.check(table.GetSymbolicDimensions(info, names, rank))
    return tuple(int(sizes[i]) if sizes[i] >= 0 else _text(names[i]) for i in range(rank))


def _value_info(name: str, type_info: Handle) -> ValueInfo:
    table = api()
    kind = ValueKind(status.fetch(table.GetOnnxTypeFromTypeInfo, "enum ONNXType", type_info.pointer))
    if kind is not ValueKind.TENSOR:
        return ValueInfo(name, kind, ElementType.UNDEFINED, None)
    # Borrowed from the type information.
    info = status.fetch(table.CastTypeInfoToTensorInfo, "const OrtTensorTypeAndShapeInfo *", type_info.pointer)
    element_type = ElementType(status.fetch(table.GetTensorElementType, "ONNXTensorElementDataType", info))
    return ValueInfo(name, kind, element_type, _shape(info))


def read_values(
    session: Any, count: Callable[..., Any], name: Callable[..., Any], kind: Callable[..., Any]
) -> tuple[ValueInfo, ...]:
    """The inputs, outputs or initializers of a session, with the three functions of the table that list them."""
    table = api()
    allocator = default_allocator()
    infos = []
    for index in range(status.fetch(count, "size_t", session)):
        label = take_string(allocator, status.make(name, "char", session, index, allocator))
        type_info = Handle.own(status.make(kind, "OrtTypeInfo", session, index), table.ReleaseTypeInfo)
        infos.append(_value_info(label, type_info))
    return tuple(infos)


def read_metadata(session: Any) -> ModelMetadata:
    """The model's metadata."""
    table = api()
    allocator = default_allocator()
    handle = Handle.own(
        status.make(table.SessionGetModelMetadata, "OrtModelMetadata", session), table.ReleaseModelMetadata
    )

    def read(function: Any, *arguments: Any) -> str:
        return take_string(allocator, status.make(function, "char", handle.pointer, allocator, *arguments))

    keys, count = ffi.new("char ***"), ffi.new("int64_t *")
    status.check(table.ModelMetadataGetCustomMetadataMapKeys(handle.pointer, allocator, keys, count))
    custom = {}
    for i in range(count[0]):
        key = keys[0][i]
        value = status.make(table.ModelMetadataLookupCustomMetadataMap, "char", handle.pointer, allocator, key)
        label = take_string(allocator, key)
        custom[label] = take_string(allocator, value) if value else ""
    if keys[0]:
        table.AllocatorFree(allocator, keys[0])
    return ModelMetadata(
        read(table.ModelMetadataGetProducerName),
        read(table.ModelMetadataGetGraphName),
        read(table.ModelMetadataGetDomain),
        read(table.ModelMetadataGetDescription),
        read(table.ModelMetadataGetGraphDescription),
        int(status.fetch(table.ModelMetadataGetVersion, "int64_t", handle.pointer)),
        custom,
    )
