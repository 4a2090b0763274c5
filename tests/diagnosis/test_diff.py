"""`zrt.diff` on planted faults: each is found at its place."""

import json
import pickle
import platform
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

import zrt
from tests.support.together import in_threads
from zrt._native.library import library
from zrt.bench import child
from zrt.diagnosis import diff as module
from zrt.diagnosis import optimizer
from zrt.environment import log_sink
from zrt.errors import LibraryError, UnsupportedError
from zrt.types import ElementType


def spec(model: onnx.ModelProto, **options: Any) -> zrt.SessionSpec:
    return zrt.SessionSpec(model, zrt.SessionOptions(intra_op_num_threads=1, log_severity_level="FATAL", **options))


def layers(count: int, changed: int | None = None) -> onnx.ModelProto:
    """Layers of 16 numbers; in the layer `changed` one weight is another."""
    generator = np.random.default_rng(0)
    nodes, weights = [], []
    for layer in range(count):
        weight = generator.standard_normal((16, 16)).astype(np.float32) / 4
        if layer == changed:
            weight[3, 4] += 0.5
        weights.append(numpy_helper.from_array(weight, f"w{layer}"))
        before = f"t{layer - 1}" if layer else "x"
        nodes.append(helper.make_node("MatMul", [before, f"w{layer}"], [f"m{layer}"], name=f"mul{layer}"))
        nodes.append(helper.make_node("Tanh", [f"m{layer}"], [f"t{layer}"], name=f"tanh{layer}"))
    x = helper.make_tensor_value_info("x", 1, [2, 16])
    y = helper.make_tensor_value_info(f"t{count - 1}", 1, [2, 16])
    graph = helper.make_graph(nodes, "layers", [x], [y], weights)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def parsed(text: str, opset: int = 20) -> onnx.ModelProto:
    return onnx.parser.parse_model(f'<ir_version: 9, opset_import: ["" : {opset}]> g {text}')


def in_order(one: Any, other: Any, swapped: bool) -> tuple[Any, Any]:
    return (other, one) if swapped else (one, other)


# As exporters write Gelu; the optimizer fuses it, and may then approximate it.
GELU = parsed(
    """(float[4, 16] x) => (float[4, 16] y) <float r = {1.4142135}, float one = {1}, float half = {0.5}> {
        [pre] h = Tanh(x)
        [div] a = Div(h, r)
        [erf] b = Erf(a)
        [add] c = Add(b, one)
        [mul] d = Mul(h, c)
        [scale] e = Mul(d, half)
        [post] y = Neg(e)
    }""",
    17,
)
APPROXIMATE = {"optimization.enable_gelu_approximation": "1"}


@pytest.mark.parametrize("group", [1, 7, 64])
def test_one_weight_of_100_layers(group: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "GROUP", group)
    found = zrt.diff(spec(layers(100)), spec(layers(100, changed=57)))
    assert not found.equal
    assert found.first is not None
    assert (found.first.name, found.first.node) == ("m57", "node 'mul57' (MatMul)")
    assert [each.name for each in found.values][:4] == ["m0", "t0", "m1", "t1"]
    assert all(each.largest == 0 for each in found.values[: 2 * 57])
    assert [each.name for each in found.outputs] == ["t99"]
    assert found.fused == found.failed == ""
    assert "the first value that differs is 'm57' of node 'mul57' (MatMul)" in str(found)


def test_operator_that_computes_otherwise() -> None:
    text = '(float[4] x) => (float[4] y) {{ [a] h = Tanh(x) [b] g = Gelu <approximate = "{}"> (h) [c] y = Exp(g) }}'
    found = zrt.diff(spec(parsed(text.format("none"))), spec(parsed(text.format("tanh"))), rtol=1e-6, atol=1e-7)
    assert found.first is not None
    assert found.first.node == "node 'b' (Gelu)"


