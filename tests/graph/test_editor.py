"""Sessions through the model editor: supported models, ownership of memory, leaks."""

import gc
import sys
import threading
import weakref
from typing import Any

import numpy as np
import pytest
from onnx import helper

import zrt
from tests.graph.conftest import QUIET
from tests.support import processes
from zrt.errors import ClosedError, Error, UnsupportedError
from zrt.graph import SequenceType, TensorType


def graph_of(shape: tuple[int | str | None, ...] | None) -> zrt.Graph:
    graph = zrt.Graph()
    graph.output(graph.op("Relu", graph.input("x", "float32", shape)), "float32", shape)
    return graph


@pytest.mark.parametrize(
    "shape", [(), (0,), (2, 3), ("n",), ("n", 4), ("n", 4, "n"), (4, None), (None, None), None], ids=str
)
def test_editor_keeps_these_shapes(shape: Any) -> None:
    graph = graph_of(shape)
    assert graph.engine.name == "editor"
    assert graph.session(QUIET).inputs == graph.session(QUIET, engine="onnx").inputs


@pytest.mark.parametrize("shape", [("n", "m"), (4, "n"), ("n", None), (None, "n"), ("n", 4, "m")], ids=str)
def test_editor_is_not_used_where_it_would_mix_up_names_of_sizes(shape: Any) -> None:
    graph = graph_of(shape)
    assert "mix up" in graph.engine.reasons[0]
    assert graph.session(QUIET).inputs[0].shape == shape
    with pytest.raises(UnsupportedError, match="'x'"):
        graph.session(QUIET, engine="editor")


def test_engine_reports_every_reason_against_the_editor() -> None:
    graph = graph_of(("n",))
    x = graph.value("x")
    graph.op("Constant", value=np.ones(2))
    graph.op("Constant", value_strings=["a\0b"])
    graph.output(graph.initializer("words", np.array(["a"])))
    graph.output(graph.op("SequenceConstruct", x, outputs="all"), SequenceType(TensorType("float32")))
    model = graph.to_onnx()
    model.graph.input.append(helper.make_tensor_value_info("words", 8, [1]))
    model.graph.input[0].type.denotation = "IMAGE"
    model.graph.node[0].name = "a\0b"
    engine = zrt.Graph.from_onnx(model).engine
    assert engine.name == "onnx"
    for words in (
        "'value' is of type TENSOR",
        "'value_strings' holds a NUL",
        "'words' is of type STRING",
        "'words' is also an input",
        "'all' is a sequence(float32[...])",
        "'x' has denotations",
        "'a\\x00b' (Relu) has a NUL",
    ):
        assert any(words in reason for reason in engine.reasons), words


def test_editor_is_not_used_without_an_opset_of_onnx() -> None:
    node = helper.make_node("Binarizer", ["x"], ["y"], domain="ai.onnx.ml", threshold=0.5)
    values = [helper.make_tensor_value_info(name, 1, ["n"]) for name in "xy"]
    graph = helper.make_graph([node], "g", values[:1], values[1:])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("ai.onnx.ml", 1)], ir_version=8)
    built = zrt.Graph.from_onnx(model)
    assert built.engine.reasons == ("the model imports no opset of ONNX's own domain",)
    assert built.session(QUIET).run([np.float32([0, 1])])[0].tolist() == [0, 1]


def test_editor_is_not_used_with_options_that_it_ignores(tmp_path: Any) -> None:
    graph = graph_of(("n",))
    written = tmp_path / "optimized.onnx"
    options = zrt.SessionOptions(intra_op_num_threads=1, optimized_model_filepath=written)
    with pytest.raises(UnsupportedError, match="optimized model"):
        graph.session(options, engine="editor")
    graph.describe(producer_name="me")
    graph.session(options)
    assert zrt.Session(written).metadata.producer_name == "me"


@pytest.mark.parametrize("engine", ["editor", "onnx"])
def test_borrowed_memory_is_used_in_place(engine: str) -> None:
    array = np.arange(1024, dtype=np.float32)
    graph = zrt.Graph()
    w = graph.initializer("w", array, borrow=True)
    graph.output(graph.op("Add", graph.input("x", "float32", (1024,)), w))
    options = zrt.SessionOptions(intra_op_num_threads=1, graph_optimization_level="DISABLE_ALL")
    session = graph.session(options, engine=engine)
    x = np.zeros(1024, np.float32)
    np.testing.assert_array_equal(session.run([x])[0], array)
    # Users must not do this; here it proves that no copy was made.
    array[:] = 7
    np.testing.assert_array_equal(session.run([x])[0], array)


