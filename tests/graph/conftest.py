"""Networks for the tests of graphs, and three ways to run one."""

from collections.abc import Callable
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from onnx.reference import ReferenceEvaluator

import zrt

QUIET = zrt.SessionOptions(intra_op_num_threads=1, log_severity_level="FATAL")

Feeds = dict[str, Any]


def _three_layers(borrow: bool = False, sizes: tuple[int, ...] = (4, 32, 32, 3)) -> zrt.Graph:
    rng = np.random.default_rng(0)
    graph = zrt.Graph(opset=21)
    value = graph.input("x", "float32", ("n", sizes[0]))
    for layer, (rows, columns) in enumerate(pairwise(sizes)):
        weights = (rng.standard_normal((rows, columns)) / 4).astype(np.float32)
        w = graph.initializer(f"w{layer}", weights, borrow=borrow)
        b = graph.initializer(f"b{layer}", np.full(columns, 0.1, np.float32))
        last = layer == len(sizes) - 2
        value = graph.op("Gemm", value, w, b, alpha=1.5, outputs="logits" if last else None)
        value = value if last else graph.op("Relu", value)
    graph.output(value, "float32", ("n", sizes[-1]))
    return graph


@pytest.fixture(scope="session")
def three_layers() -> Callable[..., zrt.Graph]:
    """Three Gemms with a Relu between them: x, float32 [n, 4], to logits, float32 [n, 3]."""
    return _three_layers


def _branching() -> zrt.Graph:
    graph = zrt.Graph()
    positive, x = graph.input("positive", "bool", ()), graph.input("x", "float32", ("n",))
    then, other = graph.subgraph("then"), graph.subgraph("other")
    then.output(then.op("Relu", x))
    other.output(other.op("Neg", x))
    chosen = graph.op("If", positive, then_branch=then, else_branch=other)
    body = graph.subgraph("body")
    body.input("i", "int64", ())
    go, total = body.input("go", "bool", ()), body.input("total")
    body.output(body.op("Identity", go))
    body.output(body.op("Add", total, body.op("Mul", x, body.initializer("two", np.float32(2)))))
    steps, forever = graph.initializer("steps", np.array(3)), graph.initializer("forever", np.array(True))
    graph.output(graph.op("Loop", steps, forever, chosen, body=body, outputs="y"), "float32", ("n",))
    return graph


@pytest.fixture(scope="session")
def branching() -> Callable[[], zrt.Graph]:
    """An If, whose branches read x, into a Loop, whose body does: y = (relu(x) or -x) + 6 x."""
    return _branching


@pytest.fixture(scope="session")
def reference() -> Callable[[Any, Feeds], list[Any]]:
    """The results of onnx's reference evaluator for a model and feeds."""
    return lambda model, feeds: list(ReferenceEvaluator(model).run(None, feeds))


@pytest.fixture(scope="session")
def engines() -> Callable[[zrt.Graph, Feeds], tuple[list[Any], list[Any]]]:
    """The results of a graph's sessions, made through the model editor and through the model's bytes."""

    def run(graph: zrt.Graph, feeds: Feeds) -> tuple[list[Any], list[Any]]:
        by_editor, by_bytes = (graph.session(QUIET, engine=engine) for engine in ("editor", "onnx"))
        assert by_editor.inputs == by_bytes.inputs
        assert by_editor.outputs == by_bytes.outputs
        assert by_editor.metadata == by_bytes.metadata
        return by_editor.run(feeds), by_bytes.run(feeds)

    return run
