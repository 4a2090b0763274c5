"""docs/coming-from-onnxruntime.md names calls that exist on both sides, and every call of onnxruntime's."""

import ast
import importlib
import inspect
import re
from typing import Any

import pytest

import zrt
import zrt.onnxruntime
from tests.docs.test_docs import DOCS
from tests.onnxruntime import walk

_, _, TABLES = (DOCS / "coming-from-onnxruntime.md").read_text("utf-8").partition("\n## How to read the tables\n")
ROWS = re.findall(r"^\| (`.+?) \| (.+?) \| .*\|$", TABLES, re.MULTILINE)

# The classes of the objects that the page writes with these names, by package.
THEIRS = {
    "adapter_format": "AdapterFormat",
    "binding": "IOBinding",
    "compiler": "ModelCompiler",
    "device": "OrtDevice",
    "ep_device": "OrtEpDevice",
    "info": "NodeArg",
    "meta": "ModelMetadata",
    "options": "SessionOptions",
    "run_options": "RunOptions",
    "session": "InferenceSession",
    "sparse": "SparseTensor",
    "stream": "OrtSyncStream",
    "value": "OrtValue",
}
OURS = {
    "binding": "IoBinding",
    "environment": "Environment",
    "ep_device": "EpDevice",
    "info": "ValueInfo",
    "lane": "Lane",
    "metadata": "ModelMetadata",
    "options": "SessionOptions",
    "prepared": "PreparedRun",
    "run_options": "RunOptions",
    "session": "Session",
    "sparse": "SparseTensor",
    "stream": "SyncStream",
    "value": "Value",
}


def path_of(node: ast.expr, objects: dict[str, str]) -> str:
    """A name or an attribute as the package has it: `session.run` is ``InferenceSession.run``, `A().b` is ``A.b``."""
    if isinstance(node, ast.Attribute):
        return f"{path_of(node.value, objects)}.{node.attr}"
    if isinstance(node, ast.Call):
        return path_of(node.func, objects)
    assert isinstance(node, ast.Name), ast.unparse(node)
    return objects.get(node.id, node.id)


def names(cell: str, objects: dict[str, str]) -> dict[str, list[str] | None]:
    """The names in a cell but for numpy's, each with the keywords of its call; None where it is not called."""
    found: dict[str, list[str] | None] = {}
    for span in re.findall(r"`([^`]+)`", cell):
        # The nodes come from the outside in: a call before the name that it calls.
        for node in ast.walk(ast.parse(span, mode="eval")):
            if isinstance(node, ast.Call):
                found[path_of(node, objects)] = [keyword.arg or "" for keyword in node.keywords]
            elif isinstance(node, ast.Attribute):
                found.setdefault(path_of(node, objects), None)
    return {path: keywords for path, keywords in found.items() if not path.startswith("np.")}


def resolve(path: str, package: Any) -> Any:
    thing = package
    for part in path.removeprefix("zrt.").split("."):
        # A field without a default is no attribute of its dataclass.
        thing = None if part in getattr(thing, "__dataclass_fields__", ()) else getattr(thing, part)
    return thing


def has(path: str, package: Any) -> bool:
    try:
        resolve(path, package)
    except AttributeError:
        return False
    return True


def lacks(cell: str, package: Any, objects: dict[str, str]) -> list[str]:
    """The names in a cell that the package does not have or that are called wrongly, and keywords that they lack."""
    wrong = []
    for path, keywords in names(cell, objects).items():
        if not has(path, package):
            wrong.append(path)
            continue
        thing = resolve(path, package)
        if inspect.isroutine(thing) if keywords is None else not callable(thing):
            wrong.append(path)
        elif keywords:
            taken = inspect.signature(thing).parameters
            wrong += [f"{path}({keyword})" for keyword in keywords if keyword not in taken]
    return wrong


@pytest.mark.parametrize(("theirs", "ours"), ROWS)
def test_calls_of_both_sides_exist(theirs: str, ours: str) -> None:
    assert lacks(theirs, zrt.onnxruntime, THEIRS) == []
    assert ours == "None" or "`" in ours
    assert lacks(ours, zrt, OURS) == []


@pytest.mark.parametrize(
    "cell",
    [
        "`session.walk()`",
        "`session.run`",
        "`session.inputs()`",
        "`Session(file, color=1)`",
        "`zrt.nothing`",
        "`Nothing(1)`",
    ],
)
def test_a_call_that_does_not_exist_is_noticed(cell: str) -> None:
    assert len(lacks(cell, zrt, OURS)) == 1


@pytest.mark.official
def test_every_call_of_onnxruntime_has_a_row() -> None:
    package = importlib.import_module("onnxruntime")
    wanted = {name for name, thing in walk.public_names(package).items() if inspect.isroutine(thing)}
    for kind in THEIRS.values():
        members = walk.members(getattr(package, kind))
        wanted |= {f"{kind}.{member}" for member in members if not member.startswith("__")}
    shown = {path for theirs, _ in ROWS for path in names(theirs, THEIRS)}
    # tests/onnxruntime/test_names.py has the reasons for those that the drop-in lacks.
    assert {path for path in wanted - shown if has(path, zrt.onnxruntime)} == set()
