"""Resolves a model's symbolic dimensions from the shapes of its inputs."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from zrt.errors import ShapeError
from zrt.values.type_info import ValueInfo, format_shape

Shape = tuple[int, ...]


def check(info: ValueInfo, shape: Shape, subject: str) -> None:
    """Raises `ShapeError` if a shape does not match the declared one."""
    declared = info.shape
    if declared is None:
        return
    fits = len(declared) == len(shape) and all(
        not isinstance(wanted, int) or wanted == got for wanted, got in zip(declared, shape, strict=True)
    )
    if not fits:
        raise ShapeError(f"{subject}: expected shape {format_shape(declared)}, got {list(shape)}")


def bind(infos: Iterable[ValueInfo], shapes: Sequence[Shape]) -> dict[str, int]:
    """The sizes of symbolic dimensions, by name; a name to which two inputs give different sizes is left out.

    ORT accepts inputs that contradict each other so, as it broadcasts them: this is not an error.
    """
    sizes: dict[str, int] = {}
    contradicted = set()
    for info, shape in zip(infos, shapes, strict=True):
        for dim, size in zip(info.shape or (), shape, strict=False):
            if isinstance(dim, str) and sizes.setdefault(dim, size) != size:
                contradicted.add(dim)
    for dim in contradicted:
        del sizes[dim]
    return sizes


def solve(info: ValueInfo, sizes: dict[str, int]) -> Shape | None:
    """An output's shape with those sizes; None if a dimension stays open."""
    if info.shape is None:
        return None
    shape = []
    for dim in info.shape:
        size = sizes.get(dim) if isinstance(dim, str) else dim
        if size is None:
            return None
        shape.append(size)
    return tuple(shape)
