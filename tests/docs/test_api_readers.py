"""`docs/api.md` says which readers of the C API answer for objects of the model editor, and with what."""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from zrt._native import ffi, lib, status
from zrt._native.cdata import new_array, strings
from zrt._native.library import api
from zrt.errors import OrtError
from zrt.graph.editor import editor_api, type_info
from zrt.graph.types import TensorType

PAGE = Path(__file__).parents[2] / "docs" / "api.md"
READERS = re.findall(r"^\| `(\w+)` \| inside a provider; of (.+?) \|$", PAGE.read_text("utf-8"), re.MULTILINE)


class Editor:
    """A graph of the model editor with one node: Softmax(x) -> y, axis 3."""

    def __init__(self) -> None:
        editor = editor_api()
        self.type = type_info(TensorType("float32", ("n", 4)))
        self.input, self.output = (
            status.make(editor.CreateValueInfo, "OrtValueInfo", name, self.type.pointer) for name in (b"x", b"y")
        )
        self.graph = status.make(editor.CreateGraph, "OrtGraph")
        status.check(editor.SetGraphInputs(self.graph, new_array("OrtValueInfo *", [self.input]), 1))
        status.check(editor.SetGraphOutputs(self.graph, new_array("OrtValueInfo *", [self.output]), 1))
        axis = ffi.new("int64_t *", 3)
        # The node takes over its own attribute; the other one stays to be read.
        made, self.attribute = (
            status.make(api().CreateOpAttr, "OrtOpAttr", b"axis", axis, 1, lib.ORT_OP_ATTR_INT) for _ in range(2)
        )
        names = strings(["x"]), strings(["y"])
        attributes = new_array("OrtOpAttr *", [made])
        create = editor.CreateNode
        self.node = status.make(create, "OrtNode", b"Softmax", b"", b"node", names[0], 1, names[1], 1, attributes, 1)
        status.check(editor.AddNodeToGraph(self.graph, self.node))


@pytest.fixture(scope="module")
def editor() -> Editor:
    return Editor()


def text(function: Any, thing: Any) -> str:
    return status.string(status.fetch(function, "const char *", thing))


def count(function: Any, thing: Any) -> int:
    return int(status.fetch(function, "size_t", thing))


ANSWERS: dict[str, Callable[[Any, Editor], bool]] = {
    "GetValueInfoName": lambda read, made: text(read, made.input) == "x",
    "GetValueInfoTypeInfo": lambda read, made: bool(status.fetch(read, "const OrtTypeInfo *", made.input)),
    "Graph_GetName": lambda read, made: isinstance(text(read, made.graph), str),
    "Graph_GetModelPath": lambda read, made: bool(status.fetch(read, "const char *", made.graph)),
    "Graph_GetOnnxIRVersion": lambda read, made: status.fetch(read, "int64_t", made.graph) > 0,
    "Graph_GetNumInputs": lambda read, made: count(read, made.graph) == 1,
    "Graph_GetNumOutputs": lambda read, made: count(read, made.graph) == 1,
    "Graph_GetNumInitializers": lambda read, made: count(read, made.graph) == 0,
    "Graph_GetNumNodes": lambda read, made: count(read, made.graph) == 1,
    "Node_GetId": lambda read, made: count(read, made.node) == 0,
    "Node_GetName": lambda read, made: text(read, made.node) == "node",
    "Node_GetOperatorType": lambda read, made: text(read, made.node) == "Softmax",
    "Node_GetDomain": lambda read, made: text(read, made.node) == "",
    "Node_GetNumInputs": lambda read, made: count(read, made.node) == 1,
    "Node_GetNumOutputs": lambda read, made: count(read, made.node) == 1,
    "Node_GetNumAttributes": lambda read, made: count(read, made.node) == 1,
    "OpAttr_GetName": lambda read, made: text(read, made.attribute) == "axis",
    "Graph_GetModelMetadata": lambda read, made: bool(status.make(read, "OrtModelMetadata", made.graph)),
}
REFUSED = ("Graph_GetNumOperatorSets", "Graph_GetParentNode", "Node_GetSinceVersion", "Node_GetNumImplicitInputs")


def test_the_page_lists_the_readers_that_answer() -> None:
    assert [name for name, _ in READERS] == list(ANSWERS)


@pytest.mark.parametrize("name", ANSWERS)
def test_readers_answer(editor: Editor, name: str) -> None:
    assert ANSWERS[name](getattr(api(), name), editor)


@pytest.mark.parametrize("name", REFUSED)
def test_other_readers_refuse(editor: Editor, name: str) -> None:
    thing = editor.graph if name.startswith("Graph") else editor.node
    kind = {"Graph_GetParentNode": "const OrtNode *", "Node_GetSinceVersion": "int"}.get(name, "size_t")
    with pytest.raises(OrtError):
        status.fetch(getattr(api(), name), kind, thing)
