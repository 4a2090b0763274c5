"""A model's declarations in a loaded session: `ValueInfo` for inputs and outputs, `ModelMetadata` for the rest."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from zrt._common.public import public
from zrt._native import status
from zrt._native.cdata import buffer_at, new_array
from zrt._native.handle import Handle
from zrt._native.library import api
from zrt.memory.allocators import default_allocator, take_string
from zrt.types import ElementType, ValueKind

Dim: TypeAlias = "int | str | None"

# The version that ONNX Runtime reports for a model without one.
NO_VERSION = 2**63 - 1


@public
@dataclass(frozen=True, slots=True)
class ValueInfo:
    """One input, output or overridable initializer as the model declares it."""

    name: str
    kind: ValueKind
    element_type: ElementType
    """The element type of a tensor or of the tensors in a sequence or an optional, or the type of a map's values."""
    shape: tuple[Dim, ...] | None
    """Sizes, names of symbolic sizes, None for nameless ones; None as a whole if the rank is unknown.

    For a sparse tensor the dense shape."""
    key_type: ElementType = ElementType.UNDEFINED
    """The key type of a map or of the maps in a sequence, else UNDEFINED."""
    element: ValueInfo | None = None
    """The declaration of the elements of a sequence, of a map's values, or of an optional's content."""
    denotation: str = ""
    """The meaning that the model declares, such as "IMAGE"."""

    @property
    def is_tensor(self) -> bool:
        """Whether it is a dense tensor."""
        return self.kind is ValueKind.TENSOR

    @property
    def symbolic_dimensions(self) -> tuple[str, ...]:
        """The names of the symbolic sizes."""
        return tuple(dim for dim in self.shape or () if isinstance(dim, str))

    @property
    def static_shape(self) -> tuple[int, ...] | None:
        """The shape if every size is a number, else None."""
        if self.shape is None:
            return None
        dims = tuple(dim for dim in self.shape if isinstance(dim, int))
        return dims if len(dims) == len(self.shape) else None

    def __str__(self) -> str:
        return f"{self.name}: {format_type(self)}"


def is_plain(info: ValueInfo) -> bool:
    """Whether numpy arrays can share its memory: a tensor of numbers that are not packed."""
    kind = info.element_type
    return info.kind is ValueKind.TENSOR and kind is not ElementType.STRING and not kind.packed


def content(info: ValueInfo) -> ValueInfo:
    """The declaration of the fed or returned value: the content of an optional, else `info` itself."""
    return info.element if info.kind is ValueKind.OPTIONAL and info.element is not None else info


def format_type(info: ValueInfo) -> str:
    """A type for messages: "float32[n, 4]", "seq(float32[n])", "map(int64, float32)"."""
    if info.kind is ValueKind.TENSOR:
        return type_name(info.element_type) + format_shape(info.shape)
    if info.kind is ValueKind.SPARSE_TENSOR:
        return f"sparse {type_name(info.element_type)}{format_shape(info.shape)}"
    if info.kind is ValueKind.MAP:
        return f"map({type_name(info.key_type)}, {type_name(info.element_type)})"
    if info.element is None:
        return info.kind.name.lower()
    word = "seq" if info.kind is ValueKind.SEQUENCE else "optional"
    return f"{word}({format_type(info.element)})"


def phrase(kind: ValueKind) -> str:
    """A kind with its article: "a sparse tensor", "an optional"."""
    name = kind.name.lower().replace("_", " ")
    return f"an {name}" if name[0] in "ou" else f"a {name}"


def type_name(element_type: ElementType) -> str:
    """An element type by numpy's name: "float32", "bfloat16"."""
    named = element_type.dtype is not None and element_type is not ElementType.STRING
    return element_type.dtype.name if named else element_type.name.lower()


def format_shape(shape: tuple[Dim, ...] | None) -> str:
    """A shape for messages: "[batch, 1, 28, ?]"."""
    if shape is None:
        return "[...]"
    return "[" + ", ".join("?" if dim is None else str(dim) for dim in shape) + "]"


class _Opsets:
    """The part of `ModelMetadata` that is read when it is asked for, and no field."""

    __slots__ = ("_read",)

    _read: Callable[[], dict[str, int]]


@public
@dataclass(frozen=True, slots=True)
class ModelMetadata(_Opsets):
    """The metadata that the model's author wrote into the file."""

    producer_name: str
    graph_name: str
    domain: str
    description: str
    graph_description: str
    version: int
    custom_metadata_map: dict[str, str] = field(default_factory=dict)

    @property
    def opsets(self) -> dict[str, int]:
        """The version of each operator set that the model imports, by domain; "" is ONNX's own.

        They are read at each access: from the model's file, if the session was loaded from one. Raises `ModelError` if
        the file is gone, and `UnsupportedError` for a model in ONNX Runtime's own format.
        """
        return getattr(self, "_read", dict)()

    def __reduce__(self) -> tuple[Any, ...]:
        return with_opsets, (getattr(self, "_read", dict), *(getattr(self, name) for name in self.__match_args__))


def with_opsets(read: Callable[[], dict[str, int]], *fields: Any) -> ModelMetadata:
    """Metadata with these fields; `read` returns the opsets."""
    made = ModelMetadata(*fields)
    object.__setattr__(made, "_read", read)
    return made


