import json

import pytest

import zrt
from tests.support import models

CPU = "CPUExecutionProvider"
TEST = "ZrtTestProvider"


@pytest.fixture
def mixed(plugin, build):
    """Half of it on the device: a = Relu(x), y = Neg(a), z = Abs(x)."""

    def load(**options):
        model = build("(float[n] x) => (float[n] y, float[n] z) { a = Relu(x) y = Neg(a) z = Abs(x) }")
        for node in model.graph.node:
            node.name = f"the_{node.op_type.lower()}"
        options = zrt.SessionOptions(log_severity_level="FATAL", **options)
        return zrt.Session(model, options, [plugin.own])

    return load


class TestPorts:
    def test_ports_on_the_cpu(self, relu):
        placement = relu.placement()
        (port,) = placement.inputs
        assert (port.name, port.memory.name, port.provider) == ("x", "Cpu", CPU)
        assert port.device == zrt.ep_devices()[0]
        assert [port.name for port in placement.outputs] == ["y"]

    def test_ports_on_a_device(self, plugin, mixed):
        placement = mixed().placement()
        assert [(port.name, port.memory.is_host, port.provider) for port in placement.inputs] == [("x", True, CPU)]
        first, second = placement.outputs
        assert (first.name, first.memory, first.provider, first.device) == ("y", plugin.own.memory, TEST, plugin.own)
        assert (second.name, second.memory.is_host, second.provider) == ("z", True, CPU)

    def test_model_without_inputs(self, load):
        placement = load("() => (float[2] y) { y = Constant <value_floats = [1.0, 2.0]> () }").placement()
        assert placement.inputs == ()
        assert placement.outputs[0].memory.is_host

    def test_outputs_that_no_node_makes(self):
        for model in (models.passing_through(), models.constant_outputs()):
            placement = zrt.Session(model).placement()
            assert {port.provider for port in placement.outputs} == {CPU}
            assert all(port.memory.is_host for port in placement.outputs)

    def test_outputs_without_a_known_provider(self, plugin, build):
        session = zrt.Session(build("(float[n] x) => (float[n] x, float[n] y) { y = Neg(x) }"), providers=[plugin.own])
        assert [(port.provider, port.device) for port in session.placement().outputs] == [(None, None)] * 2
        assert "?" in str(session.placement())

    def test_unused_input(self, load):
        session = load("(float[n] x, float[n] unused) => (float[n] y) { y = Neg(x) }")
        assert [port.provider for port in session.placement().inputs] == [CPU, CPU]


class TestNodes:
    def test_every_node_with_its_provider(self, mixed):
        placement = mixed(record_placement=True).placement()
        assert placement.reason == ""
        assert {(node.name, node.op_type, node.domain, node.provider) for node in placement.nodes} == {
            ("the_relu", "Relu", "ai.onnx", CPU),
            ("the_neg", "Neg", "ai.onnx", TEST),
            ("the_abs", "Abs", "ai.onnx", CPU),
        }
        assert placement.providers == {TEST: 1, CPU: 2}

    def test_without_the_record_there_is_a_reason(self, mixed):
        placement = mixed().placement()
        assert (placement.subgraphs, placement.nodes, placement.providers) == (None, (), {})
        assert placement.reason == "not recorded; load the session with SessionOptions(record_placement=True)"

    def test_session_of_a_policy_records_nodes(self, plugin, negate):
        assert negate(zrt.DevicePolicy.PREFER_NPU).placement().providers == {TEST: 1}

    def test_node_of_another_domain(self):
        model = '<ir_version: 10, opset_import: ["" : 21, "com.microsoft" : 1]> t (float[n] x) => (float[n] y) {'
        import onnx

        proto = onnx.parser.parse_model(f"{model} y = com.microsoft.Gelu(x) }}")
        placement = zrt.Session(proto, zrt.SessionOptions(record_placement=True)).placement()
        assert [(node.op_type, node.domain) for node in placement.nodes] == [("Gelu", "com.microsoft")]
        assert "com.microsoft::Gelu" in str(placement)


class TestForms:
    def test_str_is_a_table(self, mixed):
        session = mixed(record_placement=True)
        assert sorted(str(session.placement()).splitlines()) == sorted(
            [
                "input   x         Cpu        CPUExecutionProvider",
                "output  y         ZrtTest:0  ZrtTestProvider",
                "output  z         Cpu        CPUExecutionProvider",
                "node    the_neg   Neg        ZrtTestProvider",
                "node    the_abs   Abs        CPUExecutionProvider",
                "node    the_relu  Relu       CPUExecutionProvider",
            ]
        )
        assert str(mixed().placement()).endswith("\nnodes: " + mixed().placement().reason)

    def test_to_dict_is_json(self, plugin, mixed):
        document = json.loads(json.dumps(mixed(record_placement=True).placement().to_dict()))
        assert document["outputs"][0] == {
            "name": "y",
            "memory": "ZrtTest",
            "device_id": 0,
            "on_host": False,
            "provider": TEST,
            "device": str(plugin.own),
        }
        assert {"name": "the_neg", "op_type": "Neg", "domain": "ai.onnx", "provider": TEST} in document["nodes"]
        assert document["reason"] == ""
        document = mixed().placement().to_dict()
        assert document["nodes"] is None
        assert "record_placement" in document["reason"]
