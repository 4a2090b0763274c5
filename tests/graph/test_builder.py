"""Graphs built with `Graph`: values, names, attributes, subgraphs, types, metadata."""

import copy
import pickle
import sys
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import onnx
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from onnx import helper, numpy_helper

import zrt
from tests.graph.conftest import QUIET
from zrt.errors import (
    ArgumentError,
    ClosedError,
    DTypeError,
    Error,
    ModelError,
    NotCopyableError,
    ShapeError,
    UnknownNameError,
    UnsupportedError,
)
from zrt.graph import MapType, OptionalType, SequenceType, SparseTensorType, TensorType, types

# The type of a map whose keys are floats, which ONNX does not have.
FLOAT_KEYS = helper.make_map_type_proto(onnx.TensorProto.FLOAT, helper.make_tensor_type_proto(1, ["n"]))


@pytest.fixture
def graph() -> zrt.Graph:
    """x, float32 [n, 4], is an input."""
    net = zrt.Graph(opset=21, name="net")
    net.input("x", "float32", ("n", 4))
    return net


def test_values_know_their_graph_and_type(graph: zrt.Graph) -> None:
    x = graph.value("x")
    assert (x.graph, x.name, x.type) == (graph, "x", TensorType("float32", ("n", 4)))
    y = graph.op("Relu", x)
    assert y.type is None
    graph.output(y, "float32", ("n", 4))
    assert y.type == TensorType(np.float32, ("n", 4))
    assert y == graph.outputs[0]
    assert graph.inputs == (x,)
    assert "x: float32[n, 4]" in repr(x)
    assert repr(graph) == f"Graph(x: float32[n, 4] -> {y.name}: float32[n, 4]; 1 nodes)"


def test_generated_names_are_unique(graph: zrt.Graph) -> None:
    x = graph.value("x")
    values = [graph.op("Relu", x) for _ in range(3)] + list(graph.op("Split", x, outputs=2, axis=1, num_outputs=2))
    assert len({value.name for value in values}) == 5
    assert graph.op("Relu", x, outputs="mine", name="node").name == "mine"
    assert [value.name for value in graph.op("Relu", x, outputs=["ours"])] == ["ours"]
    assert graph.initializer(None, np.ones(1)).name != graph.initializer(None, np.ones(1)).name
    names = [node.name for node in graph.to_onnx().graph.node]
    assert "node" in names
    assert len(set(names)) == len(names)


def test_number_of_outputs_defaults_to_the_schemas_minimum(graph: zrt.Graph) -> None:
    values, indices = graph.op("TopK", graph.value("x"), graph.initializer("k", np.array([1])))
    assert values.name != indices.name
    assert isinstance(graph.op("Dropout", graph.value("x")), zrt.GraphValue)


def test_optional_input_may_be_left_out(graph: zrt.Graph) -> None:
    most = graph.initializer("most", np.float32(1))
    graph.output(graph.op("Clip", graph.value("x"), None, most, outputs="y"))
    assert list(graph.to_onnx().graph.node[0].input) == ["x", "", "most"]
    feeds = {"x": np.array([[-5, 0, 1, 5]], np.float32)}
    for engine in ("editor", "onnx"):
        np.testing.assert_array_equal(graph.session(QUIET, engine=engine).run(feeds)[0], [[-5, 0, 1, 1]])


def test_failed_op_changes_nothing(graph: zrt.Graph) -> None:
    before = graph.to_onnx()
    x = graph.value("x")
    branch = graph.subgraph("branch")
    branch.output(branch.op("Neg", x))
    with pytest.raises(ArgumentError):
        graph.op("Split", x, outputs=["a", "x"], num_outputs=2)
    with pytest.raises(DTypeError):
        graph.op("If", x, then_branch=branch)
    assert graph.to_onnx() == before
    assert graph.op("Relu", x, outputs="a").name == "a"
    branch.op("Neg", x)


