"""The provider of each node, and sessions that refuse the fallback to the CPU."""

import gc
import weakref

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

import zrt
from zrt.bench.machine import resident_bytes
from zrt.errors import FailError, ProviderError
from zrt.providers import node_assignment
from zrt.providers.node_assignment import AssignedNode, Assignment

CPU = "CPUExecutionProvider"
X = np.array([-1, 2], np.float32)
BRANCHES = """
(bool c, float[n] x) => (float[n] y) {
    y = If (c) <
        then_branch = yes () => (float[n] a) { a = Relu(x) },
        else_branch = no () => (float[n] b) { b = Sigmoid(x) }
    >
}
"""


def named(*nodes: tuple[str, str, str]) -> onnx.ModelProto:
    """A chain of (operator, name, domain) over floats."""
    names = ["x", *(f"t{i}" for i in range(len(nodes) - 1)), "y"]
    graph = helper.make_graph(
        [
            helper.make_node(op, [names[i]], [names[i + 1]], name=name, domain=domain)
            for i, (op, name, domain) in enumerate(nodes)
        ],
        "chain",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n"])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["n"])],
    )
    opsets = [helper.make_opsetid("", 21), helper.make_opsetid("com.microsoft", 1)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=10)


CHAIN = named(("Relu", "first", ""), ("Gelu", "second", "com.microsoft"), ("Sigmoid", "", ""))


def nodes_of(assignments: tuple[Assignment, ...]) -> list[AssignedNode]:
    return [node for each in assignments for node in each.nodes]


class TestRead:
    def recorded(self, model, **fields):
        return zrt.Session(model, zrt.SessionOptions(record_placement=True, **fields))

    def test_names_each_node_once(self):
        session = self.recorded(CHAIN)
        assignments = node_assignment.read(session._open())
        assert {each.provider for each in assignments} == {CPU}
        assert sorted(map(str, nodes_of(assignments))) == ["Relu 'first'", "Sigmoid", "com.microsoft::Gelu 'second'"]

    def test_is_plain_data_that_outlives_the_session(self):
        session = self.recorded(CHAIN)
        assignments = node_assignment.read(session._open())
        gone = weakref.ref(session)
        session.close()
        del session
        gc.collect()
        assert gone() is None
        assert AssignedNode("first", "Relu", "ai.onnx") in nodes_of(assignments)

    def test_holds_the_bodies_of_branches(self, build):
        nodes = nodes_of(node_assignment.read(self.recorded(build(BRANCHES))._open()))
        assert {node.op_type for node in nodes} >= {"If", "Relu", "Sigmoid"}

    def test_is_empty_for_a_graph_without_nodes(self, build):
        assert node_assignment.read(self.recorded(build("(float[n] x) => (float[n] x) { }"))._open()) == ()

    def test_session_without_a_record_raises(self):
        with pytest.raises(FailError, match="record_ep_graph_assignment_info"):
            node_assignment.read(zrt.Session(CHAIN)._open())


