"""Resolves a model's symbolic dimensions from the shapes of its inputs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from zrt.errors import ShapeError
from zrt.values.type_info import ValueInfo, format_shape

Shape = tuple[int, ...]
# The fed inputs, each with the shape of its feed.
Inputs = Sequence[tuple[ValueInfo, Shape]]


def fits(info: ValueInfo, shape: Shape) -> bool:
    """Whether a shape matches the declared one."""
    declared = info.shape
    return declared is None or (
        len(declared) == len(shape)
        and all(not isinstance(wanted, int) or wanted == got for wanted, got in zip(declared, shape, strict=True))
    )


def check(info: ValueInfo, shape: Shape, subject: str) -> None:
    """Raises `ShapeError` if a shape does not match the declared one."""
    if not fits(info, shape):
        raise ShapeError(f"{subject}: expected shape {format_shape(info.shape)}, got {list(shape)}")


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


def agree(inputs: Inputs) -> bool:
    """Whether the inputs give each symbolic dimension one size."""
    sizes = bind([info for info, _ in inputs], [shape for _, shape in inputs])
    return all(dim in sizes for info, _ in inputs for dim in info.symbolic_dimensions)


def solve(info: ValueInfo, sizes: Mapping[str, int], open_size: int | None = None) -> Shape | None:
    """A shape with those sizes, and `open_size` for every size that stays open; None if one is still open."""
    if info.shape is None:
        return None
    shape = []
    for dim in info.shape:
        size = dim if isinstance(dim, int) else sizes.get(dim or "", open_size)
        if size is None:
            return None
        shape.append(size)
    return tuple(shape)


def complete(
    infos: Sequence[ValueInfo], shapes: Mapping[str, Shape], open_size: int | None = None
) -> list[Shape | None]:
    """The shape of each input: that in `shapes`, or the declared one with the sizes that it shares with those.

    Every other size is `open_size`. None stands for a shape with an open size, or of unknown rank.
    """
    known = [info for info in infos if info.name in shapes]
    sizes = bind(known, [shapes[info.name] for info in known])
    return [shapes[info.name] if info.name in shapes else solve(info, sizes, open_size) for info in infos]


class Contradiction(NamedTuple):
    """Two inputs that give one symbolic dimension different sizes."""

    dim: str
    inputs: tuple[str, str]
    sizes: tuple[int, int]

    @property
    def broadcasts(self) -> bool:
        """Whether one of the sizes is 1, which broadcasting stretches to any other."""
        return 1 in self.sizes

    def __str__(self) -> str:
        inputs = " and ".join(map(repr, self.inputs))
        return f"inputs {inputs} give the size {self.dim!r} two values, {self.sizes[0]} and {self.sizes[1]}"


def contradictions(infos: Iterable[ValueInfo], shapes: Iterable[Shape]) -> list[Contradiction]:
    """The symbolic dimensions to which two inputs give different sizes, with those that do not broadcast first.

    An input that gives a dimension two sizes by itself has no say in it: the model uses that name loosely.
    """
    sizes_of: dict[str, dict[int, str]] = {}
    for info, shape in zip(infos, shapes, strict=True):
        own: dict[str, set[int]] = {}
        for dim, size in zip(info.shape or (), shape, strict=False):
            if isinstance(dim, str):
                own.setdefault(dim, set()).add(size)
        for dim, its in own.items():
            if len(its) == 1:
                sizes_of.setdefault(dim, {}).setdefault(its.pop(), info.name)
    conflicts = []
    for dim, by_size in sizes_of.items():
        sizes = sorted(by_size, key=lambda size: size == 1)[:2]
        if len(sizes) == 2:
            first, second = sizes
            conflicts.append(Contradiction(dim, (by_size[first], by_size[second]), (first, second)))
    return sorted(conflicts, key=lambda contradiction: contradiction.broadcasts)
