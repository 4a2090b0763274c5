"""`NodeArg` and `ModelMetadata`."""

import copy
import pickle
from typing import Any

import onnx
import pytest

from tests.onnxruntime import models
from tests.onnxruntime.models import identity, model

CPU = ["CPUExecutionProvider"]


def declared(ort: Any, data: bytes) -> list[tuple[str, str, list[Any], str]]:
    session = ort.InferenceSession(data, providers=CPU)
    args = [*session.get_inputs(), *session.get_outputs()]
    return [(each.name, each.type, each.shape, str(each)) for each in args]


@pytest.mark.parametrize(
    ("shape", "dims"), [("[n,4,?,0]", ["n", 4, None, 0]), ("", []), ("[]", []), ("[a,b]", ["a", "b"])]
)
def test_node_arg_of_a_tensor(ort: Any, shape: str, dims: list[Any]) -> None:
    text = f"NodeArg(name='x', type='tensor(float)', shape={dims})"
    assert declared(ort, identity("float", shape))[0] == ("x", "tensor(float)", dims, text)


@pytest.mark.parametrize(
    "element", ["float", "double", "float16", "bfloat16", "int8", "uint16", "int64", "bool", "string"]
)
def test_node_arg_names_the_element_type(ort: Any, element: str) -> None:
    assert declared(ort, identity(element))[0][1] == f"tensor({element})"


def test_node_arg_names_other_kinds(ort: Any) -> None:
    assert declared(ort, models.vectorizer())[0][1:3] == ("map(int64,tensor(float))", [])
    assert declared(ort, models.zip_map())[1][1:3] == ("seq(map(string,tensor(float)))", [])
    text = "agraph (seq(float[n]) s, optional(float[n]) o) => (int64 n, bool b) {"
    text += " n = SequenceLength(s) b = OptionalHasElement(o) }"
    sequence, optional = declared(ort, model(text))[:2]
    assert sequence[1:3] == ("seq(tensor(float))", [])
    assert optional[1:3] == ("optional(tensor(float))", ["n"])


def test_node_arg_is_read_only_and_made_by_sessions_alone(ort: Any) -> None:
    arg = ort.InferenceSession(model(), providers=CPU).get_inputs()[0]
    with pytest.raises(AttributeError, match="has no setter"):
        arg.name = "y"
    with pytest.raises(AttributeError, match="has no attribute 'other'"):
        arg.other = 1
    with pytest.raises(TypeError, match="NodeArg: No constructor defined!"):
        type(arg)()
    for work in (pickle.dumps, copy.deepcopy):
        with pytest.raises(TypeError, match="cannot pickle"):
            work(arg)
    arg.shape.append(5)
    assert arg.shape == ["n", 4]


def test_sessions_keep_the_list_of_their_inputs(ort: Any) -> None:
    session = ort.InferenceSession(model(), providers=CPU)
    assert session.get_inputs() is session.get_inputs()
    assert session.get_outputs()[0] == session.get_outputs()[0]


@pytest.fixture
def metadata(ort: Any) -> Any:
    proto = onnx.load_from_string(model())
    proto.producer_name, proto.domain, proto.doc_string, proto.model_version = "maker", "a.b", "words", 7
    proto.graph.doc_string = "graph's words"
    entry = proto.metadata_props.add()
    entry.key, entry.value = "key", "value"
    return ort.InferenceSession(proto.SerializeToString(), providers=CPU).get_modelmeta()


def test_metadata_has_the_texts_of_the_model(metadata: Any) -> None:
    expected = {
        "producer_name": "maker",
        "graph_name": "agraph",
        "domain": "a.b",
        "description": "words",
        "graph_description": "graph's words",
        "version": 7,
        "custom_metadata_map": {"key": "value"},
    }
    assert {name: getattr(metadata, name) for name in expected} == expected


def test_metadata_of_a_model_without_any(ort: Any) -> None:
    metadata = ort.InferenceSession(model(), providers=CPU).get_modelmeta()
    assert (metadata.producer_name, metadata.version, metadata.custom_metadata_map) == ("", 2**63 - 1, {})


def test_metadata_can_be_written(metadata: Any) -> None:
    metadata.producer_name = "other"
    metadata.version = -1
    metadata.custom_metadata_map = {"a": "b"}
    metadata.custom_metadata_map["c"] = "d"
    assert (metadata.producer_name, metadata.version) == ("other", -1)
    assert metadata.custom_metadata_map == {"a": "b"}


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("version", "7"),
        ("version", 1.5),
        ("version", 2**70),
        ("producer_name", None),
        ("custom_metadata_map", {"a": 1}),
    ],
)
def test_metadata_refuses_wrong_types(metadata: Any, name: str, value: Any) -> None:
    with pytest.raises(TypeError):
        setattr(metadata, name, value)


def test_metadata_has_no_other_attributes_and_no_pickle(metadata: Any) -> None:
    with pytest.raises(AttributeError, match="has no attribute 'other'"):
        metadata.other = 1
    with pytest.raises(TypeError, match="cannot pickle"):
        pickle.dumps(metadata)
    with pytest.raises(TypeError, match="No constructor defined"):
        type(metadata)()
