from __future__ import annotations

import numpy as np
import onnx
import pytest

import zrt as package
from tests.support import models


def test_inputs_and_outputs_with_types_and_shapes(zrt_json, saved):
    path = saved(models.double(("batch", None, 4)))
    found = zrt_json("inspect", path)
    value = {"kind": "tensor", "type": "float32", "shape": ["batch", None, 4], "symbolic_dimensions": ["batch"]}
    assert found["inputs"] == [{"name": "x", **value}]
    assert found["outputs"] == [{"name": "y", **value}]
    assert found["bytes"] == path.stat().st_size
    assert found["providers"] == ["CPUExecutionProvider"]


def test_non_tensors_have_their_kind(zrt_json, zrt, saved):
    path = saved(models.to_sequence())
    (output,) = zrt_json("inspect", path)["outputs"]
    assert (output["kind"], output["type"], output["shape"]) == ("sequence", None, None)
    assert "seq(float32[2])" in zrt("inspect", path)


def test_open_rank_is_none(zrt_json, zrt, saved):
    path = saved(models.flatten_of_unknown_rank())
    assert zrt_json("inspect", path)["inputs"][0]["shape"] is None
    assert "[...]" in zrt("inspect", path)


@pytest.fixture
def annotated(saved):
    """A model with a weight that may be overridden, and everything an author can write."""
    model = onnx.load_model_from_string(
        models.build(
            [models.node("Mul", ["x", "w"], ["y"])],
            [models.tensor("x", models.FLOAT, [4]), models.tensor("w", models.FLOAT, [4])],
            [models.tensor("y", models.FLOAT, [4])],
            {"w": [1.0, 2.0, 3.0, 4.0]},
        )
    )
    model.graph.initializer[0].CopyFrom(onnx.helper.make_tensor("w", models.FLOAT, [4], [1.0, 2.0, 3.0, 4.0]))
    model.producer_name = "the tests"
    model.domain = "org.example"
    model.model_version = 7
    model.doc_string = "Scales [each] number."
    onnx.helper.set_model_props(model, {"license": "CC0", "classes": "[a], [/b]"})
    return saved(model.SerializeToString())


def test_overridable_initializers_are_listed_separately(zrt_json, annotated):
    found = zrt_json("inspect", annotated)
    assert [value["name"] for value in found["inputs"]] == ["x"]
    assert [(value["name"], value["shape"]) for value in found["overridable_initializers"]] == [("w", [4])]


def test_metadata_and_the_custom_map(zrt_json, annotated):
    found = zrt_json("inspect", annotated)["metadata"]
    assert found == {
        "producer": "the tests",
        "graph": "test",
        "domain": "org.example",
        "description": "Scales [each] number.",
        "graph_description": "",
        "version": 7,
        "custom": {"license": "CC0", "classes": "[a], [/b]"},
    }


def test_a_model_without_a_version_has_none(zrt_json):
    assert zrt_json("inspect")["metadata"]["version"] is None


def test_text_has_the_same_facts_and_keeps_brackets(zrt, annotated):
    out = zrt("inspect", annotated)
    for fact in ("initializer", "Scales [each] number.", "[a], [/b]", "org.example", "the tests", "7", "float32"):
        assert fact in out


def test_shipped_model_has_metadata(zrt):
    out = zrt("inspect")
    for fact in ("the digit classifier inside zrt", "image", "[batch, 1, 8, 8]", "probabilities", "Apache-2.0"):
        assert fact in out


class TestPlacement:
    def test_placement_of_ports_and_nodes(self, zrt_json, saved):
        path = saved(models.add())
        assert "placement" not in zrt_json("inspect", path)
        found = zrt_json("inspect", "--placement", path)["placement"]
        assert [(port["name"], port["memory"], port["provider"]) for port in found["inputs"]] == [
            ("x", "Cpu", "CPUExecutionProvider"),
            ("y", "Cpu", "CPUExecutionProvider"),
        ]
        assert [port["name"] for port in found["outputs"]] == ["z"]
        assert [(node["op_type"], node["provider"]) for node in found["nodes"]] == [("Add", "CPUExecutionProvider")]
        assert found["reason"] == ""

    def test_people_read_the_same(self, zrt, saved):
        path = saved(models.convolution())
        out = zrt("inspect", "--placement", path)
        for fact in ("memory or operator", "Conv", "nodes: 1 on CPUExecutionProvider"):
            assert fact in out
        assert "memory or operator" not in zrt("inspect", path)

    def test_provider_option_sets_the_providers(self, zrt_json, complaint, saved):
        path = saved(models.add())
        found = zrt_json("inspect", "--placement", "--provider", "cpu", path)
        assert found["providers"] == ["CPUExecutionProvider"]
        assert "CUDA" in complaint("inspect", "--provider", "CUDA of yesterday", path, status=2)


