"""`Manifest`: which rows of a run are done, and which files have their results; read with every doubt, and replaced."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any

from zrt._common.files import writing
from zrt.errors import FileError

# The name of each part: the first row, the row after the last, and the format. No other file is ever removed.
PART = re.compile(r"part-(\d{12,})-(\d{12,})\.[a-z]+")


@dataclass(frozen=True)
class Manifest:
    """The state of a run. Only parts that it names are results."""

    recipe: Mapping[str, Any]
    """All that decides the results."""
    done: int = 0
    """The rows of the data set that the parts cover."""
    parts: list[str] = field(default_factory=list)
    """The names of the parts, in the order of their rows."""
    bad: list[list[Any]] = field(default_factory=list)
    """The first bad rows, each with its reason."""
    bad_count: int = 0
    shapes: dict[str, list[int]] | None = None
    """The shape of a row of each output."""
    finished: bool = False
    """Whether all rows are done, and the results go, or went, to their places."""

    @classmethod
    def read(cls, path: Path) -> Manifest | None:
        """The manifest in a file, None without the file; raises `FileError` for a file that is none."""
        try:
            data = json.loads(path.read_text("utf-8"))
        except FileNotFoundError:
            return None
        except (OSError, ValueError, RecursionError) as error:
            raise FileError(f"{str(path)!r} cannot be read: {error}") from None
        if not isinstance(data, dict) or data.keys() != {each.name for each in fields(cls)}:
            raise FileError(f"{str(path)!r} is not the manifest of a run")
        problem = _problem(data)
        if problem:
            raise FileError(f"{str(path)!r} is damaged: {problem}")
        return cls(**data)

    def write(self, path: Path) -> None:
        """Replaces the manifest in a file; raises `FileError`."""
        replace(path, lambda fresh: fresh.write_text(json.dumps(asdict(self)), "utf-8"))

    def other_than(self, recipe: Mapping[str, Any]) -> list[str]:
        """The parts of the recipe that differ from those of another one."""
        return sorted(name for name in recipe.keys() | self.recipe.keys() if recipe.get(name) != self.recipe.get(name))


def _problem(data: Mapping[str, Any]) -> str:
    """The first value that no run writes; empty without one."""
    if not isinstance(data["recipe"], dict) or not isinstance(data["finished"], bool):
        return "a value has the wrong type"
    if not (_count(data["done"]) and _count(data["bad_count"])):
        return "a number of rows is none"
    if not isinstance(data["parts"], list) or not isinstance(data["bad"], list):
        return "a list is none"
    at = 0
    for name in data["parts"]:
        match = PART.fullmatch(name) if isinstance(name, str) else None
        if match is None:
            return f"{str(name)[:80]!r} is no name of a part"
        first, end = map(int, match.groups())
        if not at <= first <= end <= data["done"]:
            return f"the rows of {name!r} do not follow those before them"
        at = end
    for row in data["bad"]:
        if not (isinstance(row, list) and len(row) == 2 and _count(row[0]) and isinstance(row[1], str)):
            return f"{str(row)[:80]!r} is no bad row"
    shapes = data["shapes"]
    if shapes is not None and not (
        isinstance(shapes, dict)
        and all(isinstance(shape, list) and all(map(_count, shape)) for shape in shapes.values())
    ):
        return "a shape is none"
    return ""


def _count(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def replace(path: Path, write: Callable[[Path], object]) -> None:
    """Writes a file under another name, and gives it its own when it is complete and on the disk."""
    fresh = path.with_name(f"_{path.name}.new")
    try:
        with writing(path):
            write(fresh)
            _sync(fresh)
            os.replace(fresh, path)
    finally:
        with suppress(OSError):
            fresh.unlink()


def _sync(path: Path) -> None:
    with open(path, "rb") as written:
        os.fsync(written.fileno())
