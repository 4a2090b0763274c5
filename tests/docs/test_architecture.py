"""`docs/architecture.md` names the rooms of the package from the ground up: each imports only from those below it."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

import zrt

PAGE = Path(__file__).parents[2] / "docs" / "architecture.md"
PACKAGE = Path(zrt.__file__).parent
FACE = "zrt"
# Serves the build; a wheel has no file of that name.
BUILD_HOOK = "hatch_build.py"


def table(heading: str) -> list[list[str]]:
    """The rows of the first table below a heading, without its head: the text of each cell."""
    section = re.search(rf"^##+ {heading}$(.*?)(?=^##|\Z)", PAGE.read_text("utf-8"), re.MULTILINE | re.DOTALL)
    assert section, f"docs/architecture.md has no section {heading!r}"
    lines = re.findall(r"^\|(.+)\|$", section[1], re.MULTILINE)
    return [[cell.strip() for cell in line.split(" | ")] for line in lines[2:]]


@cache
def rooms() -> list[str]:
    """The rooms in the order of the page: `errors` for errors.py, `session` for session/."""
    return [re.sub(r"`|/|\.py", "", name) for name, _ in table("Rooms")]


@cache
def upward() -> set[tuple[str, str]]:
    """The imports that the page allows to go up: the importing and the imported module."""
    return {(source.strip("`"), target.strip("`")) for source, target, _ in table("Imports that go up")}


@cache
def modules() -> dict[str, Path]:
    """Every module of the package by its dotted name."""
    found = {}
    for path in PACKAGE.rglob("*.py"):
        parts = path.relative_to(PACKAGE.parent).with_suffix("").parts
        found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


def room_of(module: str) -> str:
    parts = module.split(".")
    return parts[1] if len(parts) > 1 else FACE


def imported(module: str) -> Iterator[str]:
    """The modules of zrt that a module imports: at its top, inside functions and for type checkers alone."""
    for node in ast.walk(ast.parse(modules()[module].read_text("utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name.split(".")[0] == FACE)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{module}: imports are absolute"
            if (node.module or "").split(".")[0] == FACE:
                for alias in node.names:
                    name = f"{node.module}.{alias.name}"
                    yield name if name in modules() else node.module


@cache
def crossing() -> set[tuple[str, str]]:
    """The imports that go up, by the importing and the imported module."""
    floors = {room: floor for floor, room in enumerate(rooms())}
    return {
        (module, target)
        for module in modules()
        for target in imported(module)
        if floors[room_of(target)] > floors[room_of(module)]
    }


def test_every_room_is_on_the_page() -> None:
    assert set(rooms()) == {room_of(module) for module in modules()}
    assert len(rooms()) == len(set(rooms()))


def test_imports_go_down_except_for_those_listed() -> None:
    assert crossing() - upward() == set()


def test_listed_imports_exist() -> None:
    assert upward() - crossing() == set()


@pytest.mark.parametrize(("source", "target"), [("zrt.errors", "zrt.session.session"), ("zrt.types", "zrt.cli")])
def test_an_import_that_goes_up_is_noticed(source: str, target: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(globals(), "imported", lambda module: [target] if module == source else [])
    assert crossing.__wrapped__() == {(source, target)}


def test_tables_of_files_are_complete() -> None:
    tables = re.findall(r"^\| in `zrt/(\w+)/` \| \|\n((?:\|.*\n)+)", PAGE.read_text("utf-8"), re.MULTILINE)
    assert tables
    for room, lines in tables:
        listed = re.findall(r"^\| `(\w+\.py)` \|", lines, re.MULTILINE)
        files = {path.name for path in (PACKAGE / room).glob("*.py")} - {"__init__.py", BUILD_HOOK}
        assert sorted(set(listed) - {BUILD_HOOK}) == sorted(files)
        assert listed == sorted(listed)