def test_attributes_are_converted_to_the_schemas_kind(graph: zrt.Graph) -> None:
    x = graph.value("x")
    graph.op("Gemm", x, x, alpha=2, transB=True)
    graph.op("Transpose", x, perm=np.array([1, 0]))
    graph.op("Constant", value_strings=["a", b"b"])
    graph.op("Constant", value_floats=[])
    graph.op("ConstantOfShape", graph.initializer("s", np.array([2])), value=np.array([7], ml_dtypes.bfloat16))
    graph.op("Cast", x, to=zrt.ElementType.FLOAT16, saturate=None)
    graph.op("RandomNormal", shape=(1, 2), attributes={"dtype": 1, "mean": np.float32(0.5)})
    graph.op("Optional", type=SequenceType(TensorType("float32")))
    converted = {
        node.op_type + attribute.name: (attribute.type, helper.get_attribute_value(attribute))
        for node in graph.to_onnx().graph.node
        for attribute in node.attribute
        if attribute.name != "value_floats"
    }
    kinds = onnx.AttributeProto
    assert converted["Gemmalpha"] == (kinds.FLOAT, 2.0)
    assert converted["GemmtransB"] == (kinds.INT, 1)
    assert converted["Transposeperm"] == (kinds.INTS, [1, 0])
    assert converted["Constantvalue_strings"] == (kinds.STRINGS, [b"a", b"b"])
    assert numpy_helper.to_array(converted["ConstantOfShapevalue"][1]).dtype == ml_dtypes.bfloat16
    assert converted["Castto"] == (kinds.INT, onnx.TensorProto.FLOAT16)
    assert "Castsaturate" not in converted
    assert converted["RandomNormalshape"] == (kinds.INTS, [1, 2])
    assert converted["RandomNormalmean"] == (kinds.FLOAT, 0.5)
    assert converted["Optionaltype"][0] == kinds.TYPE_PROTO


def test_element_type_as_an_attribute_has_the_number_of_onnx(graph: zrt.Graph) -> None:
    [attribute] = graph.op("Cast", graph.value("x"), to=zrt.ElementType.UINT2).graph.to_onnx().graph.node[0].attribute
    assert attribute.i == zrt.ElementType.UINT2.onnx_code != int(zrt.ElementType.UINT2)


def test_attribute_that_is_given_twice_raises(graph: zrt.Graph) -> None:
    with pytest.raises(ArgumentError, match="op 'Softmax': attribute 'axis' is given twice"):
        graph.op("Softmax", graph.value("x"), attributes={"axis": 0}, axis=1)
    graph.import_opset("my.ops", 1)
    for name in ("", "a\0", "\ud800"):
        with pytest.raises(ArgumentError, match="op 'Any': attributes: "):
            graph.op("Any", graph.value("x"), domain="my.ops", **{name: 1})


def test_initializer_that_is_no_tensor_is_named(graph: zrt.Graph) -> None:
    closed = zrt.Value.from_array(np.ones(64, np.float32))
    closed.close()
    for value, error in ((zrt.Value.from_map({"a": 1}), UnsupportedError), (closed, ClosedError)):
        for borrow in (False, True):
            with pytest.raises(error, match="initializer 'm': "):
                graph.initializer("m", value, borrow=borrow)


def test_attributes_without_a_schema_get_their_kind_from_the_value(graph: zrt.Graph) -> None:
    graph.import_opset("custom", 3)
    one, two = graph.op("Any", graph.value("x"), domain="custom", outputs=2, a=1, b=1.5, c="s", d=[1, 2.5], e=["x"])
    assert one != two
    node = graph.to_onnx().graph.node[0]
    assert {attribute.name: helper.get_attribute_value(attribute) for attribute in node.attribute} == {
        "a": 1,
        "b": 1.5,
        "c": b"s",
        "d": [1.0, 2.5],
        "e": [b"x"],
    }
    graph.output(one, "float32")
    assert any("'custom'" in reason for reason in graph.engine.reasons)
    with pytest.raises(DTypeError, match=r"'a'.*list \[\]"):
        graph.op("Any", domain="custom", a=[])
    with pytest.raises(DTypeError, match=r"'a'.*\[1, 's'\]"):
        graph.op("Any", domain="custom", a=[1, "s"])


