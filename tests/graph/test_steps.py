"""A network that is built, saved, edited, compiled and optimized: the results agree at each step."""

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

import zrt
from tests.graph.conftest import QUIET
from tests.support import ort


def near(results: list[Any], wanted: list[Any]) -> None:
    assert len(results) == len(wanted)
    for result, want in zip(results, wanted, strict=True):
        np.testing.assert_allclose(result, want, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("borrow", [False, True])
def test_three_layers(borrow: bool, three_layers: Any, reference: Any, engines: Any, tmp_path: Path) -> None:
    feeds = {"x": np.random.default_rng(1).standard_normal((5, 4)).astype(np.float32)}
    graph = three_layers(borrow)
    # Built.
    graph.check()
    assert graph.engine.name == "editor"
    wanted = reference(graph.to_onnx(), feeds)
    for results in engines(graph, feeds):
        near(results, wanted)
    # Serialized.
    near(zrt.Session(graph.to_bytes(), QUIET).run(feeds), wanted)
    # Edited: operators after its output.
    edit = zrt.edit(graph.to_bytes(), QUIET)
    probabilities = edit.op("Softmax", edit.value("logits"), axis=-1, outputs="probabilities")
    edit.output(probabilities, "float32", ("n", 3))
    assert edit.engine.name == "editor"
    edit.check()
    model = edit.to_onnx()
    onnx.checker.check_model(model, full_check=True)
    expected = reference(model, feeds)
    near(expected[:1], wanted)
    session = edit.finalize()
    assert session.output_names == ("logits", "probabilities")
    near(session.run(feeds), expected)
    near(zrt.Session(model, QUIET).run(feeds), expected)
    # Compiled, and optimized for the CPU.
    near(zrt.Session(zrt.compile(model, options=QUIET), QUIET).run(feeds), expected)
    zrt.save_optimized(model, tmp_path / "optimized.onnx", QUIET)
    near(zrt.Session(tmp_path / "optimized.onnx", QUIET).run(feeds), expected)


@pytest.mark.parametrize("positive", [False, True])
def test_if_and_loop(positive: bool, branching: Any, reference: Any, tmp_path: Path) -> None:
    x = np.array([-1.5, 0.0, 2.0], np.float32)
    feeds = {"positive": np.array(positive), "x": x}
    graph = branching()
    graph.check()
    assert graph.engine.name == "onnx"
    assert any("then_branch" in reason for reason in graph.engine.reasons)
    wanted = [(np.maximum(x, 0) if positive else -x) + 6 * x]
    near(reference(graph.to_onnx(), feeds), wanted)
    near(graph.session(QUIET).run(feeds), wanted)
    path = tmp_path / "net.onnx"
    graph.save(path)
    onnx.checker.check_model(path, full_check=True)
    again = zrt.Graph.from_onnx(path)
    near(again.session(QUIET).run(feeds), wanted)
    edit = zrt.edit(path, QUIET)
    edit.output(edit.op("Neg", edit.value("y"), outputs="minus"))
    # The original model may have subgraphs; the editor only needs to support the additions.
    assert edit.engine.name == "editor"
    model = edit.to_onnx()
    onnx.checker.check_model(model, full_check=True)
    near(reference(model, feeds), [*wanted, -wanted[0]])
    near(edit.finalize().run(feeds), [*wanted, -wanted[0]])
    zrt.save_optimized(model, tmp_path / "optimized.onnx", QUIET)
    near(zrt.Session(tmp_path / "optimized.onnx", QUIET).run(feeds), [*wanted, -wanted[0]])
    compiled = zrt.compile(model, options=QUIET)
    if ort.COMPILES_BODIES:
        near(zrt.Session(compiled, QUIET).run(feeds), [*wanted, -wanted[0]])
    else:
        # ONNX Runtime writes the weights of a body twice, and then refuses the model.
        with pytest.raises(zrt.errors.InvalidGraphError, match="initializer name is not unique"):
            zrt.Session(compiled, QUIET)


def test_if_added_to_a_model(three_layers: Any, reference: Any) -> None:
    edit = zrt.edit(three_layers().to_bytes(), QUIET)
    logits = edit.value("logits")
    then, other = edit.subgraph("then"), edit.subgraph("other")
    then.output(then.op("Relu", logits))
    other.output(other.op("Neg", logits))
    choose = edit.input("choose", "bool", ())
    edit.output(edit.op("If", choose, then_branch=then, else_branch=other, outputs="chosen"), "float32", ("n", 3))
    assert edit.engine.name == "onnx"
    model = edit.to_onnx()
    onnx.checker.check_model(model, full_check=True)
    feeds = {"x": np.ones((2, 4), np.float32), "choose": np.array(False)}
    near(edit.finalize().run(feeds), reference(model, feeds))
    assert edit.closed


def test_operators_added_before_a_model(three_layers: Any, reference: Any) -> None:
    edit = zrt.edit(three_layers().to_bytes(), QUIET)
    edit.remove_input("x")
    pixels = edit.input("pixels", "uint8", ("n", 4))
    scaled = edit.op("Cast", pixels, to=zrt.ElementType.FLOAT)
    edit.op("Div", scaled, edit.initializer(None, np.float32(255)), outputs="x")
    model = edit.to_onnx()
    onnx.checker.check_model(model, full_check=True)
    assert [node.op_type for node in model.graph.node][:3] == ["Cast", "Div", "Gemm"]
    feeds = {"pixels": np.arange(8, dtype=np.uint8).reshape(2, 4)}
    assert edit.engine.name == "editor"
    session = edit.finalize()
    assert session.input_names == ("pixels",)
    near(session.run(feeds), reference(model, feeds))


def test_every_element_type(engines: Any) -> None:
    kinds = [kind for kind in zrt.ElementType if kind.bits and not kind.refused]
    graph = zrt.Graph()
    graph.output(graph.op("Neg", graph.input("x", "float32", (2,))))
    for kind in kinds:
        array = np.array([1, 0, 1], np.uint8).astype(kind.dtype)
        graph.output(graph.initializer(kind.name, array), kind, (3,))
    feeds = {"x": np.ones(2, np.float32)}
    # The numbers of these types differ between ONNX and ONNX Runtime: the editor would confuse them.
    mixed = [kind for kind in kinds if kind.onnx_code != kind]
    reasons = " ".join(graph.engine.reasons)
    assert graph.engine.name == "onnx"
    assert all(kind.name in reasons for kind in mixed)
    graph = zrt.Graph.from_onnx(graph.to_onnx())
    for kind in mixed:
        graph.remove_output(kind.name)
    model = graph.to_onnx()
    for tensor in [tensor for tensor in model.graph.initializer if zrt.ElementType[tensor.name] in mixed]:
        model.graph.initializer.remove(tensor)
    for one, other in zip(*engines(zrt.Graph.from_onnx(model), feeds), strict=True):
        one, other = (each.numpy() if isinstance(each, zrt.Value) else each for each in (one, other))
        assert one.dtype == other.dtype
        assert one.tobytes() == other.tobytes()
