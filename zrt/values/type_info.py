"""A model's declarations in a loaded session: `ValueInfo` for each of its inputs, outputs and initializers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from zrt._common.public import public
from zrt._native import ffi, lib, status
from zrt._native.cdata import buffer_at, new_array, numbers, strings
from zrt._native.handle import Handle
from zrt._native.library import api
from zrt.types import ElementType, ValueKind

Dim: TypeAlias = "int | str | None"


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


def is_text(info: ValueInfo) -> bool:
    """Whether it is a tensor of strings."""
    return info.kind is ValueKind.TENSOR and info.element_type is ElementType.STRING


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


def _text(dim: Any) -> str | None:
    return status.string(dim) or None if dim else None


def write_shape(code: int, shape: Sequence[Dim] | None) -> Handle:
    """A new ``OrtTensorTypeAndShapeInfo``; `code` is the number of the element type for the function that reads it."""
    table = api()
    create = table.CreateTensorTypeAndShapeInfo
    info = Handle.make(table.ReleaseTensorTypeAndShapeInfo, [], create, "OrtTensorTypeAndShapeInfo")
    status.check(table.SetTensorElementType(info.pointer, code))
    if shape is not None:
        names = strings(dim if isinstance(dim, str) else "" for dim in shape)
        sizes = [dim if isinstance(dim, int) else -1 for dim in shape]
        status.check(table.SetDimensions(info.pointer, sizes, len(sizes)))
        status.check(table.SetSymbolicDimensions(info.pointer, names, len(sizes)))
    return info


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


_TENSORS = ValueKind.TENSOR, ValueKind.SPARSE_TENSOR
# Looked up by C's numbers: a call of the enum takes four times as long.
_KINDS = {int(kind): kind for kind in ValueKind}
_ELEMENT_TYPES = {int(kind): kind for kind in ElementType}


class _Reader:
    """Reads what types.c wrote."""

    __slots__ = ("_at", "_next", "_texts")

    def __init__(self, read: Callable[..., Any], source: Any) -> None:
        types = ffi.gc(ffi.new("zrt_types *"), lib.zrt_types_clear)
        status.check(read(api(), source, types))
        self._next = iter(numbers(types.numbers, types.count)).__next__
        self._texts = bytes(buffer_at(types.texts, types.size)) if types.size else b""
        self._at = 0

    def text(self) -> str:
        length = self._next()
        if not length:
            return ""
        start = self._at
        self._at = end = start + length
        return self._texts[start:end].decode(errors="replace")

    def value(self, name: str) -> ValueInfo:
        """The type of the value called `name`."""
        number = self._next
        kind = _KINDS[number()]
        denotation = self.text()
        if kind in _TENSORS:
            element_type, rank = _ELEMENT_TYPES[number()], number()
            shape = None
            if rank >= 0:
                shape = tuple([size if (size := number()) >= 0 else self.text() or None for _ in range(rank)])
            return ValueInfo(name, kind, element_type, shape, denotation=denotation)
        if kind not in (ValueKind.SEQUENCE, ValueKind.MAP, ValueKind.OPTIONAL):
            return ValueInfo(name, kind, ElementType.UNDEFINED, None, denotation=denotation)
        key_type = _ELEMENT_TYPES[number()] if kind is ValueKind.MAP else ElementType.UNDEFINED
        element = self.value(name)
        if kind is not ValueKind.MAP:
            key_type = element.key_type
        shape = element.shape if kind is ValueKind.OPTIONAL else None
        return ValueInfo(name, kind, element.element_type, shape, key_type, element, denotation)

    def values(self) -> tuple[ValueInfo, ...]:
        """A list of values, each with its name."""
        return tuple([self.value(self.text()) for _ in range(self._next())])


def read_type(name: str, type_info: Any) -> ValueInfo:
    """Reads a borrowed ``OrtTypeInfo`` of the value called `name` in the model."""
    return _Reader(lib.zrt_types_read, type_info).value(name)


def read_session(session: Any) -> tuple[tuple[ValueInfo, ...], tuple[ValueInfo, ...], tuple[ValueInfo, ...]]:
    """The inputs, the outputs and the overridable initializers of an ``OrtSession``."""
    reader = _Reader(lib.zrt_types_of_session, session)
    return reader.values(), reader.values(), reader.values()