def test_operators_of_onnx_runtime(graph: zrt.Graph, engines: Any) -> None:
    graph.import_opset("com.microsoft", 1)
    assert graph.opsets == {"": 21, "com.microsoft": 1}
    graph.output(graph.op("Gelu", graph.value("x"), domain="com.microsoft"), "float32", ("n", 4))
    one, other = engines(graph, {"x": np.ones((1, 4), np.float32)})
    np.testing.assert_array_equal(one, other)
    assert one[0][0, 0] == pytest.approx(0.8413447)


def test_domain_ai_onnx_is_the_empty_domain() -> None:
    graph = zrt.Graph({"ai.onnx": 20, "ai.onnx.ml": 3})
    assert graph.opsets == {"": 20, "ai.onnx.ml": 3}
    x = graph.input("x", "float32", (1, 2))
    y = graph.op("Normalizer", graph.op("Relu", x, domain="ai.onnx"), domain="ai.onnx.ml", norm="L1")
    graph.output(y, "float32", (1, 2))
    graph.check()
    np.testing.assert_array_equal(graph.session(QUIET).run([np.ones((1, 2), np.float32)])[0], [[0.5, 0.5]])


@pytest.mark.parametrize("kind", ["initializer", "node"])
def test_value_hidden_by_one_of_the_subgraph_cannot_be_read(graph: zrt.Graph, kind: str) -> None:
    inner = graph.subgraph("inner")

    def make(where: zrt.Graph) -> Any:
        if kind == "initializer":
            return where.initializer("k", np.ones(4, np.float32))
        return where.op("Neg", graph.value("x"), outputs="k")

    make(inner)
    outer = make(graph)
    with pytest.raises(ArgumentError, match="graph 'inner' has a value 'k' of its own, which hides that of graph"):
        inner.op("Add", graph.value("x"), outer)


def test_node_cannot_take_a_subgraph_that_hides_a_value(graph: zrt.Graph) -> None:
    x, flag = graph.value("x"), graph.input("flag", "bool", ())
    outer, other = graph.subgraph("outer"), graph.subgraph("other")
    inner = outer.subgraph("inner")
    inner.output(inner.op("Relu", x, outputs="k"))
    other.output(other.op("Neg", x, name="x"))
    graph.op("Abs", x, outputs="k")
    with pytest.raises(ArgumentError, match="'k' in its subgraph hides that of graph 'net'"):
        outer.op("If", flag, then_branch=inner, else_branch=inner)
    # A node may have the name of a value.
    graph.op("If", flag, then_branch=other, else_branch=other)


def test_negative_sizes_are_open(graph: zrt.Graph) -> None:
    graph.output(graph.op("Neg", graph.value("x"), outputs="y"), "float32", ("n", 4))
    proto = graph.to_onnx()
    for info in (proto.graph.input[0], proto.graph.output[0]):
        info.type.tensor_type.shape.dim[0].dim_value = -1
    x = np.ones((2, 4), np.float32)
    assert zrt.Graph.from_onnx(proto).session(QUIET).run({"x": x})[0].tolist() == (-x).tolist()
    assert zrt.edit(proto, QUIET).finalize().run({"x": x})[0].tolist() == (-x).tolist()