def test_fusion_that_changes_numbers() -> None:
    found = zrt.diff(spec(GELU), spec(GELU, config_entries=APPROXIMATE), rtol=1e-6, atol=1e-7)
    assert not found.equal
    assert found.first is None
    # One of the nodes that are fused.
    assert found.fused in [f"node {name!r} ({kind})" for name, kind in (("div", "Div"), ("erf", "Erf"), ("add", "Add"))]
    assert "the optimizer fuses node" in str(found)
    assert (found.optimizers, found.optimizers_of) == (("GeluApproximation",), "b")
    assert "without GeluApproximation in b, the outputs agree" in str(found)
    assert zrt.diff(spec(GELU), spec(GELU, config_entries=APPROXIMATE), atol=1e-3).equal


def test_step_of_the_optimizer_is_named_for_either_side() -> None:
    exact = {**APPROXIMATE, "optimization.disable_specified_optimizers": "GeluApproximation"}
    found = zrt.diff(spec(GELU, config_entries=APPROXIMATE), spec(GELU, config_entries=exact), rtol=1e-6, atol=1e-7)
    assert (found.optimizers, found.optimizers_of) == (("GeluApproximation",), "a")


def test_steps_left_out_by_the_user_stay_left_out() -> None:
    """Without them the optimizer fuses no Gelu that it could approximate."""
    entries = {"optimization.disable_specified_optimizers": "GeluFusionL2;GeluFusion"}
    other = spec(GELU, config_entries=APPROXIMATE | entries)
    assert optimizer.steps_of(other) == []
    assert optimizer.steps_of(spec(GELU, config_entries=APPROXIMATE)) == ["GeluFusionL2", "GeluApproximation"]
    left_out = optimizer.without(other, ["ConstantFolding"]).options.config_entries
    assert left_out == APPROXIMATE | {
        "optimization.disable_specified_optimizers": "GeluFusionL2;GeluFusion;ConstantFolding"
    }


def test_steps_are_found_without_a_trace() -> None:
    """ONNX Runtime's log keeps a logger for ever, and a logger its handlers with their lines."""
    fails = parsed("(float[n] x) => (float[n] y) { h = Neg(x) y = test.Unknown(h) }")
    optimizer.steps_of(spec(GELU))
    kept = list(log_sink._loggers)
    optimizer.steps_of(spec(GELU))
    with pytest.raises(zrt.Error):
        optimizer.steps_of(spec(fails))
    assert log_sink._loggers == kept
    assert [logger.handlers for logger in kept if logger.name == "zrt.diff"] == [[]]


def test_threads_find_the_steps_of_their_own_loads() -> None:
    def approximate() -> None:
        for _ in range(20):
            assert optimizer.steps_of(spec(GELU, config_entries=APPROXIMATE)) == ["GeluFusionL2", "GeluApproximation"]

    def exact() -> None:
        for _ in range(20):
            assert optimizer.steps_of(spec(GELU)) == ["GeluFusionL2"]

    in_threads(approximate, exact)


@pytest.mark.parametrize(
    ("guilty", "named"),
    [({"d"}, ("d",)), ({"a"}, ("a",)), ({"b", "e"}, ("b", "e")), (set("de"), ("d", "e"))],
)
def test_few_steps_are_found(guilty: set[str], named: tuple[str, ...]) -> None:
    assert optimizer.fewest("abcde", lambda steps: guilty <= set(steps)) == named


def test_step_without_which_there_is_no_kernel_is_no_culprit() -> None:
    approximate = spec(GELU, config_entries=APPROXIMATE)

    def agrees(spec: zrt.SessionSpec) -> bool:
        if spec != approximate:
            raise zrt.errors.NotImplementedByOrtError("no kernel")
        return False

    assert optimizer.guilty(approximate, agrees) == ()


def test_no_step_is_a_culprit_where_all_agrees() -> None:
    assert optimizer.guilty(spec(GELU, config_entries=APPROXIMATE), lambda spec: True) == ()


