import numpy as np
import onnx
import pytest

import zrt as package
from tests.support import models
from zrt.cli import main


def test_inputs_and_outputs_with_types_and_shapes(zrt_json, saved):
    path = saved(models.double(("batch", None, 4)))
    document = zrt_json("inspect", path)
    value = {"kind": "tensor", "type": "float32", "shape": ["batch", None, 4], "symbolic_dimensions": ["batch"]}
    assert document["inputs"] == [{"name": "x", **value}]
    assert document["outputs"] == [{"name": "y", **value}]
    assert document["bytes"] == path.stat().st_size
    assert document["providers"] == ["CPUExecutionProvider"]


def test_non_tensors_have_their_kind(zrt_json, zrt, saved):
    path = saved(models.to_sequence())
    (output,) = zrt_json("inspect", path)["outputs"]
    assert (output["kind"], output["type"], output["shape"]) == ("sequence", None, None)
    assert "seq(float32[2])" in zrt("inspect", path)


def test_open_rank_is_none(zrt_json, zrt, saved):
    path = saved(models.flatten_of_unknown_rank())
    assert zrt_json("inspect", path)["inputs"][0]["shape"] is None
    assert "[...]" in zrt("inspect", path)


def test_names_give_the_terminal_no_commands(zrt, build, saved):
    model = build("(float[4] x) => (float[4] y) { y = Abs(x) }")
    model.graph.input[0].name = model.graph.node[0].input[0] = "x\x1b[2J\x9b2J\b"
    model.doc_string = "two\nlines\x1b]0;title\x07"
    out = zrt("inspect", saved(model.SerializeToString()))
    assert "x?[2J?2J?" in out
    assert "lines?]0;title?" in out
    assert all(each.isprintable() or each == "\n" for each in out)


def test_names_in_complaints_give_the_terminal_no_commands(complaint, build, saved):
    model = build("(float[4] x) => (float[4] y) { y = Abs(x) }")
    model.graph.node[0].op_type = "Abs\x1b]0;title\x07"
    assert "Abs?]0;title?" in complaint("inspect", saved(model.SerializeToString()), status=1)


@pytest.fixture
def annotated(build, saved):
    """A model with a weight that may be overridden, and everything an author can write."""
    model = build("(float[4] x, float[4] w = {1, 2, 3, 4}) => (float[4] y) { y = Mul(x, w) }")
    model.producer_name = "the tests"
    model.domain = "org.example"
    model.model_version = 7
    model.doc_string = "Scales [each] number."
    onnx.helper.set_model_props(model, {"license": "CC0", "classes": "[a], [/b]"})
    return saved(model.SerializeToString())


def test_overridable_initializers_are_listed_separately(zrt_json, annotated):
    document = zrt_json("inspect", annotated)
    assert [value["name"] for value in document["inputs"]] == ["x"]
    assert [(value["name"], value["shape"]) for value in document["overridable_initializers"]] == [("w", [4])]