@pytest.mark.parametrize(
    ("message", "field", "content"),
    [
        ("initializer 'w': .*dimension -1", "initializer", onnx.TensorProto(name="w", data_type=1, dims=[-1])),
        ("initializer 'w': .*no element type 99", "initializer", onnx.TensorProto(name="w", data_type=99, dims=[1])),
        ("value 'z': .*no element type 99", "input", helper.make_tensor_value_info("z", 99, ["n"])),
        (
            "value 'z': .*float32 is neither string nor an integer",
            "value_info",
            helper.make_value_info("z", FLOAT_KEYS),
        ),
    ],
)
def test_from_onnx_refuses_invalid_types_in_a_model(graph: zrt.Graph, message: str, field: str, content: Any) -> None:
    proto = graph.to_onnx()
    getattr(proto.graph, field).append(content)
    with pytest.raises(ModelError, match=message):
        zrt.Graph.from_onnx(proto)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (onnx.TensorProto(data_type=1, dims=[-1]), "initializer 'w': dimension -1"),
        (onnx.TensorProto(dims=[1]), "initializer 'w': .*the element type is not known"),
        (onnx.TensorProto(data_type=99, dims=[1]), "initializer 'w': "),
    ],
)
def test_refused_initializer_leaves_the_graph_as_it_was(graph: zrt.Graph, content: Any, message: str) -> None:
    before = graph.to_onnx()
    with pytest.raises(zrt.Error, match=message):
        graph.initializer("w", content)
    assert graph.to_onnx() == before
    graph.initializer("w", np.ones(1, np.float32))


def test_subgraph_reads_values_of_enclosing_graphs(graph: zrt.Graph) -> None:
    x = graph.value("x")
    outer = graph.subgraph("outer")
    inner = outer.subgraph("inner")
    assert inner.value("x") == x
    inner.output(inner.op("Add", x, outer.op("Neg", x, outputs="m")))
    with pytest.raises(ArgumentError, match=r"'m'.*around it"):
        inner.op("Neg", x, outputs="m")
    other = outer.subgraph("other")
    mine = other.op("Neg", x, outputs="deep")
    other.output(mine)
    with pytest.raises(ArgumentError, match="'deep' belongs to another graph, 'other'"):
        outer.op("Neg", mine)
    flag = graph.input("flag", "bool", ())
    outer.output(outer.op("If", flag, then_branch=inner, else_branch=other))
    last = graph.subgraph("last")
    with pytest.raises(ArgumentError, match="Identity"):
        last.output(x)
    last.output(last.op("Identity", x))
    with pytest.raises(ArgumentError, match=r"'then_branch'.*'inner'"):
        graph.op("If", flag, then_branch=inner, else_branch=last)
    graph.output(graph.op("If", flag, then_branch=outer, else_branch=last, outputs="y"), "float32", ("n", 4))
    with pytest.raises(ArgumentError, match=r"'deep'.*in a subgraph"):
        graph.op("Relu", x, outputs="deep")
    graph.check()
    feeds = {"x": np.ones((1, 4), np.float32), "flag": np.array(True)}
    np.testing.assert_array_equal(graph.session(QUIET).run(feeds)[0], np.zeros((1, 4)))


def test_types_of_outputs_are_inferred(graph: zrt.Graph) -> None:
    y = graph.op("MatMul", graph.value("x"), graph.initializer("w", np.ones((4, 100), np.float64).astype(np.float32)))
    graph.output(y)
    info = graph.to_onnx().graph.output[0]
    assert types.from_proto(info.type, "y") == TensorType("float32", ("n", 100))
    graph.import_opset("custom", 1)
    graph.output(graph.op("Any", y, domain="custom", outputs="what"))
    with pytest.raises(ModelError, match="output 'what': its type"):
        graph.to_onnx()


def test_declared_types_of_intermediate_values(graph: zrt.Graph) -> None:
    graph.import_opset("custom", 1)
    hidden = graph.op("Any", graph.value("x"), domain="custom")
    with pytest.raises(DTypeError, match=f"'{hidden.name}': a type is missing"):
        graph.value_info(hidden, None)
    with pytest.raises(DTypeError, match=r"value_info: expected a GraphValue .* got NoneType"):
        graph.value_info(None, "float32")
    graph.value_info(hidden, "float32", ("n", 7))
    graph.output(graph.op("Relu", hidden))
    assert types.from_proto(graph.to_onnx().graph.output[0].type, "y") == TensorType("float32", ("n", 7))
    with pytest.raises(ArgumentError, match="already known"):
        graph.value_info(hidden, "float32")
    assert any("intermediate" in reason for reason in graph.engine.reasons)