@pytest.mark.skipif(platform.machine() != "x86_64", reason="ONNX Runtime has this layout on x86-64 alone")
def test_step_that_changes_a_value_inside_is_named() -> None:
    """The output is 0 in each layout of the convolution, whose sums are made in another order."""
    weight = np.random.default_rng(0).standard_normal((8, 3, 3, 3)).astype(np.float32)
    text = """(float[1, 3, 16, 16] x) => (float[1, 8, 14, 14] y) {
        [conv] c = Conv(x, w) [down] m = Mul(c, zero) [out] y = Abs(m)
    }"""
    model = parsed(text.replace("y) {", "y) <float zero = {0}> {"))
    model.graph.initializer.append(numpy_helper.from_array(weight, "w"))
    found = zrt.diff(spec(model), spec(model, graph_optimization_level="disable_all"), rtol=1e-7, atol=1e-9)
    assert found.first is not None
    assert (found.first.name, found.optimizers, found.optimizers_of) == ("c", ("NchwcTransformer",), "a")
    assert str(found).endswith("without NchwcTransformer in a, 'c' agrees")


def test_comparison_writes_none_of_the_files_that_the_options_name(tmp_path: Path) -> None:
    (tmp_path / "kept.onnx").write_bytes(b"kept")
    written = {
        "optimized_model_filepath": tmp_path / "kept.onnx",
        "profile_file_prefix": tmp_path / "profile",
        "cache": tmp_path / "cache",
    }
    found = zrt.diff(spec(GELU), spec(GELU, config_entries=APPROXIMATE, **written), rtol=1e-6, atol=1e-7)
    assert found.optimizers == ("GeluApproximation",)
    assert [path.name for path in tmp_path.iterdir()] == ["kept.onnx"]
    assert (tmp_path / "kept.onnx").read_bytes() == b"kept"


def test_other_weights_are_no_step_of_the_optimizer() -> None:
    found = zrt.diff(spec(layers(3)), spec(layers(3, changed=1)))
    assert (found.optimizers, found.optimizers_of) == ((), "")


def test_levels_agree() -> None:
    found = zrt.diff(spec(GELU), spec(GELU, graph_optimization_level="disable_all"), rtol=1e-5)
    assert found.equal
    assert str(found) == "equal within the tolerance: 1 outputs, 7 values"
    assert (found.first, found.failed) == (None, "")


@pytest.mark.parametrize("swapped", [False, True])
def test_reference_is_the_onnx_packages(swapped: bool) -> None:
    found = zrt.diff(*in_order(spec(layers(5)), "reference", swapped))
    assert found.equal
    assert len(found.values) == 10


def test_reference_finds_a_kernel_that_disagrees(monkeypatch: pytest.MonkeyPatch) -> None:
    """The evaluator's Tanh is made wrong here: no kernel of ONNX Runtime is known to be."""
    from onnx.reference.ops.op_tanh import Tanh

    monkeypatch.setattr(Tanh, "_run", lambda self, x: (np.tanh(x) + np.float32(0.1),))
    found = zrt.diff(spec(layers(3)), "reference")
    assert found.first is not None
    assert found.first.name == "t0"


def test_precisions_are_compared_by_name() -> None:
    text = "({0}[4] x) => ({0}[4] y) {{ [a] h = Tanh(x) [b] y = Exp(h) }}"
    single, half = (spec(parsed(text.format(kind))) for kind in ("float", "float16"))
    feeds = {"x": np.linspace(-1, 1, 4, dtype=np.float32)}
    found = zrt.diff(single, half, feeds)
    assert [each.name for each in found.values] == ["h", "y"]
    assert found.first is None or found.first.largest < 1e-2
    assert found.values[0].ulps is None
    assert zrt.diff(single, half, feeds, rtol=1e-2).equal