@pytest.mark.parametrize("edited", [False, True])
@pytest.mark.parametrize("engine", ["editor", "onnx"])
def test_session_keeps_borrowed_memory(engine: str, edited: bool) -> None:
    array = np.full((64, 64), 2, np.float32)
    gone = weakref.ref(array)
    graph: Any = zrt.Graph()
    x = graph.input("x", "float32", ("n", 64))
    if edited:
        graph.output(x)
        graph = zrt.edit(graph.to_bytes(), QUIET)
        graph.remove_output("x")
    w = graph.initializer("w", zrt.Value.from_array(array), borrow=True)
    graph.output(graph.op("MatMul", graph.value("x"), w))
    session = graph.finalize(engine=engine) if edited else graph.session(QUIET, engine=engine)
    del array, graph, w, x
    gc.collect()
    assert gone() is not None
    assert session.run([np.ones((1, 64), np.float32)])[0][0, 0] == 128
    del session
    gc.collect()
    assert gone() is None


@pytest.mark.parametrize("engine", ["editor", "onnx"])
def test_closed_borrowed_value_raises(engine: str) -> None:
    value = zrt.Value.from_array(np.ones(512, np.float32))
    graph = zrt.Graph()
    graph.output(graph.initializer("w", value, borrow=True))
    value.close()
    with pytest.raises(ClosedError, match="Value is closed"):
        graph.session(QUIET, engine=engine)
    with pytest.raises(ClosedError, match="Value is closed"):
        graph.to_onnx()


@pytest.mark.parametrize("engine", ["editor", "onnx"])
def test_thread_factory(engine: str, three_layers: Any) -> None:
    threads = []

    def factory(work: Any) -> threading.Thread:
        thread = threading.Thread(target=work, daemon=True)
        threads.append(thread)
        thread.start()
        return thread

    feeds = {"x": np.ones((1, 4), np.float32)}
    wanted = three_layers().session(QUIET).run(feeds)[0]
    options = zrt.SessionOptions(intra_op_num_threads=2, thread_factory=factory)
    with three_layers().session(options, engine=engine) as session:
        np.testing.assert_allclose(session.run(feeds)[0], wanted, rtol=1e-6)
    edit = zrt.edit(three_layers().to_bytes(), options)
    edit.output(edit.op("Neg", edit.value("logits")))
    with edit.finalize(engine=engine) as session:
        np.testing.assert_allclose(session.run(feeds)[0], wanted, rtol=1e-6)
    assert len(threads) >= 2


@pytest.mark.gpu
@pytest.mark.parametrize("engine", ["editor", "onnx"])
def test_graph_runs_on_a_gpu(engine: str, three_layers: Any) -> None:
    graph = three_layers(borrow=True)
    feeds = {"x": np.ones((2, 4), np.float32)}
    wanted = graph.session(QUIET).run(feeds)[0]
    session = graph.session(QUIET, ["cuda", "cpu"], engine=engine, strict=True)
    np.testing.assert_allclose(session.run(feeds)[0], wanted, rtol=1e-2)
    edit = zrt.edit(graph.to_bytes(), QUIET, ["cuda", "cpu"])
    edit.output(edit.op("Neg", edit.value("logits")))
    np.testing.assert_allclose(edit.finalize().run(feeds)[1], -wanted, rtol=1e-2)


def test_packed_values(engines: Any) -> None:
    packed = np.arange(128, dtype=np.uint8)
    value = zrt.Value.from_packed(packed, zrt.ElementType.INT4, (256,))
    graph = zrt.Graph()
    graph.output(graph.initializer("lent", value, borrow=True))
    graph.output(graph.initializer("copied", value))
    graph.output(graph.op("Neg", graph.input("x", "float32", ())))
    for results in engines(graph, {"x": np.float32(1)}):
        for result in results[:2]:
            np.testing.assert_array_equal(result.numpy(), packed)
    assert zrt.Graph.from_onnx(graph.to_bytes()).to_onnx() == graph.to_onnx()


def test_models_leak_no_memory(script: Any) -> None:
    """Ten thousand models, valid and not: no memory is leaked, and none is released twice."""
    script("editor_memory.py")


def test_failing_sessions_leak_nothing() -> None:
    array = np.ones((64, 64), np.float32)
    gone = weakref.ref(array)
    graph = zrt.Graph({"": 21, "com.microsoft": 1})
    w = graph.initializer("w", array, borrow=True)
    y = graph.op("Nothing", graph.input("x", "float32", ("n", 64)), w, domain="com.microsoft")
    graph.output(y, "float32", ("n", 64))
    assert graph.engine.name == "editor"
    for _ in range(20):
        with pytest.raises(Error, match="Nothing"):
            graph.session(QUIET)
    del graph, array, w, y
    gc.collect()
    assert gone() is None


def test_failure_at_the_begin_of_a_model_does_no_harm() -> None:
    """In a process of its own, which a release of something unmade would end."""
    done = processes.run(
        sys.executable,
        "-c",
        "from zrt.graph import editor\n"
        "def missing(): raise RuntimeError('no model editor')\n"
        "editor.editor_api = missing\n"
        "editor.Assembly()",
    )
    assert (done.returncode, done.stderr.splitlines()[-1]) == (1, "RuntimeError: no model editor")