def test_type_of_a_value_is_declared_in_its_own_graph(graph: zrt.Graph) -> None:
    graph.import_opset("custom", 1)
    hidden = graph.op("Any", graph.value("x"), domain="custom", outputs="hidden")
    branch = graph.subgraph("branch")
    with pytest.raises(ArgumentError, match="value 'hidden': it belongs to a graph around 'branch'"):
        branch.value_info(hidden, "float32", ("n",))
    mine = branch.op("Any", hidden, domain="custom")
    assert branch.value_info(mine, "float32", ("n",)) == mine


def test_type_of_a_removed_output_can_be_declared_again() -> None:
    graph = zrt.Graph()
    x = graph.input("x", "float32", ("n",))
    y = graph.output(graph.op("Relu", x, outputs="y"), "float32", ("n",))
    graph.remove_output(y)
    assert y.type is None
    graph.value_info(y, "float32", ("m",))
    assert [info.name for info in graph.to_onnx().graph.value_info] == ["y"]
    graph.output(x)
    graph.remove_output(x)
    assert x.type is not None


def test_metadata(graph: zrt.Graph) -> None:
    graph.output(graph.op("Relu", graph.value("x")))
    graph.describe(producer_name="p", domain="d", description="what", version=7, custom_metadata_map={"a": "b"})
    graph.describe(graph_description="g", custom_metadata_map={"c": "d"})
    wanted = zrt.ModelMetadata("p", "net", "d", "what", "g", 7, {"c": "d"})
    assert graph.metadata == wanted
    assert graph.metadata.opsets == graph.opsets
    for engine in ("editor", "onnx"):
        assert graph.session(QUIET, engine=engine).metadata == wanted
        assert graph.session(QUIET, engine=engine).metadata.opsets == graph.opsets
    assert zrt.Session(graph.to_onnx(), QUIET).metadata == wanted
    assert zrt.Graph.from_onnx(graph.to_bytes()).metadata == wanted


def test_refused_description_changes_nothing(graph: zrt.Graph) -> None:
    graph.describe(producer_name="p", custom_metadata_map={"a": "b"})
    before = graph.metadata
    for wrong in ({"version": -1}, {"graph_description": 5}, {"custom_metadata_map": {"c": "d", "e": 5}}):
        with pytest.raises(Error):
            graph.describe(**{"producer_name": "q", "description": "d", **wrong})  # type: ignore[arg-type]
        assert graph.metadata == before


def _branch(around: zrt.Graph, levels: int) -> zrt.Graph:
    """A subgraph with so many levels of If in it."""
    inner = around.subgraph("branch")
    if levels:
        branches = {f"{name}_branch": _branch(inner, levels - 1 if name == "then" else 0) for name in ("then", "else")}
        inner.output(inner.op("If", around.value("c"), **branches), "float32")
    else:
        inner.output(inner.op("Neg", around.value("x")))
    return inner


def test_graphs_nested_too_deep_are_refused(graph: zrt.Graph) -> None:
    condition = graph.input("c", "bool", ())
    flat = _branch(graph, 0)
    graph.output(graph.op("If", condition, then_branch=_branch(graph, 31), else_branch=flat), "float32", ("n", 4))
    model = graph.to_bytes()
    assert zrt.Graph.from_onnx(model).to_bytes() == model
    with pytest.raises(ArgumentError, match=r"op 'If': attribute '\w+': .* protobuf reads 100"):
        _branch(graph, 32)
    # A graph and an attribute of the onnx package.
    proto = onnx.parser.parse_graph("agraph () => (float y) { y = Neg(x) }")
    for _ in range(32):
        node = helper.make_node("If", ["c"], ["y"], then_branch=proto)
        proto = helper.make_graph([node], "g", [], list(proto.output))
    for message in (proto, node.attribute[0]):
        with pytest.raises(ArgumentError, match=r"'then_branch': .* protobuf reads 100"):
            graph.op("If", condition, then_branch=message, else_branch=flat)
    assert graph.to_bytes() == model


def test_graphs_are_not_copyable(graph: zrt.Graph) -> None:
    """A copy would lose what is added to it."""
    for attempt in (copy.copy, copy.deepcopy, pickle.dumps):
        with pytest.raises(NotCopyableError, match=r"Graph has no copy.*from_onnx"):
            attempt(graph)