def _text(dim: Any) -> str | None:
    return status.string(dim) or None if dim else None


def read_shape(info: Any) -> tuple[Dim, ...] | None:
    """The shape in a borrowed ``OrtTensorTypeAndShapeInfo``."""
    table = api()
    if not table.TensorTypeAndShape_HasShape(info):
        return None
    rank = status.fetch(table.GetDimensionsCount, "size_t", info)
    sizes, names = new_array("int64_t", rank), new_array("const char *", rank)
    status.check(table.GetDimensions(info, sizes, rank))
    status.check(table.GetSymbolicDimensions(info, names, rank))
    return tuple(int(sizes[i]) if sizes[i] >= 0 else _text(names[i]) for i in range(rank))


def read_type(name: str, type_info: Any) -> ValueInfo:
    """Reads a borrowed ``OrtTypeInfo`` of the value called `name` in the model."""
    table = api()
    kind = ValueKind(status.fetch(table.GetOnnxTypeFromTypeInfo, "enum ONNXType", type_info))
    text, length = status.fetch_array(table.GetDenotationFromTypeInfo, "const char", type_info)
    denotation = bytes(buffer_at(text, length)).decode(errors="replace") if length else ""

    def cast(function: Any, wanted: str) -> Any:
        # Borrowed from the type information.
        return status.fetch(function, f"const {wanted} *", type_info)

    def held(function: Any, container: Any) -> ValueInfo:
        inner = Handle.make(table.ReleaseTypeInfo, [], function, "OrtTypeInfo", container)
        return read_type(name, inner.pointer)

    if kind in (ValueKind.TENSOR, ValueKind.SPARSE_TENSOR):
        info = cast(table.CastTypeInfoToTensorInfo, "OrtTensorTypeAndShapeInfo")
        element_type = ElementType(status.fetch(table.GetTensorElementType, "ONNXTensorElementDataType", info))
        return ValueInfo(name, kind, element_type, read_shape(info), denotation=denotation)
    key_type = ElementType.UNDEFINED
    if kind is ValueKind.SEQUENCE:
        element = held(table.GetSequenceElementType, cast(table.CastTypeInfoToSequenceTypeInfo, "OrtSequenceTypeInfo"))
        key_type = element.key_type
    elif kind is ValueKind.MAP:
        container = cast(table.CastTypeInfoToMapTypeInfo, "OrtMapTypeInfo")
        element = held(table.GetMapValueType, container)
        key_type = ElementType(status.fetch(table.GetMapKeyType, "ONNXTensorElementDataType", container))
    elif kind is ValueKind.OPTIONAL:
        element = held(
            table.GetOptionalContainedTypeInfo, cast(table.CastTypeInfoToOptionalTypeInfo, "OrtOptionalTypeInfo")
        )
        return ValueInfo(name, kind, element.element_type, element.shape, element.key_type, element, denotation)
    else:
        return ValueInfo(name, kind, ElementType.UNDEFINED, None, denotation=denotation)
    return ValueInfo(name, kind, element.element_type, None, key_type, element, denotation)


def read_values(
    session: Any, count: Callable[..., Any], name: Callable[..., Any], kind: Callable[..., Any]
) -> tuple[ValueInfo, ...]:
    """The inputs, outputs or initializers of a session, by the three functions of the C table that list them."""
    table = api()
    allocator = default_allocator()
    infos = []
    for index in range(status.fetch(count, "size_t", session)):
        label = take_string(allocator, status.make(name, "char", session, index, allocator))
        type_info = Handle.make(table.ReleaseTypeInfo, [], kind, "OrtTypeInfo", session, index)
        infos.append(read_type(label, type_info.pointer))
    return tuple(infos)


def read_metadata(session: Any, opsets: Callable[[], dict[str, int]]) -> ModelMetadata:
    """The model's metadata; `opsets` reads the opsets, which ONNX Runtime does not report."""
    table = api()
    allocator = default_allocator()
    handle = Handle.make(table.ReleaseModelMetadata, [], table.SessionGetModelMetadata, "OrtModelMetadata", session)

    def read(function: Any, *arguments: Any) -> str:
        return take_string(allocator, status.make(function, "char", handle.pointer, allocator, *arguments))

    list_keys = table.ModelMetadataGetCustomMetadataMapKeys
    keys, count = status.fetch_array(list_keys, "char *", handle.pointer, allocator, count="int64_t")
    custom = {}
    for i in range(count):
        key = keys[i]
        value = status.make(table.ModelMetadataLookupCustomMetadataMap, "char", handle.pointer, allocator, key)
        label = take_string(allocator, key)
        custom[label] = take_string(allocator, value) if value else ""
    if keys:
        table.AllocatorFree(allocator, keys)
    return with_opsets(
        opsets,
        read(table.ModelMetadataGetProducerName),
        read(table.ModelMetadataGetGraphName),
        read(table.ModelMetadataGetDomain),
        read(table.ModelMetadataGetDescription),
        read(table.ModelMetadataGetGraphDescription),
        int(status.fetch(table.ModelMetadataGetVersion, "int64_t", handle.pointer)),
        custom,
    )