def test_metadata_and_the_custom_map(zrt_json, annotated):
    metadata = zrt_json("inspect", annotated)["metadata"]
    assert metadata == {
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
    assert "--full" not in out
    for fact in ("the digit classifier inside zrt", "image", "[batch, 1, 8, 8]", "probabilities", "Apache-2.0"):
        assert fact in out


class TestPlacement:
    def test_placement_of_ports_and_nodes(self, zrt_json, saved):
        path = saved(models.add())
        assert "placement" not in zrt_json("inspect", path)
        placement = zrt_json("inspect", "--placement", path)["placement"]
        assert [(port["name"], port["memory"], port["provider"]) for port in placement["inputs"]] == [
            ("x", "Cpu", "CPUExecutionProvider"),
            ("y", "Cpu", "CPUExecutionProvider"),
        ]
        assert [port["name"] for port in placement["outputs"]] == ["z"]
        assert [(node["op_type"], node["provider"]) for node in placement["nodes"]] == [("Add", "CPUExecutionProvider")]
        assert placement["reason"] == ""

    def test_people_read_the_same(self, zrt, saved):
        path = saved(models.convolution())
        out = zrt("inspect", "--placement", path)
        for fact in ("memory or operator", "Conv", "nodes: 1 on CPUExecutionProvider"):
            assert fact in out
        assert "memory or operator" not in zrt("inspect", path)

    def test_provider_option_sets_the_providers(self, zrt_json, complaint, saved):
        path = saved(models.add())
        document = zrt_json("inspect", "--placement", "--provider", "cpu", path)
        assert document["providers"] == ["CPUExecutionProvider"]
        assert "CUDA" in complaint("inspect", "--provider", "CUDA of yesterday", path, status=2)


class TestContents:
    def test_operators_weights_and_opsets(self, zrt, zrt_json):
        contents = zrt_json("inspect")["contents"]
        assert contents["opsets"].keys() == {""}
        assert contents["nodes"] == sum(contents["operators"].values()) == 8
        assert contents["operators"]["Conv"] == 2
        assert contents["weights"] == 6
        assert contents["parameter_bytes"] == 4 * contents["parameters"]
        out = zrt("inspect")
        assert "operators       8 nodes: Conv 2, Relu 2, MaxPool 1, " in out
        assert f"parameters      {contents['parameters']:,} in 6 weights, {contents['parameter_bytes']:,} bytes" in out
        assert f"opsets          ai.onnx {contents['opsets']['']}" in out

    def test_subgraphs_functions_and_constants_count(self, zrt_json, saved):
        text = """
            <ir_version: 10, opset_import: ["" : 17, "mine" : 1]>
            test (bool c, float[4] x) => (float[4] z) {
                h = If (c) <
                    then_branch = same () => (float[4] y) <float[4] w = {1, 1, 1, 1}> { y = Add(x, w) },
                    else_branch = other () => (float[4] y) <float[4] w = {1, 1, 1, 1}> { y = Add(x, w) }
                >
                k = Constant <value = int64[3] {1, 1, 1}> ()
                z = mine.Twice(h)
            }
            <domain: "mine", opset_import: ["" : 17]>
            Twice (a) => (b) { b = Add(a, a) }
        """
        contents = zrt_json("inspect", saved(onnx.parser.parse_model(text).SerializeToString()))["contents"]
        assert contents["operators"] == {"Add": 3, "If": 1, "Constant": 1, "mine::Twice": 1}
        assert contents["opsets"]["mine"] == 1
        assert (contents["weights"], contents["parameters"], contents["parameter_bytes"]) == (3, 11, 2 * 16 + 24)

    def test_bytes_in_other_files(self, zrt, zrt_json, tmp_path):
        path = models.save_apart(models.weighted(), tmp_path / "split.onnx", "split.weights")
        assert zrt_json("inspect", path)["contents"]["outside"] == {"split.weights": 256}
        assert "256 bytes, 256 of them in split.weights" in zrt("inspect", path)

    def test_missing_file_of_weights_is_named_and_the_rest_is_shown(self, capsys, zrt_json, tmp_path):
        path = models.save_apart(models.weighted(), tmp_path / "split.onnx", "split.weights")
        whole = zrt_json("inspect", path)
        assert whole["missing_files"] == []
        (tmp_path / "split.weights").unlink()
        assert main(["inspect", str(path)]) == 1
        out, err = capsys.readouterr()
        assert "256 bytes, 256 of them in split.weights" in out
        assert (str(path) in err, "'split.weights'" in err) == (True, True)
        assert whole["fingerprint"]["both"] == str(package.fingerprint(models.weighted()))
        missing = {"missing_files": ["split.weights"], "fingerprint": None}
        assert zrt_json("inspect", path, status=1) == whole | missing

    def test_missing_weights_of_packed_types(self, zrt_json, tmp_path):
        weight = onnx.helper.make_tensor("w", onnx.TensorProto.INT4, [512], bytes(256), raw=True)
        nodes = [models.node("DequantizeLinear", ["w", "scale"], ["y"])]
        outputs = [models.tensor("y", models.FLOAT, [512])]
        model = onnx.load_model_from_string(models.build(nodes, [], outputs, {"scale": np.float32(1)}))
        model.graph.initializer.append(weight)
        model.opset_import[0].version = 21
        path = models.save_apart(model.SerializeToString(), tmp_path / "packed.onnx", "packed.weights")
        (tmp_path / "packed.weights").unlink()
        assert zrt_json("inspect", path, status=1)["outputs"][0]["shape"] == [512]

    def test_model_in_the_runtimes_own_format_says_so(self, zrt, zrt_json, tmp_path):
        path = tmp_path / "model.ort"
        package.save_optimized(models.add(), path)
        document = zrt_json("inspect", path)
        assert document["contents"] is None
        assert "operators       cannot be told: ONNX Runtime's own format" in zrt("inspect", path)


class TestLongMetadata:
    def test_long_texts_are_cut_with_a_note(self, zrt, zrt_json, saved):
        model = onnx.load_model_from_string(models.add())
        model.doc_string = "A long story. " * 300
        props = {"characters": "\n".join(map(str, range(6000))), "short": "as it is"}
        onnx.helper.set_model_props(model, props)
        path = saved(model.SerializeToString())
        out = zrt("inspect", path)
        assert len(out.splitlines()) < 40
        assert "28,889 characters" in out
        assert "as it is" in out
        assert out.count("--full shows all") == 1
        assert "5999" not in out
        whole = zrt("inspect", path, "--full")
        assert ("5999" in whole, "--full" in whole) == (True, False)
        metadata = zrt_json("inspect", path)["metadata"]
        assert metadata["custom"]["characters"].endswith("\n5999")
        assert len(metadata["description"]) == 4200

    def test_many_entries_are_cut_with_a_note(self, zrt, saved):
        model = onnx.load_model_from_string(models.add())
        onnx.helper.set_model_props(model, {f"key{index}": "a value" for index in range(100)})
        path = saved(model.SerializeToString())
        out = zrt("inspect", path)
        assert out.count("a value") == 20
        assert "80 more entries of metadata" in out
        assert out.count("--full shows all") == 1
        assert zrt("inspect", path, "--full").count("a value") == 100


@pytest.mark.azure
def test_placement_names_a_provider_that_took_no_node_once(zrt):
    out = zrt("inspect", "--placement", "--provider", "azure")
    assert out.count("AzureExecutionProvider") == 1
    assert "nodes: 8 on CPUExecutionProvider; none on AzureExecutionProvider" in out