class TestContents:
    def test_operators_weights_and_opsets(self, zrt, zrt_json):
        found = zrt_json("inspect")["contents"]
        assert found["opsets"].keys() == {""}
        assert found["nodes"] == sum(found["operators"].values()) == 8
        assert found["operators"]["Conv"] == 2
        assert found["weights"] == 6
        assert found["parameter_bytes"] == 4 * found["parameters"]
        out = zrt("inspect")
        assert "operators       8 nodes: Conv 2, Relu 2, MaxPool 1, " in out
        assert f"parameters      {found['parameters']:,} in 6 weights, {found['parameter_bytes']:,} bytes" in out
        assert f"opsets          ai.onnx {found['opsets']['']}" in out

    def test_subgraphs_functions_and_constants_count(self, zrt_json, saved):
        inner = onnx.helper.make_graph(
            [onnx.helper.make_node("Add", ["x", "w"], ["y"])],
            "branch",
            [],
            [models.tensor("y", models.FLOAT, [4])],
            [onnx.numpy_helper.from_array(np.ones(4, np.float32), "w")],
        )
        model = onnx.load_model_from_string(
            models.build(
                [
                    onnx.helper.make_node("If", ["c"], ["h"], then_branch=inner, else_branch=inner),
                    onnx.helper.make_node(
                        "Constant", [], ["k"], value=onnx.numpy_helper.from_array(np.ones(3, np.int64))
                    ),
                    onnx.helper.make_node("Twice", ["h"], ["z"], domain="mine"),
                ],
                [models.tensor("c", onnx.TensorProto.BOOL, []), models.tensor("x", models.FLOAT, [4])],
                [models.tensor("z", models.FLOAT, [4])],
            )
        )
        twice = [onnx.helper.make_node("Add", ["a", "a"], ["b"])]
        opsets = [onnx.helper.make_opsetid("", 17)]
        model.functions.append(onnx.helper.make_function("mine", "Twice", ["a"], ["b"], twice, opsets))
        model.opset_import.append(onnx.helper.make_opsetid("mine", 1))
        found = zrt_json("inspect", saved(model.SerializeToString()))["contents"]
        assert found["operators"] == {"Add": 3, "If": 1, "Constant": 1, "mine::Twice": 1}
        assert found["opsets"]["mine"] == 1
        assert (found["weights"], found["parameters"], found["parameter_bytes"]) == (3, 11, 2 * 16 + 24)

    def test_bytes_in_other_files(self, zrt, zrt_json, tmp_path):
        path = models.save_apart(models.weighted(), tmp_path / "split.onnx", "split.weights")
        assert zrt_json("inspect", path)["contents"]["outside"] == {"split.weights": 256}
        assert "256 bytes, 256 of them in split.weights" in zrt("inspect", path)

    def test_model_in_the_runtimes_own_format_says_so(self, zrt, zrt_json, tmp_path):
        path = tmp_path / "model.ort"
        package.save_optimized(models.add(), path)
        found = zrt_json("inspect", path)
        assert found["contents"] is None
        assert "operators       cannot be told: ONNX Runtime's own format" in zrt("inspect", path)


class TestLongMetadata:
    @pytest.fixture
    def wordy(self, saved):
        model = onnx.load_model_from_string(models.add())
        model.doc_string = "A long story. " * 300
        props = {"characters": "\n".join(map(str, range(6000))), "short": "as it is"}
        onnx.helper.set_model_props(model, props)
        return saved(model.SerializeToString())

    @pytest.fixture
    def many(self, saved):
        model = onnx.load_model_from_string(models.add())
        onnx.helper.set_model_props(model, {f"key{index}": "a value" for index in range(100)})
        return saved(model.SerializeToString())

    def test_it_is_cut_with_a_note(self, zrt, wordy):
        out = zrt("inspect", wordy)
        assert len(out.splitlines()) < 40
        assert "28,889 characters" in out
        assert "as it is" in out
        assert out.count("--full shows all") == 1
        assert "5999" not in out

    def test_full_shows_all(self, zrt, wordy):
        out = zrt("inspect", wordy, "--full")
        assert "5999" in out
        assert "--full" not in out

    def test_many_entries_are_cut_with_a_note(self, zrt, many):
        out = zrt("inspect", many)
        assert out.count("a value") == 20
        assert "80 more entries of metadata" in out
        assert out.count("--full shows all") == 1
        assert zrt("inspect", many, "--full").count("a value") == 100

    def test_json_has_all(self, zrt_json, wordy):
        found = zrt_json("inspect", wordy)["metadata"]
        assert found["custom"]["characters"].endswith("\n5999")
        assert len(found["description"]) == 4200

    def test_short_metadata_has_no_note(self, zrt):
        assert "--full" not in zrt("inspect")


@pytest.mark.azure
def test_placement_names_a_provider_that_took_no_node_once(zrt):
    out = zrt("inspect", "--placement", "--provider", "azure")
    assert out.count("AzureExecutionProvider") == 1
    assert "nodes: 8 on CPUExecutionProvider; none on AzureExecutionProvider" in out
