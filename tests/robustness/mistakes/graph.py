"""Graphs built and edited in memory."""

from collections.abc import Callable
from typing import Any

import numpy as np
import onnx
from onnx import helper

import zrt
from tests.robustness.bad import MODEL, PROVIDERS, SESSION_OPTIONS
from tests.robustness.vocabulary import (
    A_FACT,
    A_RESULT,
    NOTHING,
    QUIET,
    Bad,
    Kind,
    Take,
    World,
    closed,
    each,
    f32,
    unsupported,
    wrong_types,
)
from tests.support import models
from zrt.errors import (
    ArgumentError,
    DTypeError,
    Error,
    FileError,
    InvalidGraphError,
    InvalidProtobufError,
    ModelError,
    OutOfRangeError,
    ShapeError,
    UnsupportedError,
)

# Each row gets its own graph: x is an input, h is computed from x, z is the output.


def fresh() -> zrt.Graph:
    graph = zrt.Graph(name="net")
    graph.op("Neg", graph.input("x", "float32", ("n", 4)), outputs="h")
    graph.output(graph.op("Relu", graph.value("h"), outputs="z"), "float32", ("n", 4))
    return graph


def edited() -> zrt.GraphEdit:
    return zrt.edit(fresh().to_onnx(), QUIET)


def both(call: str, takes: str, bads: list[Bad], do: Callable[[World, zrt.Graph, Any], object]) -> list[Take]:
    """The rows for a graph, and again for an edited model."""
    return [
        (f"Graph.{call}", takes, bads, lambda w, bad: do(w, fresh(), bad)),
        (f"GraphEdit.{call}", takes, bads, lambda w, bad: do(w, edited(), bad)),
    ]


def cyclic() -> onnx.ModelProto:
    return models.parsed("(float[4] x) => (float[4] y) { [first] h = Add(x, y) [second] y = Neg(h) }")


def changed(change: Callable[[onnx.ModelProto], object]) -> onnx.ModelProto:
    model = fresh().to_onnx()
    change(model)
    return model


BROKEN = [
    Bad(Kind.WRONG_VALUE, lambda w: cyclic(), "cycle", "'first'", "'second'", error=ModelError),
    *(
        Bad(Kind.WRONG_VALUE, lambda w, change=change: changed(change), *words, error=ModelError)
        for change, *words in (
            (lambda model: model.graph.node[1].input.__setitem__(0, "q"), "'q'", "nothing produces", "Relu"),
            (lambda model: setattr(model.graph.output[0], "name", "q"), "output 'q'", "nothing produces"),
            (lambda model: model.graph.node[1].output.__setitem__(0, "h"), "'h' is defined twice", "Neg", "Relu"),
        )
    ),
]

NAMES = [
    Bad(Kind.WRONG_VALUE, lambda w: "", "empty"), Bad(Kind.WRONG_VALUE, lambda w: "a\0", "NUL"),
    Bad(Kind.WRONG_VALUE, lambda w: "\ud800", "UTF-8"), Bad(Kind.WRONG_TYPE, lambda w: 5, "5"),
    Bad(Kind.WRONG_TYPE, lambda w: [], "[]"),
]  # fmt: skip

NEW_NAMES = [
    *NAMES,
    Bad(Kind.WRONG_VALUE, lambda w: "x", "'x'", "taken by an input"),
    Bad(Kind.WRONG_VALUE, lambda w: "h", "'h'", "taken by an output of node", "Neg"),
]