def test_given_feeds_are_used() -> None:
    model = spec(parsed("(float[n] x) => (float[n] y) { y = Sqrt(x) }"))
    other = spec(parsed("(float[n] x) => (float[n] y) { h = Abs(x) y = Sqrt(h) }"))
    assert zrt.diff(model, other, {"x": np.array([1, 4], np.float32)}).equal
    found = zrt.diff(model, other, {"x": np.array([1, -4], np.float32)})
    assert (found.equal, found.outputs[0].largest) == (False, np.inf)


def test_packed_feeds_are_made_up() -> None:
    model = spec(parsed("(int4[n] x) => (float[n] y) { h = Cast <to = 1> (x) y = Neg(h) }", opset=21))
    found = zrt.diff(model, model)
    assert (found.equal, len(found.values)) == (True, 2)


@pytest.mark.parametrize("swapped", [False, True])
def test_each_side_gets_floats_in_its_own_type(swapped: bool) -> None:
    """The evaluator of the onnx package adds no float64 to a float32, and ONNX Runtime takes none."""
    models = {}
    for kind, dtype in (("float", np.float32), ("float16", np.float16)):
        models[kind] = parsed(f"({kind}[4] x) => ({kind}[4] y) {{ y = Add(x, w) }}")
        models[kind].graph.initializer.append(numpy_helper.from_array(np.full(1, 2, dtype), "w"))
    for other in ("reference", spec(models["float16"])):
        a, b = in_order(spec(models["float"]), other, swapped)
        found = zrt.diff(a, b, {"x": np.linspace(-1, 1, 4)}, rtol=1e-2)
        assert (found.equal, found.failed) == (True, "")


def test_float32_feeds_a_model_of_bfloat16() -> None:
    model = spec(parsed("(bfloat16[n] x) => (float[n] y) { y = Cast <to = 1> (x) }"))
    assert zrt.diff(model, "reference", {"x": np.ones(3, np.float32)}).equal


@pytest.mark.parametrize(
    ("feeds", "error", "message"),
    [
        ({"x": np.arange(4)}, zrt.errors.DTypeError, "input 'x': expected float32, got int64"),
        ({"x": np.zeros(5, np.float32)}, zrt.errors.ShapeError, r"input 'x': expected shape \[4\], got \[5\]"),
        ({}, zrt.errors.ArgumentError, "input 'x' is missing"),
    ],
)
@pytest.mark.parametrize("swapped", [False, True])
def test_feeds_that_do_not_fit_are_no_difference(
    feeds: dict[str, Any], error: type[Exception], message: str, swapped: bool
) -> None:
    model = spec(parsed("(float[4] x) => (float[4] y) { y = Tanh(x) }"))
    without = spec(parsed("() => (float[4] y) { y = Constant <value = float[4] {0, 0, 0, 0}> () }"))
    for other in ("reference", without):
        a, b = in_order(model, other, swapped)
        with pytest.raises(error, match=message):
            zrt.diff(a, b, feeds)


def test_values_and_packed_feeds_go_to_the_evaluator_too() -> None:
    model = spec(parsed("(int4[n] x, float[n] z) => (float[n] y) { h = Cast <to = 1> (x) y = Add(h, z) }", opset=21))
    assert zrt.diff(model, "reference").equal
    packed = zrt.Value.from_packed(np.array([0x21], np.uint8), ElementType.INT4, (2,))
    feeds = {"x": packed, "z": zrt.Value.from_array(np.ones(2, np.float32))}
    assert zrt.diff(model, "reference", feeds).equal


@pytest.mark.parametrize("other", ["reference", "session"])
def test_initializers_that_are_fed_are_fed_to_both_sides(other: str) -> None:
    model = parsed("(float[2] x, float[2] w) => (float[2] y) { h = Add(x, w) y = Neg(h) }")
    model.graph.initializer.append(numpy_helper.from_array(np.ones(2, np.float32), "w"))
    added = parsed("(float[2] x, float[2] w) => (float[2] y) { h = Add(x, w) y = Neg(h) }")
    feeds = {"x": np.zeros(2, np.float32), "w": np.full(2, 5, np.float32)}
    assert zrt.diff(spec(model), spec(added) if other == "session" else "reference", feeds).equal
    model.ir_version = 3
    with pytest.raises(zrt.errors.UnknownNameError, match="no input 'w'"):
        zrt.diff(spec(model), "reference", feeds)


