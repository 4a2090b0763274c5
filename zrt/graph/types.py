"""The types of a graph's values, and their conversion to and from ``onnx.TypeProto``."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

import numpy as np

from zrt._common.arguments import require_type, shown, text
from zrt._common.public import public_in
from zrt._native import status
from zrt.errors import ArgumentError, DTypeError, ModelError, ShapeError
from zrt.graph.model_proto import package
from zrt.types import BY_ONNX_CODE, ElementType
from zrt.values.type_info import Dim, format_shape, type_name

# protobuf cannot read messages that are nested much deeper.
DEEPEST: Final = 32

# The types that a map's keys may have.
_KEYS: Final = frozenset(kind for kind in ElementType if kind is ElementType.STRING or "int" in kind.onnx_name)


def to_element_type(value: object, subject: str) -> ElementType:
    """An element type in any form that `ElementType.of` takes."""
    with status.named(subject):
        element_type = ElementType.of(value)
    if element_type is ElementType.UNDEFINED:
        raise DTypeError(f"{subject}: {element_type.refused}")
    return element_type


def of_code(code: int, subject: str) -> ElementType:
    """The element type of a number in ``TensorProto.DataType``."""
    if code not in BY_ONNX_CODE:
        raise DTypeError(f"{subject}: zrt knows no element type {code}")
    return BY_ONNX_CODE[code]


def dimensions(shape: object, subject: str) -> tuple[Dim, ...] | None:
    """A shape of sizes, names of symbolic sizes, and None for unnamed ones; None where the rank is open."""
    if shape is None:
        return None
    if not isinstance(shape, (tuple, list)):
        raise ShapeError(f"{subject}: a shape is a tuple of sizes, names and None, not {shown(shape)}")
    for dim in shape:
        if isinstance(dim, str):
            text(dim, f"{subject}: dimension")
        elif dim is not None and (
            isinstance(dim, bool) or not isinstance(dim, (int, np.integer)) or not 0 <= dim < 1 << 63
        ):
            raise ShapeError(f"{subject}: dimension {shown(dim)} is neither a size, nor a name, nor None")
    # ONNX treats an empty name as no name.
    return tuple(int(dim) if isinstance(dim, np.integer) else dim if dim != "" else None for dim in shape)


@public_in("zrt.graph")
@dataclass(frozen=True, slots=True, init=False)
class TensorType:
    """A dense tensor: an element type, in any form that `ElementType.of` takes, and a shape.

    The shape is a tuple of sizes, names of symbolic sizes, and None for unnamed ones; None leaves the rank open.
    """

    element_type: ElementType
    shape: tuple[Dim, ...] | None

    def __init__(self, element_type: object, shape: Sequence[Dim] | None = None) -> None:
        kind = type(self).__name__
        object.__setattr__(self, "element_type", to_element_type(element_type, kind))
        object.__setattr__(self, "shape", dimensions(shape, kind))

    def __str__(self) -> str:
        return f"{type_name(self.element_type)}{format_shape(self.shape)}"


@public_in("zrt.graph")
@dataclass(frozen=True, slots=True, init=False)
class SparseTensorType(TensorType):
    """A sparse tensor of this element type and dense shape."""

    def __str__(self) -> str:
        return f"sparse({TensorType.__str__(self)})"


@public_in("zrt.graph")
@dataclass(frozen=True, slots=True)
class SequenceType:
    """A sequence whose elements all have the same type."""

    element: GraphType

    def __post_init__(self) -> None:
        _require(self.element, "SequenceType: element")

    def __str__(self) -> str:
        return f"sequence({self.element})"


@public_in("zrt.graph")
@dataclass(frozen=True, slots=True, init=False)
class MapType:
    """A map from strings or integers to values of one type."""

    key: ElementType
    value: GraphType

    def __init__(self, key: object, value: GraphType) -> None:
        object.__setattr__(self, "key", to_element_type(key, "MapType: key"))
        object.__setattr__(self, "value", value)
        if self.key not in _KEYS:
            raise DTypeError(f"MapType: key: {type_name(self.key)} is neither string nor an integer")
        _require(value, "MapType: value")

    def __str__(self) -> str:
        return f"map({type_name(self.key)}, {self.value})"


@public_in("zrt.graph")
@dataclass(frozen=True, slots=True)
class OptionalType:
    """A value of this type that may be absent."""

    element: GraphType

    def __post_init__(self) -> None:
        _require(self.element, "OptionalType: element")

    def __str__(self) -> str:
        return f"optional({self.element})"


GraphType: TypeAlias = "TensorType | SparseTensorType | SequenceType | MapType | OptionalType"

KINDS: Final = (TensorType, SequenceType, MapType, OptionalType)


def _require(value: object, subject: str) -> None:
    require_type(value, KINDS, subject, "a type such as TensorType('float32')")
    depth = 0
    inner: Any = value
    while inner is not None:
        depth, inner = depth + 1, getattr(inner, "value", None) or getattr(inner, "element", None)
    if depth > DEEPEST:
        raise DTypeError(f"{subject}: the types are nested more than {DEEPEST} deep")


def as_type(value: object, shape: object, subject: str) -> GraphType | None:
    """The type itself if `value` is one, else the tensor type of an element type and a shape; None for None."""
    if value is None:
        if shape is not None:
            raise DTypeError(f"{subject}: it has a shape, but a type is missing")
        return None
    if isinstance(value, KINDS):
        if shape is not None:
            raise ShapeError(f"{subject}: {value} already has its shape; drop {shown(shape)}")
        return value
    return TensorType(to_element_type(value, subject), dimensions(shape, subject))


def to_proto(kind: GraphType) -> Any:
    helper = package().helper
    if isinstance(kind, SparseTensorType):
        return helper.make_sparse_tensor_type_proto(kind.element_type.onnx_code, kind.shape)
    if isinstance(kind, TensorType):
        return helper.make_tensor_type_proto(kind.element_type.onnx_code, kind.shape)
    if isinstance(kind, SequenceType):
        return helper.make_sequence_type_proto(to_proto(kind.element))
    if isinstance(kind, MapType):
        return helper.make_map_type_proto(kind.key.onnx_code, to_proto(kind.value))
    return helper.make_optional_type_proto(to_proto(kind.element))


def _shape(proto: Any) -> tuple[Dim, ...] | None:
    if not proto.HasField("shape"):
        return None
    return tuple(_dim(dim) for dim in proto.shape.dim)


def _dim(dim: Any) -> Dim:
    """A size, a symbol, or None; some exporters write -1 for a size that is open."""
    if dim.HasField("dim_value"):
        return dim.dim_value if dim.dim_value >= 0 else None
    return dim.dim_param or None


def from_proto(proto: Any, subject: str) -> GraphType | None:
    """The type of an ``onnx.TypeProto``; None where it has none, or one that zrt does not know."""
    which = proto.WhichOneof("value")
    inner: Any = getattr(proto, which) if which else None
    if which in ("tensor_type", "sparse_tensor_type"):
        if not inner.elem_type:
            return None
        kind = TensorType if which == "tensor_type" else SparseTensorType
        return kind(of_code(inner.elem_type, subject), _shape(inner))
    if which in ("sequence_type", "optional_type"):
        element = from_proto(inner.elem_type, subject)
        wrapped = SequenceType if which == "sequence_type" else OptionalType
        return None if element is None else wrapped(element)
    if which == "map_type":
        value = from_proto(inner.value_type, subject)
        return None if value is None else MapType(of_code(inner.key_type, subject), value)
    return None


def declared(graph: Any) -> dict[str, GraphType]:
    """The types that an ``onnx.GraphProto`` declares for its values; `ModelError` for one that is invalid."""
    kinds: dict[str, GraphType] = {}
    subject = ""
    try:
        for tensor in graph.initializer:
            subject = f"initializer {tensor.name!r}"
            kinds[tensor.name] = TensorType(of_code(tensor.data_type, "its type"), tuple(tensor.dims))
        for info in (*graph.input, *graph.value_info, *graph.output):
            subject = f"value {info.name!r}"
            kind = from_proto(info.type, "its type")
            if kind is not None:
                kinds[info.name] = kind
    except (ArgumentError, DTypeError) as error:
        raise ModelError(f"{subject}: {error}") from error
    return kinds