TYPES = [
    Bad(Kind.WRONG_DTYPE, lambda w: ("nope", None), "'nope'"),
    Bad(Kind.WRONG_DTYPE, lambda w: ("M8[s]", None), "datetime64"),
    Bad(Kind.WRONG_DTYPE, lambda w: (zrt.ElementType.UNDEFINED, None), "not known"),
    Bad(Kind.WRONG_TYPE, lambda w: (object(), None), "dtype"),
    Bad(Kind.NEGATIVE, lambda w: ("float32", (-1,)), "-1", error=ShapeError),
    Bad(Kind.HUGE, lambda w: ("float32", (2**63,)), str(2**63), error=ShapeError),
    Bad(Kind.WRONG_TYPE, lambda w: ("float32", (1.5,)), "1.5", error=ShapeError),
    Bad(Kind.WRONG_TYPE, lambda w: ("float32", "n"), "'n'", error=ShapeError),
    Bad(Kind.WRONG_VALUE, lambda w: ("float32", ("a\0",)), "NUL"),
    Bad(Kind.WRONG_SHAPE, lambda w: (zrt.graph.TensorType("float32"), (3,)), "already has its shape"),
    Bad(Kind.WRONG_TYPE, lambda w: (zrt.graph.SequenceType("float32"), None), "'float32'"),
    Bad(Kind.WRONG_TYPE, lambda w: (None, (3,)), "type is missing"),
]

# Bad values for arguments that take a value of this graph.
VALUES = [
    Bad(Kind.WRONG_VALUE, lambda w: fresh().value("x"), "'x'", "another graph"),
    *wrong_types("GraphValue", "h"),
    Bad(Kind.WRONG_TYPE, lambda w: f32(4), "GraphValue", "ndarray"),
    Bad(Kind.WRONG_TYPE, lambda w: w.value(), "GraphValue", "Value"),
    Bad(Kind.WRONG_TYPE, lambda w: zrt.GraphValue(None, "x"), "GraphValue"),
]

ARRAYS = [
    Bad(Kind.WRONG_DTYPE, lambda w: np.array([object()]), "'w'", "objects"),
    Bad(Kind.WRONG_DTYPE, lambda w: np.zeros(3, "M8[s]"), "'w'", "datetime64"),
    Bad(Kind.WRONG_DTYPE, lambda w: np.zeros(3, [("f", "f4")]), "'w'", "dtype"),
    Bad(Kind.WRONG_VALUE, lambda w: np.array(["\ud800"], object), "'w'", "UTF-8"),
    *wrong_types("'w'", [1.0], None),
    Bad(Kind.CLOSED, lambda w: closed(w.value()), "Value is closed"),
]

BORROWED = [
    Bad(Kind.WRONG_SHAPE, lambda w: f32(31), "'w'", "124 bytes", "128", error=ArgumentError),
    Bad(Kind.WRONG_VALUE, lambda w: f32(8, 8).T[1:], "'w'", "contiguous"),
    Bad(Kind.WRONG_VALUE, lambda w: np.zeros(64, ">f4"), "'w'", "byte order"),
    Bad(Kind.HUGE, lambda w: np.broadcast_to(np.float32(0), (2**46, 4)), "'w'", "contiguous"),
    Bad(Kind.WRONG_DTYPE, lambda w: np.full(64, "a"), "'w'", "strings", error=UnsupportedError),
    Bad(Kind.WRONG_DTYPE, lambda w: np.zeros(64, "M8[s]"), "'w'", "datetime64"),
    Bad(Kind.WRONG_TYPE, lambda w: [1.0] * 64, "'w'", "list"),
    Bad(Kind.CLOSED, lambda w: closed(w.value()), "Value is closed"),
]

ATTRIBUTES = [
    Bad(Kind.WRONG_TYPE, lambda w: {"alpha": "a"}, "'Gemm'", "'alpha'", "a float", "str 'a'"),
    Bad(Kind.WRONG_TYPE, lambda w: {"alpha": [1.0]}, "'Gemm'", "'alpha'", "list"),
    Bad(Kind.WRONG_TYPE, lambda w: {"alpha": object()}, "'alpha'"),
    Bad(Kind.WRONG_VALUE, lambda w: {"alpha": 1e300}, "'alpha'", "1e+300"),
    Bad(Kind.WRONG_TYPE, lambda w: {"transA": 1.5}, "'transA'", "an int", "1.5"),
    Bad(Kind.WRONG_VALUE, lambda w: {"transA": 2**63}, "'transA'", str(2**63)),
    Bad(Kind.WRONG_TYPE, lambda w: {"alpha": helper.make_attribute("alpha", 1)}, "'alpha'", "AttributeProto", "INT"),
    Bad(Kind.UNKNOWN_NAME, lambda w: {"gamma": 1.0}, "'gamma'", "'alpha'", "'transB'"),
    Bad(Kind.WRONG_TYPE, lambda w: {5: 1.0}, "5"),
    *wrong_types("attributes", [1.0]),
]