@pytest.mark.parametrize("opset", [8, 9, 13, 14])
def test_reference_normalizes_a_batch_by_the_model_alone(opset: int) -> None:
    """The evaluator of the onnx package mixes the mean of the batch into it before opset 14."""
    model = parsed("(float[2, 3, 4] x) => (float[2, 3, 4] y) { y = BatchNormalization(x, s, b, m, v) }", opset)
    for name, numbers in {"s": (1, 2, 3), "b": (0, 1, 0), "m": (5, 0, 1), "v": (1, 4, 9)}.items():
        model.graph.initializer.append(numpy_helper.from_array(np.array(numbers, np.float32), name))
    assert zrt.diff(spec(model), "reference").equal


def test_side_that_fails_is_the_difference() -> None:
    good = spec(parsed("(float[2] x) => (float[2] y) { y = Neg(x) }"))
    bad = spec(parsed("(bfloat16[2] x) => (bfloat16[2] y) { y = Relu(x) }"))
    feeds = {"x": np.ones(2, np.float32)}
    found = zrt.diff(good, bad, feeds)
    assert (found.equal, found.failed.partition(":")[0]) == (False, "b fails, and a runs")
    assert "Relu" in str(found)
    assert zrt.diff(bad, good, feeds).failed.startswith("a fails, and b runs: ")
    with pytest.raises(zrt.Error, match="Relu"):
        zrt.diff(bad, bad, feeds)
    # Without feeds they are made up for the one that loads.
    assert zrt.diff(bad, good).failed.startswith("a fails, and b runs: ")
    with pytest.raises(zrt.Error, match="Relu"):
        zrt.diff(bad, bad)


def test_first_sides_error_is_raised_where_both_fail() -> None:
    model = spec(parsed("(float[4] x, int64[1] s) => (float[n] y) { y = Reshape(x, s) }"))
    feeds = {"x": np.ones(4, np.float32), "s": np.array([3])}
    with pytest.raises(zrt.errors.FailError, match="cannot be reshaped"):
        zrt.diff(model, "reference", feeds)
    with pytest.raises(zrt.errors.ModelError, match="the evaluator of the onnx package cannot run the model"):
        zrt.diff("reference", model, feeds)


def test_outputs_that_one_side_has_alone_are_no_equality() -> None:
    one = spec(parsed("(float[2] x) => (float[2] y) { y = Neg(x) }"))
    other = spec(parsed("(float[2] x) => (float[2] z) { z = Neg(x) }"))
    found = zrt.diff(one, other)
    assert not found.equal
    assert {each.name: each.reason for each in found.outputs} == {
        "y": "only a has this output",
        "z": "only b has this output",
    }
    assert str(found).startswith("output 'y' of a node (Neg): only a has this output")


def test_outputs_that_are_no_tensors_raise() -> None:
    model = spec(parsed("(float[2] x) => (seq(float[2]) y) { y = SequenceConstruct(x) }"))
    with pytest.raises(zrt.errors.UnsupportedError, match="output 'y' is no tensor"):
        zrt.diff(model, model)


@pytest.mark.parametrize("twice", [False, True])
def test_functions_that_call_themselves_raise(twice: bool) -> None:
    """The onnx package ends the process over them, also over one of two definitions of a name."""
    model = parsed("(float[2] x) => (float[2] y) { y = own.F(x) }")
    model.opset_import.add(domain="own", version=1)
    text = '<opset_import: ["" : 17, "own" : 1], domain: "own"> F (p) => (q) { q = own.F(p) }'
    model.functions.append(onnx.parser.parse_function(text))
    if twice:
        model.functions.append(onnx.parser.parse_function(text.replace("q = own.F(p)", "q = Neg(p)")))
    with pytest.raises(zrt.errors.ModelError, match="function 'F' calls itself"):
        zrt.diff(spec(model), spec(model))
    with pytest.raises(zrt.errors.ModelError, match="function 'F' calls itself"):
        zrt.Graph.from_onnx(model).check()