def test_sizes_may_be_numpys(graph: zrt.Graph) -> None:
    kind = graph.input("z", "float32", ("n", np.int64(2) * 3)).type
    assert isinstance(kind, TensorType)
    assert kind.shape == ("n", 6)
    with pytest.raises(ShapeError, match=r"input 'w': dimension .*-1"):
        graph.input("w", "float32", (np.int64(-1),))


def test_graph_may_change_after_its_session(graph: zrt.Graph) -> None:
    graph.output(graph.op("Neg", graph.value("x"), outputs="y"))
    first = graph.session(QUIET)
    graph.remove_output("y")
    graph.output(graph.op("Abs", graph.value("y"), outputs="z"))
    x = np.ones((1, 4), np.float32)
    assert first.run([x])[0][0, 0] == -1
    assert graph.session(QUIET).run([x])[0][0, 0] == 1


def test_removed_input_raises(graph: zrt.Graph) -> None:
    x = graph.value("x")
    graph.remove_input(x)
    with pytest.raises(ArgumentError, match="'x' was removed"):
        graph.op("Relu", x)
    with pytest.raises(UnknownNameError):
        graph.value("x")


@pytest.mark.parametrize(
    "kind",
    [
        TensorType("string", ()),
        TensorType(ml_dtypes.int4, (1, None, "n")),
        SparseTensorType("float32", (3, 4)),
        SequenceType(SequenceType(TensorType("int64", ("n",)))),
        MapType("string", TensorType("float32")),
        MapType("int64", SequenceType(TensorType("bool", (0,)))),
        OptionalType(SequenceType(TensorType("float16"))),
    ],
    ids=str,
)
def test_every_kind_of_type(kind: Any) -> None:
    assert types.from_proto(types.to_proto(kind), "it") == kind
    graph = zrt.Graph()
    assert graph.input("it", kind).type == kind
    graph.output(graph.op("Relu", graph.input("x", "float32", ())))
    graph.check()
    assert zrt.Graph.from_onnx(graph.to_onnx()).value("it").type == kind


def test_invalid_types_are_refused() -> None:
    with pytest.raises(DTypeError, match="float32 is neither string nor an integer"):
        MapType("float32", TensorType("float32"))
    with pytest.raises(DTypeError, match="MapType: value"):
        MapType("int64", "float32")
    with pytest.raises(DTypeError, match="OptionalType: element"):
        OptionalType(None)
    with pytest.raises(ShapeError, match="-1"):
        TensorType("float32", (-1,))
    deep: Any = TensorType("float32")
    for _ in range(32):
        deep = SequenceType(deep)
    with pytest.raises(DTypeError, match="32 deep"):
        SequenceType(deep)


def test_large_graphs() -> None:
    graph = zrt.Graph()
    value = graph.input("x", "float32", (1,))
    for number in range(3000):
        value = graph.op("Neg", value, name=f"node {number}" if number % 2 else None)
    graph.output(value, "float32", (1,))
    assert graph.session(QUIET).run([np.ones(1, np.float32)])[0].tolist() == [1]