OUTPUTS = [
    Bad(Kind.WRONG_VALUE, lambda w: 2, "'Relu'", "1 output", "2"),
    Bad(Kind.WRONG_VALUE, lambda w: 0, "'Relu'", "0", error=OutOfRangeError),
    Bad(Kind.HUGE, lambda w: 2**70, "'Relu'", str(2**70), error=OutOfRangeError),
    *wrong_types("outputs", 1.5, True, []),
    Bad(Kind.WRONG_TYPE, lambda w: [5], "outputs", "5"),
    *(bad for bad in NEW_NAMES if bad.error is ArgumentError),
]

PATHS = [
    Bad(Kind.MISSING_FILE, lambda w: w.folder / "no" / "net.onnx", "net.onnx", "cannot be written",
        error=FileError),
    Bad(Kind.DIRECTORY, lambda w: w.folder, "cannot be written", "directory", error=FileError),
    Bad(Kind.WRONG_VALUE, lambda w: f"{w.folder}/", "does not name a file"),
    Bad(Kind.WRONG_VALUE, lambda w: "a\0", "NUL"), *wrong_types("path", 5),
]  # fmt: skip

LOCATIONS = [
    *each(Kind.WRONG_VALUE, "location", "../weights", "net.onnx"),
    Bad(Kind.WRONG_VALUE, lambda w: "/weights", "location"),
    Bad(Kind.WRONG_VALUE, lambda w: "", "location"),
    *wrong_types("location", 5),
]

ENGINES = [
    Bad(Kind.WRONG_VALUE, lambda w: "ort", "engine", "'ort'", "'editor'"),
    Bad(Kind.WRONG_TYPE, lambda w: 5, "engine", "5", error=ArgumentError),
    Bad(Kind.WRONG_TYPE, lambda w: np.array(["onnx", "editor"]), "engine", "'editor'", error=ArgumentError),
]

# The onnx package reads these models first and raises.
READ_MODEL = [
    Bad(bad.kind, bad.make, error=ModelError) if bad.error is InvalidProtobufError else bad
    for bad in MODEL
    # These mistakes are found later, by ONNX Runtime or by `check`.
    if bad.error is not InvalidGraphError and "ir_version" not in bad.words and bad.kind != Kind.TRUNCATED
]

# External weights are read when the session is made.
OPENED_MODEL = [*(bad for bad in READ_MODEL if bad.error is not Error), *BROKEN]
OUTSIDE = [bad for bad in MODEL if bad.error is Error and bad.kind in (Kind.MISSING_FILE, Kind.TRUNCATED)]


def without_output() -> zrt.Graph:
    graph = fresh()
    graph.remove_output("z")
    return graph


def unknown_to_ort(graph: zrt.Graph) -> zrt.Graph:
    graph.import_opset("com.microsoft", 1)
    graph.output(graph.op("Nothing", graph.value("h"), domain="com.microsoft"), "float32")
    return graph


def without_input(graph: zrt.Graph) -> zrt.Graph:
    graph.remove_input("x")
    return graph


def with_branch(graph: zrt.Graph) -> zrt.Graph:
    """A graph with subgraphs, which the model editor does not support: its session is made from bytes."""
    for name in ("then", "else"):
        branch = graph.subgraph(name)
        branch.output(branch.op("Neg", graph.value("h")))
        setattr(graph, f"_{name}", branch)
    graph.op("If", graph.input("c", "bool", ()), then_branch=graph._then, else_branch=graph._else)
    return graph


def sealed() -> zrt.Graph:
    return with_branch(fresh())._then


def gemm(graph: zrt.Graph, **attributes: Any) -> object:
    return graph.op("Gemm", graph.value("h"), graph.value("x"), **attributes)