@pytest.mark.azure
class TestStrict:
    def test_error_names_the_nodes(self):
        with pytest.raises(ProviderError) as caught:
            zrt.Session(CHAIN, providers=["azure"], strict=True)
        assert str(caught.value) == (
            "ModelProto: strict: of its nodes 3 would run on CPUExecutionProvider, though AzureExecutionProvider "
            "was asked for: Relu 'first', com.microsoft::Gelu 'second', Sigmoid"
        )

    def test_error_names_the_model(self, tmp_path):
        onnx.save(CHAIN, tmp_path / "chain.onnx")
        with pytest.raises(ProviderError, match=r"^model '.*chain\.onnx': strict: "):
            zrt.Session(tmp_path / "chain.onnx", providers=["azure"], strict=True)

    def test_error_names_twenty_nodes_and_counts_the_others(self):
        model = named(*(("Relu", f"n{i}", "") for i in range(23)))
        options = zrt.SessionOptions(graph_optimization_level="DISABLE_ALL")
        with pytest.raises(ProviderError, match=r"of its nodes 23 .* Relu 'n19' and 3 more$") as caught:
            zrt.Session(model, options, providers=["azure"], strict=True)
        assert "'n20'" not in str(caught.value)

    def test_error_keeps_no_session(self, build):
        model = build("(float[4096] x) => (float[2048, 4096] y) { y = Add(x, w) }", w=np.ones((2048, 4096), np.float32))
        content = model.SerializeToString()
        zrt.Session(content, providers=["azure"]).close()
        before = resident_bytes()
        errors = []
        for _ in range(3):
            with pytest.raises(ProviderError, match="strict") as caught:
                zrt.Session(content, providers=["azure"], strict=True)
            errors.append(caught.value)
        assert all(error.__traceback__ for error in errors)
        # The weights take 32 MiB.
        assert resident_bytes() - before < 48 << 20

    @pytest.mark.parametrize(
        "allow",
        [
            ["Relu", "Gelu", "Sigmoid"],
            ("ai.onnx::Relu", "::Sigmoid", "com.microsoft::Gelu"),
            iter(["Relu", "Gelu", "Sigmoid"]),
            {"Relu", "Gelu", "Sigmoid", "Nonesuch"},
        ],
        ids=["list", "domains", "iterator", "set"],
    )
    def test_allowed_operators_pass(self, allow):
        session = zrt.Session(CHAIN, providers=["azure"], strict=True, allow=allow)
        assert session.providers == ("AzureExecutionProvider", CPU)
        assert session.run([X])[0].shape == (2,)

    @pytest.mark.parametrize(
        ("allow", "left"),
        [
            (["Relu", "Gelu"], "Sigmoid"),
            (["Relu", "com.microsoft::Sigmoid", "Gelu"], "Sigmoid"),
            (["Relu", "ai.onnx::Gelu", "Sigmoid"], "com.microsoft::Gelu 'second'"),
            (["relu", "Gelu", "Sigmoid"], "Relu 'first'"),
        ],
        ids=repr,
    )
    def test_other_operators_raise(self, allow, left):
        with pytest.raises(ProviderError, match=rf"of its nodes 1 .*: {left}$"):
            zrt.Session(CHAIN, providers=["azure"], strict=True, allow=allow)

    def test_holds_inside_branches(self, build):
        with pytest.raises(ProviderError, match=r"of its nodes 1 .*: Sigmoid"):
            zrt.Session(build(BRANCHES), providers=["azure"], strict=True, allow=["If", "Relu"])

    @pytest.mark.parametrize("share_weights", [False, True])
    @pytest.mark.parametrize("kind", [zrt.Runtime, zrt.DynamicRuntime], ids=lambda kind: kind.__name__)
    def test_of_runtimes(self, kind, share_weights):
        arguments = {"shapes": {"x": (2,)}} if kind is zrt.Runtime else {}
        with pytest.raises(ProviderError, match="of its nodes 3 would run on"):
            kind.replicate(CHAIN, 2, providers=["azure"], strict=True, share_weights=share_weights, **arguments)
        allow = iter(["Relu", "Gelu", "Sigmoid"])
        with kind.replicate(
            CHAIN, 2, providers=["azure"], strict=True, allow=allow, share_weights=share_weights, **arguments
        ) as runtime:
            lane = runtime[0] if kind is zrt.Runtime else runtime.lane({"x": (2,)})
            lane.run()

    def test_of_one_inference(self):
        with pytest.raises(ProviderError, match="strict"):
            zrt.infer(CHAIN, [X], providers=["azure"], strict=True)
        [y] = zrt.infer(CHAIN, [X], providers=["azure"], strict=True, allow=["Relu", "Gelu", "Sigmoid"])
        assert y.shape == (2,)

    def test_works_with_and_without_record_placement(self):
        options = zrt.SessionOptions(
            config_entries={"session.record_ep_graph_assignment_info": "0"}, log_severity_level="ERROR"
        )
        with pytest.raises(ProviderError, match="strict"):
            zrt.Session(CHAIN, options, providers=["azure"], strict=True)
        both = zrt.SessionOptions(record_placement=True)
        with pytest.raises(ProviderError, match="strict"):
            zrt.Session(CHAIN, both, providers=["azure"], strict=True)

    def test_a_graph_without_nodes_passes(self, build):
        zrt.Session(build("(float[n] x) => (float[n] x) { }"), providers=["azure"], strict=True)


class TestArguments:
    @pytest.mark.parametrize("providers", [None, [], ["cpu"]], ids=repr)
    def test_cpu_alone_passes(self, providers):
        session = zrt.Session(CHAIN, providers=providers, strict=True)
        # Without a demand there is no record.
        with pytest.raises(FailError):
            node_assignment.read(session._open())