@pytest.mark.parametrize("last", ["a", "b"])
@pytest.mark.parametrize("turned", [False, True])
def test_overloads_of_a_function_are_functions_of_their_own(last: str, turned: bool) -> None:
    """The onnx package ends the process over one that calls itself, and checks one that calls another."""
    model = parsed("(float[2] x) => (float[2] y) { y = own.F(x) }")
    model.opset_import.add(domain="own", version=1)
    model.graph.node[0].overload = "a"
    functions = []
    for overload, operator in (("a", "own.F"), ("b", "Relu")):
        text = f'<opset_import: ["" : 17, "own" : 1], domain: "own"> F (p) => (q) {{ q = {operator}(p) }}'
        functions.append(onnx.parser.parse_function(text))
        functions[-1].overload = overload
    functions[0].node[0].overload = last
    model.functions.extend(reversed(functions) if turned else functions)
    if last == "b":
        zrt.Graph.from_onnx(model).check()
        return
    with pytest.raises(zrt.errors.ModelError, match="function 'F:a' calls itself"):
        zrt.Graph.from_onnx(model).check()


def test_reference_finds_weights_in_a_folder_of_their_own(tmp_path: Any) -> None:
    (tmp_path / "weights").mkdir()
    onnx.save(layers(2), tmp_path / "weights" / "m.onnx", save_as_external_data=True, location="w", size_threshold=0)
    moved = (tmp_path / "weights" / "m.onnx").rename(tmp_path / "m.onnx")
    apart = zrt.SessionSpec(moved, external_data_dir=tmp_path / "weights")
    assert zrt.diff(apart, "reference").equal


def test_missing_feeds_raise() -> None:
    model = spec(parsed("(float[2] x) => (float[2] y) { y = Neg(x) }"))
    with pytest.raises(zrt.errors.ArgumentError, match="'x' is missing"):
        zrt.diff(model, model, {})


def test_wrong_arguments_are_named_before_a_missing_model(tmp_path: Any) -> None:
    missing = zrt.SessionSpec(tmp_path / "none.onnx")
    wrong: dict[str, Any] = {"rtol": float("nan"), "atol": True, "feeds": [1]}
    for name, value in wrong.items():
        with pytest.raises((zrt.errors.ArgumentError, zrt.errors.DTypeError), match=f"{name}: expected"):
            zrt.diff(missing, missing, **{name: value})


@pytest.mark.parametrize("kind", ["INT4", "UINT4"])
def test_packed_values_are_compared(kind: str) -> None:
    def quantized(scale: float) -> zrt.SessionSpec:
        number = getattr(onnx.TensorProto, kind)
        text = f"""(float[4] x) => (float[4] y) <float s = {{{scale}}}> {{
            q = QuantizeLinear <output_dtype = {number}> (x, s)
            y = DequantizeLinear(q, s)
        }}"""
        return spec(parsed(text, opset=21))

    feeds = {"x": np.arange(4, dtype=np.float32)}
    other = spec(quantized(0.5).model, graph_optimization_level="disable_all")
    for side in (other, "reference"):
        found = zrt.diff(quantized(0.5), side, feeds)
        assert (found.equal, [each.name for each in found.values]) == (True, ["q", "y"])
    found = zrt.diff(quantized(0.5), quantized(1.0), feeds)
    assert found.first is not None
    assert (found.first.name, found.first.largest) == ("q", 3)


def test_values_of_other_kinds_are_passed_over() -> None:
    text = """(float[2] x) => (float[2] y) {
        s = SequenceConstruct(x, x)
        zero = Constant <value_int = 0> ()
        a = SequenceAt(s, zero)
        y = Neg(a)
    }"""
    found = zrt.diff(spec(parsed(text)), spec(parsed(text), graph_optimization_level="disable_all"))
    assert found.equal
    assert "s" not in [each.name for each in found.values]