TAKES = [
    ("Graph.__init__", "name", NAMES, lambda w, bad: zrt.Graph(name=bad)),
    ("Graph.from_onnx", "model", [*READ_MODEL, BROKEN[3]], lambda w, bad: zrt.Graph.from_onnx(bad)),
    ("GraphEdit.from_onnx", "model", [*READ_MODEL, BROKEN[3]], lambda w, bad: zrt.GraphEdit.from_onnx(bad)),
    ("edit", "model", OPENED_MODEL, lambda w, bad: zrt.edit(bad, QUIET)),
    ("edit", "options", SESSION_OPTIONS, lambda w, bad: zrt.edit(w.model, bad)),
    ("edit", "providers", PROVIDERS, lambda w, bad: zrt.edit(w.model, QUIET, bad)),
    ("GraphEdit.__init__", "model", OPENED_MODEL, lambda w, bad: zrt.GraphEdit(bad, QUIET)),
    ("Graph.check", "model", BROKEN[:3], lambda w, bad: zrt.Graph.from_onnx(bad).check()),
    ("Graph.to_onnx", "model", BROKEN[:3], lambda w, bad: zrt.Graph.from_onnx(bad).to_onnx()),
    ("Graph.to_bytes", "model", BROKEN[:3], lambda w, bad: zrt.Graph.from_onnx(bad).to_bytes()),
    ("Graph.engine", "model", BROKEN[:3], lambda w, bad: zrt.Graph.from_onnx(bad).engine),
    ("Graph.session", "model", BROKEN[:3], lambda w, bad: zrt.Graph.from_onnx(bad).session(QUIET)),
    ("Graph.session", "options", SESSION_OPTIONS, lambda w, bad: fresh().session(bad)),
    ("Graph.session", "providers", PROVIDERS, lambda w, bad: fresh().session(QUIET, bad)),
    ("GraphEdit.session", "options", SESSION_OPTIONS, lambda w, bad: edited().session(bad)),
    ("GraphEdit.finalize", "weights", OUTSIDE, lambda w, bad: zrt.edit(bad, QUIET).finalize()),
    ("GraphEdit.finalize", "engine", ENGINES, lambda w, bad: edited().finalize(engine=bad)),
    ("GraphEdit.opset", "domain", [
        Bad(Kind.UNKNOWN_NAME, lambda w: "no.such", "'no.such'"),
        Bad(Kind.WRONG_VALUE, lambda w: "a\0", "NUL"),
        *wrong_types("domain", 5),
    ], lambda w, bad: edited().opset(bad)),
    *both("session", "engine", ENGINES, lambda w, graph, bad: graph.session(QUIET, engine=bad)),
    *both("input", "name", NEW_NAMES, lambda w, graph, bad: graph.input(bad, "float32")),
    *both("input", "type", TYPES, lambda w, graph, bad: graph.input("w", *bad)),
    *both("initializer", "name", NEW_NAMES, lambda w, graph, bad: graph.initializer(bad, f32(4))),
    *both("initializer", "array", ARRAYS, lambda w, graph, bad: graph.initializer("w", bad)),
    *both("initializer", "borrowed", BORROWED, lambda w, graph, bad: graph.initializer("w", bad, borrow=True)),
    *both("op", "op_type", NAMES, lambda w, graph, bad: graph.op(bad, graph.value("h"))),
    *both("op", "inputs", VALUES, lambda w, graph, bad: graph.op("Relu", bad)),
    *both("op", "attributes", ATTRIBUTES, lambda w, graph, bad: gemm(graph, attributes=bad)),
    *both("op", "outputs", OUTPUTS, lambda w, graph, bad: graph.op("Relu", graph.value("h"), outputs=bad)),
    *both("op", "name", NAMES, lambda w, graph, bad: graph.op("Relu", graph.value("h"), name=bad)),
    *both("output", "value", VALUES, lambda w, graph, bad: graph.output(bad, "float32")),
    *both("output", "type", TYPES, lambda w, graph, bad: graph.output(graph.value("h"), *bad)),
    *both("value_info", "value", VALUES, lambda w, graph, bad: graph.value_info(bad, "float32")),
    *both("value_info", "type", TYPES, lambda w, graph, bad: graph.value_info(graph.value("h"), *bad)),
    *both("subgraph", "name", NAMES, lambda w, graph, bad: graph.subgraph(bad)),
    *both("save", "path", PATHS, lambda w, graph, bad: graph.save(bad)),
    *both("save", "location", LOCATIONS, lambda w, graph, bad: graph.save(
        w.folder / "net.onnx", external_data=True, location=bad
    )),
]  # fmt: skip


