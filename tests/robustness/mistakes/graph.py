"""Graphs built and edited in memory."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import onnx
from onnx import helper

import zrt
from tests.robustness.bad import MODEL, PROVIDERS, SESSION_OPTIONS
from tests.robustness.vocabulary import A_FACT, A_RESULT, NOTHING, QUIET, Bad, Kind, Single, Take, World, closed, f32
from tests.support import models
from zrt.errors import (
    ArgumentError,
    ClosedError,
    DTypeError,
    Error,
    InvalidGraphError,
    InvalidProtobufError,
    ModelError,
    OutOfRangeError,
    ShapeError,
    UnknownNameError,
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
    graph = helper.make_graph(
        [helper.make_node("Add", ["x", "y"], ["h"], "first"), helper.make_node("Neg", ["h"], ["y"], "second")],
        "net",
        [models.tensor("x", models.FLOAT, [4])],
        [models.tensor("y", models.FLOAT, [4])],
    )
    return helper.make_model(graph, ir_version=10, opset_imports=[helper.make_opsetid("", 21)])


def changed(change: Callable[[onnx.ModelProto], object]) -> onnx.ModelProto:
    model = fresh().to_onnx()
    change(model)
    return model


BROKEN = [
    Bad(Kind.WRONG_VALUE, lambda w: cyclic(), ModelError, "cycle", "'first'", "'second'"),
    Bad(
        Kind.WRONG_VALUE,
        lambda w: changed(lambda model: model.graph.node[1].input.__setitem__(0, "q")),
        ModelError,
        "'q'",
        "nothing produces",
        "Relu",
    ),
    Bad(
        Kind.WRONG_VALUE,
        lambda w: changed(lambda model: setattr(model.graph.output[0], "name", "q")),
        ModelError,
        "output 'q'",
        "nothing produces",
    ),
    Bad(
        Kind.WRONG_VALUE,
        lambda w: changed(lambda model: model.graph.node[1].output.__setitem__(0, "h")),
        ModelError,
        "'h' is defined twice",
        "Neg",
        "Relu",
    ),
]

NAMES = [
    Bad(Kind.WRONG_VALUE, lambda w: "", ArgumentError, "empty"),
    Bad(Kind.WRONG_VALUE, lambda w: "a\0", ArgumentError, "NUL"),
    Bad(Kind.WRONG_VALUE, lambda w: "\ud800", ArgumentError, "UTF-8"),
    Bad(Kind.WRONG_TYPE, lambda w: 5, DTypeError, "5"),
    Bad(Kind.WRONG_TYPE, lambda w: [], DTypeError, "[]"),
]

NEW_NAMES = [
    *NAMES,
    Bad(Kind.WRONG_VALUE, lambda w: "x", ArgumentError, "'x'", "taken by an input"),
    Bad(Kind.WRONG_VALUE, lambda w: "h", ArgumentError, "'h'", "taken by an output of node", "Neg"),
]

TYPES = [
    Bad(Kind.WRONG_DTYPE, lambda w: ("nope", None), DTypeError, "'nope'"),
    Bad(Kind.WRONG_DTYPE, lambda w: ("M8[s]", None), DTypeError, "datetime64"),
    Bad(Kind.WRONG_DTYPE, lambda w: (zrt.ElementType.UNDEFINED, None), DTypeError, "not known"),
    Bad(Kind.WRONG_TYPE, lambda w: (object(), None), DTypeError, "dtype"),
    Bad(Kind.NEGATIVE, lambda w: ("float32", (-1,)), ShapeError, "-1"),
    Bad(Kind.HUGE, lambda w: ("float32", (2**63,)), ShapeError, str(2**63)),
    Bad(Kind.WRONG_TYPE, lambda w: ("float32", (1.5,)), ShapeError, "1.5"),
    Bad(Kind.WRONG_TYPE, lambda w: ("float32", "n"), ShapeError, "'n'"),
    Bad(Kind.WRONG_VALUE, lambda w: ("float32", ("a\0",)), ArgumentError, "NUL"),
    Bad(Kind.WRONG_SHAPE, lambda w: (zrt.graph.TensorType("float32"), (3,)), ShapeError, "already has its shape"),
    Bad(Kind.WRONG_TYPE, lambda w: (zrt.graph.SequenceType("float32"), None), DTypeError, "'float32'"),
    Bad(Kind.WRONG_TYPE, lambda w: (None, (3,)), DTypeError, "type is missing"),
]

# Bad values for arguments that take a value of this graph.
VALUES = [
    Bad(Kind.WRONG_VALUE, lambda w: fresh().value("x"), ArgumentError, "'x'", "another graph"),
    Bad(Kind.WRONG_TYPE, lambda w: "h", DTypeError, "GraphValue", "'h'"),
    Bad(Kind.WRONG_TYPE, lambda w: f32(4), DTypeError, "GraphValue", "ndarray"),
    Bad(Kind.WRONG_TYPE, lambda w: w.value(), DTypeError, "GraphValue", "Value"),
]

ARRAYS = [
    Bad(Kind.WRONG_DTYPE, lambda w: np.array([object()]), DTypeError, "'w'", "objects"),
    Bad(Kind.WRONG_DTYPE, lambda w: np.zeros(3, "M8[s]"), DTypeError, "'w'", "datetime64"),
    Bad(Kind.WRONG_DTYPE, lambda w: np.zeros(3, [("f", "f4")]), DTypeError, "'w'", "dtype"),
    Bad(Kind.WRONG_VALUE, lambda w: np.array(["\ud800"], object), ArgumentError, "'w'", "UTF-8"),
    Bad(Kind.WRONG_TYPE, lambda w: [1.0], DTypeError, "'w'", "list"),
    Bad(Kind.WRONG_TYPE, lambda w: None, DTypeError, "'w'", "NoneType"),
    Bad(Kind.CLOSED, lambda w: closed(w.value()), ClosedError, "Value is closed"),
]

BORROWED = [
    Bad(Kind.WRONG_SHAPE, lambda w: f32(31), ArgumentError, "'w'", "124 bytes", "128"),
    Bad(Kind.WRONG_VALUE, lambda w: f32(8, 8).T[1:], ArgumentError, "'w'", "contiguous"),
    Bad(Kind.WRONG_VALUE, lambda w: np.zeros(64, ">f4"), ArgumentError, "'w'", "byte order"),
    Bad(Kind.HUGE, lambda w: np.broadcast_to(np.float32(0), (2**46, 4)), ArgumentError, "'w'", "contiguous"),
    Bad(Kind.WRONG_DTYPE, lambda w: np.full(64, "a"), UnsupportedError, "'w'", "strings"),
    Bad(Kind.WRONG_DTYPE, lambda w: np.zeros(64, "M8[s]"), DTypeError, "'w'", "datetime64"),
    Bad(Kind.WRONG_TYPE, lambda w: [1.0] * 64, DTypeError, "'w'", "list"),
    Bad(Kind.CLOSED, lambda w: closed(w.value()), ClosedError, "Value is closed"),
]

ATTRIBUTES = [
    Bad(Kind.WRONG_TYPE, lambda w: {"alpha": "a"}, DTypeError, "'Gemm'", "'alpha'", "a float", "str 'a'"),
    Bad(Kind.WRONG_TYPE, lambda w: {"alpha": [1.0]}, DTypeError, "'Gemm'", "'alpha'", "list"),
    Bad(Kind.WRONG_TYPE, lambda w: {"alpha": object()}, DTypeError, "'alpha'"),
    Bad(Kind.WRONG_VALUE, lambda w: {"alpha": 1e300}, ArgumentError, "'alpha'", "1e+300"),
    Bad(Kind.WRONG_TYPE, lambda w: {"transA": 1.5}, DTypeError, "'transA'", "an int", "1.5"),
    Bad(Kind.WRONG_VALUE, lambda w: {"transA": 2**63}, ArgumentError, "'transA'", str(2**63)),
    Bad(
        Kind.WRONG_TYPE,
        lambda w: {"alpha": helper.make_attribute("alpha", 1)},
        DTypeError,
        "'alpha'",
        "AttributeProto",
        "INT",
    ),
    Bad(Kind.UNKNOWN_NAME, lambda w: {"gamma": 1.0}, UnknownNameError, "'gamma'", "'alpha'", "'transB'"),
    Bad(Kind.WRONG_TYPE, lambda w: {5: 1.0}, DTypeError, "5"),
    Bad(Kind.WRONG_TYPE, lambda w: [1.0], DTypeError, "attributes", "list"),
]

OUTPUTS = [
    Bad(Kind.WRONG_VALUE, lambda w: 2, ArgumentError, "'Relu'", "1 output", "2"),
    Bad(Kind.WRONG_VALUE, lambda w: 0, OutOfRangeError, "'Relu'", "0"),
    Bad(Kind.HUGE, lambda w: 2**70, OutOfRangeError, "'Relu'", str(2**70)),
    Bad(Kind.WRONG_TYPE, lambda w: 1.5, DTypeError, "outputs", "1.5"),
    Bad(Kind.WRONG_TYPE, lambda w: True, DTypeError, "outputs", "True"),
    Bad(Kind.WRONG_TYPE, lambda w: [], DTypeError, "outputs", "[]"),
    Bad(Kind.WRONG_TYPE, lambda w: [5], DTypeError, "outputs", "5"),
    *(bad for bad in NEW_NAMES if bad.error is ArgumentError),
]

PATHS = [
    Bad(Kind.MISSING_FILE, lambda w: w.folder / "no" / "net.onnx", ArgumentError, "net.onnx", "cannot be written"),
    Bad(Kind.DIRECTORY, lambda w: w.folder, ArgumentError, "cannot be written", "directory"),
    Bad(Kind.WRONG_VALUE, lambda w: f"{w.folder}/", ArgumentError, "does not name a file"),
    Bad(Kind.WRONG_VALUE, lambda w: "a\0", ArgumentError, "NUL"),
    Bad(Kind.WRONG_TYPE, lambda w: 5, DTypeError, "path", "int"),
]

LOCATIONS = [
    Bad(Kind.WRONG_VALUE, lambda w: "../weights", ArgumentError, "location", "'../weights'"),
    Bad(Kind.WRONG_VALUE, lambda w: "/weights", ArgumentError, "location"),
    Bad(Kind.WRONG_VALUE, lambda w: "", ArgumentError, "location"),
    Bad(Kind.WRONG_VALUE, lambda w: "net.onnx", ArgumentError, "location", "'net.onnx'"),
    Bad(Kind.WRONG_TYPE, lambda w: 5, DTypeError, "location", "5"),
]

ENGINES = [
    Bad(Kind.WRONG_VALUE, lambda w: "ort", ArgumentError, "engine", "'ort'", "'editor'"),
    Bad(Kind.WRONG_TYPE, lambda w: 5, ArgumentError, "engine", "5"),
]

# The onnx package reads these models first and raises.
READ_MODEL = [
    Bad(bad.kind, bad.make, ModelError) if bad.error is InvalidProtobufError else bad
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


TAKES: list[Take] = [
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
        Bad(Kind.UNKNOWN_NAME, lambda w: "no.such", UnknownNameError, "'no.such'"),
        Bad(Kind.WRONG_VALUE, lambda w: "a\0", ArgumentError, "NUL"),
        Bad(Kind.WRONG_TYPE, lambda w: 5, DTypeError, "domain", "5"),
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


def single(
    call: str, kind: Kind, do: Callable[[World, zrt.Graph], object], error: type[Error], *words: str
) -> list[Single]:
    """The row for a graph, and again for an edited model."""
    return [
        (f"Graph.{call}", kind, lambda w: do(w, fresh()), error, words),
        (f"GraphEdit.{call}", kind, lambda w: do(w, edited()), error, words),
    ]


SINGLE: list[Single] = [
    ("Graph.__init__", Kind.MISSING_INPUT, lambda w: zrt.Graph({"com.microsoft": 1}), ArgumentError, ("opset", "''")),
    ("Graph.__init__", Kind.WRONG_VALUE, lambda w: zrt.Graph(0), ArgumentError, ("opset", "0")),
    ("Graph.__init__", Kind.WRONG_TYPE, lambda w: zrt.Graph("21"), DTypeError, ("opset", "'21'")),
    ("Graph.session", Kind.MISSING_INPUT, lambda w: without_output().session(), ModelError, ("'net'", "no outputs")),
    ("Graph.check", Kind.MISSING_INPUT, lambda w: without_output().check(), ModelError, ("'net'", "no outputs")),
    (
        "Graph.session",
        Kind.UNKNOWN_NAME,
        lambda w: unknown_to_ort(fresh()).session(QUIET),
        Error,
        ("'net'", "Nothing"),
    ),
    (
        "Graph.session",
        Kind.WRONG_VALUE,
        lambda w: with_branch(fresh()).session(QUIET, engine="editor"),
        UnsupportedError,
        ("then_branch", "GRAPH"),
    ),
    ("GraphEdit.finalize", Kind.UNKNOWN_NAME, lambda w: unknown_to_ort(edited()).finalize(), Error, ("Nothing",)),
    (
        "GraphEdit.finalize",
        Kind.MISSING_INPUT,
        lambda w: without_input(edited()).finalize(),
        ModelError,
        ("'x'", "Neg"),
    ),
    (
        "edit",
        Kind.WRONG_TYPE,
        lambda w: zrt.edit(w.model, QUIET, external_data_dir=5),
        DTypeError,
        ("external_data_dir",),
    ),
    *single("engine", Kind.MISSING_INPUT, lambda w, graph: without_input(graph).engine, ModelError, "'x'", "Neg"),
    *single("to_onnx", Kind.MISSING_INPUT, lambda w, graph: without_input(graph).to_onnx(), ModelError, "'x'", "Neg"),
    *single("to_bytes", Kind.MISSING_INPUT, lambda w, graph: without_input(graph).to_bytes(), ModelError, "'x'", "Neg"),
    *single("check", Kind.MISSING_INPUT, lambda w, graph: without_input(graph).check(), ModelError, "'x'", "Neg"),
    *single("session", Kind.MISSING_INPUT, lambda w, graph: without_input(graph).session(), ModelError, "'x'", "Neg"),
    *single("input", Kind.WRONG_TYPE, lambda w, graph: graph.input("w"), DTypeError, "'w'", "type is missing"),
    *single("op", Kind.UNKNOWN_NAME, lambda w, graph: graph.op("Rleu"), UnknownNameError, "'Rleu'", "'Relu'"),
    *single("op", Kind.UNKNOWN_NAME, lambda w, graph: graph.op("RMSNormalization"), UnknownNameError, "opset 23"),
    *single("op", Kind.WRONG_VALUE, lambda w, graph: graph.op("Upsample"), ArgumentError, "'Upsample'", "opset 10"),
    *single("op", Kind.MISSING_INPUT, lambda w, graph: graph.op("Relu"), ArgumentError, "'Relu'", "1 input", "got 0"),
    *single("op", Kind.MISSING_INPUT, lambda w, graph: graph.op("Relu", None), ArgumentError, "'Relu'", "left out"),
    *single(
        "op", Kind.MISSING_INPUT, lambda w, graph: graph.op("Cast", graph.value("h")), DTypeError, "'Cast'", "'to'"
    ),
    *single(
        "op",
        Kind.UNKNOWN_NAME,
        lambda w, graph: graph.op("A", domain="no.such"),
        ArgumentError,
        "'no.such'",
        "import_opset",
    ),
    *single(
        "op",
        Kind.WRONG_VALUE,
        lambda w, graph: graph.op("Relu", graph.value("h"), name=fresh().to_onnx().graph.node[0].name),
        ArgumentError,
        "'Neg_0'",
    ),
    *single(
        "op",
        Kind.WRONG_VALUE,
        lambda w, graph: graph.op("If", graph.value("x"), then_branch=fresh(), else_branch=fresh()),
        ArgumentError,
        "'then_branch'",
        "subgraph()",
    ),
    *single(
        "output", Kind.WRONG_VALUE, lambda w, graph: graph.output(graph.value("z")), ArgumentError, "'z'", "already"
    ),
    *single("output", Kind.WRONG_TYPE, lambda w, graph: graph.output(None), DTypeError, "None"),
    *single("value", Kind.UNKNOWN_NAME, lambda w, graph: graph.value("q"), UnknownNameError, "'net'", "'q'"),
    *single("value", Kind.WRONG_TYPE, lambda w, graph: graph.value(5), DTypeError, "5"),
    *single(
        "remove_input", Kind.UNKNOWN_NAME, lambda w, graph: graph.remove_input("q"), UnknownNameError, "'q'", "'x'"
    ),
    *single("remove_input", Kind.WRONG_TYPE, lambda w, graph: graph.remove_input(5), DTypeError, "5"),
    *single(
        "remove_output", Kind.UNKNOWN_NAME, lambda w, graph: graph.remove_output("x"), UnknownNameError, "'x'", "'z'"
    ),
    *single("import_opset", Kind.WRONG_VALUE, lambda w, graph: graph.import_opset("", 20), ArgumentError, "21", "20"),
    *single("import_opset", Kind.WRONG_TYPE, lambda w, graph: graph.import_opset("a", "1"), DTypeError, "'1'"),
    *single("describe", Kind.WRONG_TYPE, lambda w, graph: graph.describe(domain=5), DTypeError, "domain"),
    *single("describe", Kind.WRONG_VALUE, lambda w, graph: graph.describe(version=-1), ArgumentError, "version", "-1"),
    *single(
        "describe",
        Kind.WRONG_TYPE,
        lambda w, graph: graph.describe(custom_metadata_map={"a": 1}),
        DTypeError,
        "custom_metadata_map",
    ),
    *single(
        "subgraph", Kind.WRONG_VALUE, lambda w, graph: graph.subgraph("s").save("s"), ArgumentError, "'s'", "subgraph"
    ),
    ("Graph.op", Kind.WRONG_VALUE, lambda w: sealed().op("Neg"), ArgumentError, ("'then'", "cannot be changed")),
    (
        "Graph.initializer",
        Kind.WRONG_VALUE,
        lambda w: fresh().subgraph("s").initializer("w", f32(64), borrow=True),
        UnsupportedError,
        ("'w'", "subgraph"),
    ),
]

CLOSED_SELF: dict[str, Callable[[World, Any], object]] = {
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
    "GraphEdit.opset": lambda w, it: it.opset(),
    "GraphEdit.finalize": lambda w, it: it.finalize(),
    "GraphEdit.__enter__": lambda w, it: it.__enter__(),
}

CLOSABLE: dict[str, Callable[[World], Any]] = {"GraphEdit": lambda w: edited()}

CANNOT_FAIL: dict[str, str] = {
    **{f"{name}.{each}": NOTHING for name in ("Graph", "GraphEdit") for each in (
        "inputs", "outputs", "name", "opsets", "metadata"
    )},
    "GraphValue.type": A_FACT,
    "GraphValue.__init__": A_RESULT,
}  # fmt: skip

APPLIES: dict[str, tuple[list[Bad], set[Kind]]] = {
    "graph's types": (TYPES, {Kind.WRONG_DTYPE, Kind.NEGATIVE, Kind.HUGE}),
    "graph's arrays": ([*ARRAYS, *BORROWED], {Kind.WRONG_DTYPE, Kind.WRONG_SHAPE, Kind.HUGE, Kind.CLOSED}),
    "graph's models": (READ_MODEL, {Kind.CORRUPT, Kind.EMPTY, Kind.DIRECTORY, Kind.MISSING_FILE}),
    "graph's paths": (PATHS, {Kind.MISSING_FILE, Kind.DIRECTORY}),
}
