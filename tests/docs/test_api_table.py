"""`docs/api.md` lists the functions of the C API with the names in zrt that call them, or with a reason."""

import re
from functools import cache, reduce
from pathlib import Path

import pytest

import zrt
from zrt._native import later
from zrt.cli.entry import COMMANDS
from zrt.providers import known
from zrt.providers.attach import ThroughObject

PAGE = Path(__file__).parents[2] / "docs" / "api.md"
PACKAGE = Path(zrt.__file__).parent
TABLES = {
    "OrtApi": "api.h",
    "OrtModelEditorApi": "editor.h",
    "OrtCompileApi": "compile.h",
    "OrtInteropApi": "interop.h",
}

# The reasons why a function has no name in zrt. Those of NOT_NEEDED take nothing from users.
NOT_NEEDED = ("deprecated", "superseded", "training", "inside a provider")
OTHERS = ("unsound", "no effect", "not in official builds")


@cache
def declared(table: str) -> list[str]:
    """The functions of a table, in slot order."""
    text = (PACKAGE / "_native" / "decl" / TABLES[table]).read_text()
    body = re.search(rf"struct {table} \{{(.*?)\n\}};", text, re.DOTALL)
    assert body
    return re.findall(r"^ {4}(?! )[^()]*?\(\*(\w+)\)", body[1], re.MULTILINE)


@cache
def rows(table: str) -> list[tuple[str, str]]:
    """The page's rows: each function with the names in zrt, or the reason."""
    section = re.search(rf"^## {table}$(.*?)(?=^## |\Z)", PAGE.read_text("utf-8"), re.MULTILINE | re.DOTALL)
    assert section, f"docs/api.md has no section {table}"
    return re.findall(r"^\| `(\w+)` \| (.+?) \|$", section[1], re.MULTILINE)


@cache
def called() -> set[str]:
    """The functions that zrt's code calls."""
    sources = [*PACKAGE.glob("**/*.py"), *PACKAGE.glob("_native/src/*.c")]
    names: set[str] = set()
    for path in sources:
        text = path.read_text("utf-8")
        names.update(re.findall(r"(?:\.|->|\")(\w+)\b", text))
        # zrt/session/compile.py calls the setters of one object by the end of their names.
        names |= {f"ModelCompilationOptions_{end}" for end in re.findall(r"\.set\(\s*\"(\w+)\"", text)}
    for provider in known.HOMES:
        kind = known.kind_of(provider)
        if kind is not None and isinstance(kind.attach, ThroughObject):
            label = kind.attach.label
            forms = ["Create{}", "Update{}", "Release{}", "Get{}AsString"]
            forms += ["Update{}WithValue", "Get{}ByName"] if kind.attach.stream else []
            names |= {form.format(f"{label}ProviderOptions") for form in forms}
    return names


def names_of(cell: str) -> list[str]:
    return re.findall(r"`([^`]+)`", cell)


def is_reason(cell: str) -> bool:
    return cell.startswith((*NOT_NEEDED, *OTHERS))


@pytest.mark.parametrize("table", TABLES)
def test_every_function_has_a_row(table: str) -> None:
    assert [function for function, _ in rows(table)] == declared(table)


@pytest.mark.parametrize("table", TABLES)
def test_functions_with_names_are_called(table: str) -> None:
    for function, cell in rows(table):
        if is_reason(cell):
            assert function not in called(), f"{function} is called, and the page says: {cell}"
            continue
        assert function in called(), f"{function} is called nowhere, and the page says: {cell}"
        assert names_of(cell), f"{function}: the page names nothing of zrt"
        for name in names_of(cell):
            if name.startswith("zrt "):
                assert name.removeprefix("zrt ") in COMMANDS
            else:
                reduce(getattr, name.split("."), zrt)


LATER = re.compile(r"^\| 1\.(\d+) \| `(\w+)` \| `(\w+)` \| .+? \| (.+?) \|$", re.MULTILINE)
STRUCTS = {"OrtApi": "zrt_later_api", "OrtCompileApi": "zrt_later_compile_api"}


def test_later_functions_are_those_of_the_header() -> None:
    header = (PACKAGE / "_native" / "src" / "later.h").read_text()
    rows = LATER.findall(PAGE.read_text("utf-8"))
    for table, struct in STRUCTS.items():
        body = re.search(rf"typedef struct {struct} \{{(.*?)\n\}} {struct};", header, re.DOTALL)
        assert body
        found = []
        for since, block in re.findall(r"/\* 1\.(\d+) \*/(.*?)(?=/\*|\Z)", body[1], re.DOTALL):
            found += [(since, function) for function in re.findall(r"\*(\w+)(?:\)\(|;)", block)]
        assert [(since, function) for since, of, function, _ in rows if of == table] == found


def test_later_functions_are_called_with_their_version_or_not_at_all() -> None:
    reached = {}
    for since, _, function, cell in LATER.findall(PAGE.read_text("utf-8")):
        if is_reason(cell):
            assert function not in called(), f"{function} is called, and the page says: {cell}"
            continue
        reached[function] = int(since)
        for name in names_of(cell):
            reduce(getattr, name.split("."), zrt)
    assert reached == {function: since for function, (since, *_) in later.LATER.items()}


def test_declarations_are_complete() -> None:
    assert [len(declared(table)) for table in TABLES] == [422, 20, 15, 13]


def test_nearly_all_needed_functions_are_called() -> None:
    cells = [cell for table in TABLES for _, cell in rows(table) if not cell.startswith(NOT_NEEDED)]
    reached = [cell for cell in cells if not is_reason(cell)]
    assert len(reached) / len(cells) >= 0.95


def test_every_table_is_listed_or_named_with_a_reason() -> None:
    declarations = "".join(path.read_text("utf-8") for path in (PACKAGE / "_native" / "decl").glob("*.h"))
    given_out = {(table, function) for table, function in re.findall(r"const (Ort\w+Api) \*\(\*(\w+)\)", declarations)}
    page = PAGE.read_text("utf-8")
    not_listed = set(re.findall(r"^\| `(Ort\w+)` \| `(\w+)` \| (?:training|inside a provider): ", page, re.MULTILINE))
    assert {pair for pair in given_out if pair[0] not in TABLES and pair[1] != "GetApi"} == not_listed
    assert set(re.findall(r"^## (\w+)$", page, re.MULTILINE)) == set(TABLES)
    for table, _ in not_listed:
        assert f"struct {table} {{" not in declarations