def on(make: Callable[[], zrt.Graph], bad: Bad) -> Bad:
    """The mistake with a graph that this function makes."""
    return Bad(bad.kind, lambda w: bad.make(make()), *bad.words, error=bad.error)


# The mistakes that `Graph` and `GraphEdit` share; each gets a graph of its own.
IN_BOTH = {
    "engine": [Bad(Kind.MISSING_INPUT, lambda graph: without_input(graph).engine, "'x'", "Neg")],
    "to_onnx": [Bad(Kind.MISSING_INPUT, lambda graph: without_input(graph).to_onnx(), "'x'", "Neg")],
    "to_bytes": [Bad(Kind.MISSING_INPUT, lambda graph: without_input(graph).to_bytes(), "'x'", "Neg")],
    "check": [Bad(Kind.MISSING_INPUT, lambda graph: without_input(graph).check(), "'x'", "Neg")],
    "session": [Bad(Kind.MISSING_INPUT, lambda graph: without_input(graph).session(), "'x'", "Neg")],
    "input": [Bad(Kind.WRONG_TYPE, lambda graph: graph.input("w"), "'w'", "type is missing")],
    "op": [
        Bad(Kind.UNKNOWN_NAME, lambda graph: graph.op("Rleu"), "'Rleu'", "'Relu'"),
        Bad(Kind.UNKNOWN_NAME, lambda graph: graph.op("RMSNormalization"), "opset 23"),
        Bad(Kind.WRONG_VALUE, lambda graph: graph.op("Upsample"), "'Upsample'", "opset 10"),
        Bad(Kind.MISSING_INPUT, lambda graph: graph.op("Relu"), "'Relu'", "1 input", "got 0", error=ArgumentError),
        Bad(Kind.MISSING_INPUT, lambda graph: graph.op("Relu", None), "'Relu'", "left out", error=ArgumentError),
        Bad(Kind.MISSING_INPUT, lambda graph: graph.op("Cast", graph.value("h")), "'Cast'", "'to'", error=DTypeError),
        Bad(Kind.UNKNOWN_NAME, lambda graph: graph.op("A", domain="no.such"), "'no.such'", "import_opset",
            error=ArgumentError),
        Bad(Kind.WRONG_VALUE,
            lambda graph: graph.op("Relu", graph.value("h"), name=fresh().to_onnx().graph.node[0].name), "'Neg_0'"),
        Bad(Kind.WRONG_VALUE, lambda graph: graph.op("If", graph.value("x"), then_branch=fresh(), else_branch=fresh()),
            "'then_branch'", "subgraph()"),
    ],
    "output": [
        Bad(Kind.WRONG_VALUE, lambda graph: graph.output(graph.value("z")), "'z'", "already"),
        Bad(Kind.WRONG_TYPE, lambda graph: graph.output(None), "None"),
    ],
    "value": [
        Bad(Kind.UNKNOWN_NAME, lambda graph: graph.value("q"), "'net'", "'q'"),
        Bad(Kind.WRONG_TYPE, lambda graph: graph.value(5), "5"),
    ],
    "remove_input": [
        Bad(Kind.UNKNOWN_NAME, lambda graph: graph.remove_input("q"), "'q'", "'x'"),
        Bad(Kind.WRONG_TYPE, lambda graph: graph.remove_input(5), "5"),
    ],
    "remove_output": [Bad(Kind.UNKNOWN_NAME, lambda graph: graph.remove_output("x"), "'x'", "'z'")],
    "import_opset": [
        Bad(Kind.WRONG_VALUE, lambda graph: graph.import_opset("", 20), "21", "20"),
        Bad(Kind.WRONG_TYPE, lambda graph: graph.import_opset("a", "1"), "'1'"),
    ],
    "describe": [
        Bad(Kind.WRONG_TYPE, lambda graph: graph.describe(domain=5), "domain"),
        Bad(Kind.WRONG_VALUE, lambda graph: graph.describe(version=-1), "version", "-1"),
        Bad(Kind.WRONG_TYPE, lambda graph: graph.describe(custom_metadata_map={"a": 1}), "custom_metadata_map"),
    ],
    "subgraph": [Bad(Kind.WRONG_VALUE, lambda graph: graph.subgraph("s").save("s"), "'s'", "subgraph")],
}  # fmt: skip