def test_from_onnx_keeps_everything_in_a_model(tmp_path: Path) -> None:
    function = helper.make_function(
        "custom", "Twice", ["a"], ["b"], [helper.make_node("Add", ["a", "a"], ["b"])], [helper.make_opsetid("", 21)]
    )
    sparse = helper.make_sparse_tensor(
        numpy_helper.from_array(np.array([1, 2], np.float32), "sparse"),
        numpy_helper.from_array(np.array([0, 5]), "at"),
        [6],
    )
    net = helper.make_graph(
        [helper.make_node("Twice", ["x"], ["y"], "n", domain="custom", doc_string="why")],
        "net",
        [helper.make_tensor_value_info("x", 1, ["n"])],
        [helper.make_tensor_value_info("y", 1, ["n"])],
        sparse_initializer=[sparse],
        doc_string="about",
    )
    model = helper.make_model(
        net,
        ir_version=10,
        functions=[function],
        opset_imports=[helper.make_opsetid("", 21), helper.make_opsetid("custom", 1)],
        producer_name="someone",
    )
    model.training_info.add().initialization.name = "start"
    model.metadata_props.add(key="k", value="v")
    path = tmp_path / "model.onnx"
    path.write_bytes(model.SerializeToString())
    for source in (model, model.SerializeToString(), path):
        graph = zrt.Graph.from_onnx(source)
        assert graph.to_onnx() == model
        reasons = " ".join(graph.engine.reasons)
        assert all(word in reasons for word in ("functions", "training info", "sparse initializers"))
    del model.training_info[:]
    np.testing.assert_array_equal(
        zrt.Graph.from_onnx(model).session(QUIET).run([np.ones(2, np.float32)])[0], np.full(2, 2)
    )


def test_from_onnx_copies_the_model(graph: zrt.Graph) -> None:
    graph.output(graph.op("Relu", graph.value("x")))
    model = graph.to_onnx()
    again = zrt.Graph.from_onnx(model)
    again.op("Relu", again.value("x"))
    model.graph.node[0].op_type = "Neg"
    assert [node.op_type for node in again.to_onnx().graph.node] == ["Relu", "Relu"]
    assert len(graph.to_onnx().graph.node) == 1


def test_graph_without_the_onnx_package_raises(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "onnx", None)
    with pytest.raises(UnsupportedError, match="pip install"):
        zrt.Graph()


UNARY = ("Relu", "Neg", "Abs", "Identity", "Sigmoid")
BINARY = ("Add", "Mul", "Sub", "Max")


@st.composite
def graphs(draw: st.DrawFn) -> zrt.Graph:
    """Graphs of elementwise operators over x, float32 [n, 3], with constants that are copied or borrowed."""
    graph = zrt.Graph()
    values = [graph.input("x", "float32", ("n", 3))]
    for number in range(draw(st.integers(1, 8))):
        pick = st.sampled_from(values)
        choice = draw(st.integers(0, 3))
        if choice == 0:
            rows = draw(st.sampled_from([(), (3,), (1, 3)]))
            values.append(graph.initializer(f"c{number}", np.full(rows, number, np.float32)))
        elif choice == 1:
            big = np.full((40, 3), number, np.float32)
            total = graph.initializer(f"c{number}", big, borrow=draw(st.booleans()))
            values.append(graph.op("ReduceMax", total, keepdims=0))
        elif choice == 2:
            values.append(graph.op(draw(st.sampled_from(UNARY)), draw(pick)))
        else:
            values.append(graph.op(draw(st.sampled_from(BINARY)), draw(pick), draw(pick)))
    for value in draw(st.sets(st.sampled_from(values), min_size=1)):
        graph.output(value)
    return graph


@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(graph=graphs())
def test_round_trips(graph: zrt.Graph, engines: Any, reference: Any) -> None:
    graph.check()
    model = graph.to_onnx()
    again = zrt.Graph.from_onnx(graph.to_bytes())
    assert again.to_onnx() == model
    assert [value.name for value in again.outputs] == [value.name for value in graph.outputs]
    feeds = {"x": np.linspace(-2, 2, 6, dtype=np.float32).reshape(2, 3)}
    wanted = reference(model, feeds)
    for each in (graph, again):
        for results in engines(each, feeds):
            for result, want in zip(results, wanted, strict=True):
                # Absolute tolerance: where terms of the order of 1 cancel, their rounding errors remain.
                np.testing.assert_allclose(result, want, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("value", [np.zeros((2, 2), np.float32), [1.0], 1.0])
def test_array_as_an_input_of_a_node_is_refused_with_the_way_to_give_it(value):
    g = zrt.Graph(opset=21)
    x = g.input("x", "float32", [2, 2])
    with pytest.raises(DTypeError, match=r"op 'MatMul': input 1: .*`initializer` makes one of an array"):
        g.op("MatMul", x, value)
