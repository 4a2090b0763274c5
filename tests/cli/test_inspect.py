from __future__ import annotations

import onnx
import pytest

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