SINGLE = {
    "Graph.__init__": [
        Bad(Kind.MISSING_INPUT, lambda w: zrt.Graph({"com.microsoft": 1}), "opset", "''", error=ArgumentError),
        Bad(Kind.WRONG_VALUE, lambda w: zrt.Graph(0), "opset", "0"),
        Bad(Kind.WRONG_TYPE, lambda w: zrt.Graph("21"), "opset", "'21'"),
    ],
    "Graph.session": [
        Bad(Kind.MISSING_INPUT, lambda w: without_output().session(), "'net'", "no outputs"),
        Bad(Kind.UNKNOWN_NAME, lambda w: unknown_to_ort(fresh()).session(QUIET), "'net'", "Nothing", error=Error),
        unsupported(lambda w: with_branch(fresh()).session(QUIET, engine="editor"), "then_branch", "GRAPH"),
    ],
    "Graph.check": [Bad(Kind.MISSING_INPUT, lambda w: without_output().check(), "'net'", "no outputs")],
    "GraphEdit.finalize": [
        Bad(Kind.UNKNOWN_NAME, lambda w: unknown_to_ort(edited()).finalize(), "Nothing", error=Error),
        Bad(Kind.MISSING_INPUT, lambda w: without_input(edited()).finalize(), "'x'", "Neg"),
    ],
    "edit": [Bad(Kind.WRONG_TYPE, lambda w: zrt.edit(w.model, QUIET, external_data_dir=5), "external_data_dir")],
    "Graph.op": [Bad(Kind.WRONG_VALUE, lambda w: sealed().op("Neg"), "'then'", "cannot be changed")],
    "Graph.initializer": [
        unsupported(lambda w: fresh().subgraph("s").initializer("w", f32(64), borrow=True), "'w'", "subgraph")
    ],
}

for _name, _make in (("Graph", fresh), ("GraphEdit", edited)):
    for _call, _bads in IN_BOTH.items():
        SINGLE.setdefault(f"{_name}.{_call}", []).extend(on(_make, bad) for bad in _bads)

CLOSED_SELF = {
    "GraphEdit.input": lambda w, it: it.input("w", "float32"),
    "GraphEdit.initializer": lambda w, it: it.initializer("w", f32(4)),
    "GraphEdit.op": lambda w, it: it.op("Relu", it.value("h")),
    "GraphEdit.output": lambda w, it: it.output(it.value("h")),
    "GraphEdit.value_info": lambda w, it: it.value_info(it.value("h"), "float32"),
    "GraphEdit.remove_input": lambda w, it: it.remove_input("x"),
    "GraphEdit.remove_output": lambda w, it: it.remove_output("z"),
    "GraphEdit.subgraph": lambda w, it: it.subgraph("s"),
    "GraphEdit.import_opset": lambda w, it: it.import_opset("com.microsoft", 1),
    "GraphEdit.describe": lambda w, it: it.describe(version=1),
}

CLOSED_ALONE = {"GraphEdit": "opset finalize"}

CLOSABLE = {"GraphEdit": lambda w: edited()}

CANNOT_FAIL = {
    NOTHING: """
        Graph.inputs Graph.outputs Graph.name Graph.opsets Graph.metadata GraphEdit.inputs GraphEdit.outputs
        GraphEdit.name GraphEdit.opsets GraphEdit.metadata
    """,
    A_FACT: "GraphValue.type",
    A_RESULT: "GraphValue.__init__",
}