def test_data_for_json() -> None:
    found = zrt.diff(spec(layers(3)), spec(layers(3, changed=1)))
    document = json.loads(json.dumps(found.to_dict()))
    assert (document["equal"], document["first"]) == (False, "m1")
    assert document["values"][0] == {
        "name": "m0",
        "node": "node 'mul0' (MatMul)",
        "within": True,
        "largest": 0,
        "mean": 0,
        "ulps": 0,
        "reason": "",
    }
    assert [each.name for each in found.worst(1)] == ["m1"]


@pytest.fixture
def library_file() -> str:
    path = library().path
    if path is None:
        pytest.skip("ONNX Runtime is linked into zrt: there is no library file")
    return path


class TestOtherLibrary:
    """Side `b` in a process that loads a library by its path."""

    def test_same_library_is_equal(self, library_file: str) -> None:
        found = zrt.diff(spec(GELU), spec(GELU), library=library_file)
        assert found.equal
        assert len(found.values) == 7

    def test_differences_are_those_of_one_process(self, library_file: str) -> None:
        sides = spec(layers(5)), spec(layers(5, changed=2))
        assert str(zrt.diff(*sides, library=library_file)) == str(zrt.diff(*sides))

    def test_steps_of_its_optimizer_are_not_searched(self, library_file: str) -> None:
        found = zrt.diff(spec(GELU), spec(GELU, config_entries=APPROXIMATE), rtol=1e-6, library=library_file)
        assert not found.equal
        assert (found.optimizers, found.optimizers_of) == ((), "")

    def test_reference_on_the_first_side(self, library_file: str) -> None:
        assert zrt.diff("reference", spec(GELU), library=library_file).equal

    def test_model_that_fails_there_is_the_difference(self, library_file: str) -> None:
        broken = parsed("(float[4, 16] x) => (float[4, 16] y) { y = Relu(x) }")
        broken.opset_import[0].version = 999
        found = zrt.diff(
            spec(parsed("(float[4, 16] x) => (float[4, 16] y) { y = Relu(x) }")), spec(broken), library=library_file
        )
        assert found.failed.startswith("b fails, and a runs: ")

    def test_library_that_is_none(self, tmp_path: Path) -> None:
        (tmp_path / "library.so").write_bytes(b"no library")
        with pytest.raises(LibraryError, match=r"library\.so"):
            zrt.diff(spec(GELU), spec(GELU), library=tmp_path / "library.so")

    def test_process_that_ends_is_the_difference(self, library_file: str, monkeypatch: pytest.MonkeyPatch) -> None:
        killing = "import os; from zrt.bench import child; from zrt.diagnosis import sides; "
        killing += "sides.SessionSide.run = lambda *_: os.kill(os.getpid(), 9); child.main()"
        monkeypatch.setattr(child, "PROGRAM", killing)
        assert "ended (SIGKILL)" in zrt.diff(spec(GELU), spec(GELU), library=library_file).failed

    def test_process_without_a_parent_ends_silently(self) -> None:
        with subprocess.Popen(
            [sys.executable, "-c", child.PROGRAM], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE
        ) as process:
            pipes: Any = process
            pipes.stdout.close()
            pickle.dump((abs, (-1,)), pipes.stdin)
            pipes.stdin.close()
            assert pipes.stderr.read() == b""
        assert process.returncode == 0

    def test_feeds_that_cannot_be_sent(self, library_file: str) -> None:
        model = spec(parsed("(seq(float[2]) x) => (float[n] y) { y = ConcatFromSequence <axis = 0> (x) }"))
        feeds = {"x": zrt.Value.from_sequence([np.zeros(2, np.float32)])}
        with pytest.raises(UnsupportedError, match="cannot be sent"):
            zrt.diff(model, model, feeds, library=library_file)
