"""`fingerprint`: equal for the same content in other files, different for any other content."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import pytest

import zrt
from benches.models import build
from tests.support import models
from zrt.errors import ModelError, UnsupportedError

BRANCHES = """(float[2] x, bool c) => (float[2] y) <float[2] w = {1, 2}> {
    y = If (c) <
        then_branch = yes () => (float[2] a) <float[2] v = {3, 4}> { a = Add(x, v) },
        else_branch = no () => (float[2] b) { k = Constant <value = float[2] {5, 6}> () b = Add(k, w) }
    >
}"""


@pytest.fixture
def model() -> onnx.ModelProto:
    return build.cnn()


def branches() -> onnx.ModelProto:
    return models.parsed(BRANCHES)


def rename(model: onnx.ModelProto) -> None:
    model.graph.name = model.graph.node[0].name = "another name"


def describe(model: onnx.ModelProto) -> None:
    model.producer_name = model.doc_string = model.graph.doc_string = model.graph.node[0].doc_string = "words"
    model.graph.input[0].doc_string = model.graph.initializer[0].doc_string = "more"
    model.model_version, model.domain = 5, "org.example"
    onnx.helper.set_model_props(model, {"key": "value"})


def infer_types(model: onnx.ModelProto) -> None:
    model.CopyFrom(onnx.shape_inference.infer_shapes(model))
    assert model.graph.value_info


@pytest.mark.parametrize("change", [rename, describe, infer_types])
def test_other_words_change_nothing(model: onnx.ModelProto, change: Callable[[onnx.ModelProto], None]) -> None:
    before = zrt.fingerprint(model)
    change(model)
    assert zrt.fingerprint(model) == before


@pytest.mark.parametrize("size", [0, 1024])
def test_place_of_the_weights_changes_nothing(model: onnx.ModelProto, tmp_path: Path, size: int) -> None:
    before = zrt.fingerprint(model)
    path = tmp_path / "model.onnx"
    onnx.save(model, path, save_as_external_data=True, location="weights.bin", size_threshold=size)
    assert zrt.fingerprint(path) == before
    moved = tmp_path / "elsewhere"
    moved.mkdir()
    (tmp_path / "weights.bin").rename(moved / "weights.bin")
    assert zrt.fingerprint(path, external_data_dir=moved) == before
    with pytest.raises(ModelError, match=r"initializer .*weights\.bin"):
        zrt.fingerprint(path)


def test_weights_and_graph_have_a_digest_each(model: onnx.ModelProto) -> None:
    before = zrt.fingerprint(model)
    tensor = model.graph.initializer[0]
    changed = onnx.numpy_helper.to_array(tensor).copy()
    changed.flat[-1] += 1
    tensor.CopyFrom(onnx.numpy_helper.from_array(changed, tensor.name))
    after = zrt.fingerprint(model)
    assert (after.graph == before.graph, after.weights == before.weights) == (True, False)
    assert str(after) != str(before)
    model.graph.node[0].attribute[0].name = "other"
    assert zrt.fingerprint(model).weights == after.weights
    assert zrt.fingerprint(model).graph != after.graph


def graph_of(model: onnx.ModelProto, branch: int) -> onnx.GraphProto:
    return model.graph.node[0].attribute[branch].g


def change_weight_of_branch(model: onnx.ModelProto) -> None:
    graph_of(model, 0).initializer[0].CopyFrom(onnx.numpy_helper.from_array(np.array([3, 9], np.float32), "v"))


def change_constant(model: onnx.ModelProto) -> None:
    graph_of(model, 1).node[0].attribute[0].t.CopyFrom(onnx.numpy_helper.from_array(np.array([5, 9], np.float32)))


def change_operator_of_branch(model: onnx.ModelProto) -> None:
    graph_of(model, 0).node[0].op_type = "Sub"


def change_opset(model: onnx.ModelProto) -> None:
    model.opset_import[0].version += 1


def change_shape(model: onnx.ModelProto) -> None:
    model.graph.input[0].type.tensor_type.shape.dim[0].dim_value = 3


@pytest.mark.parametrize(
    "change", [change_weight_of_branch, change_constant, change_operator_of_branch, change_opset, change_shape]
)
def test_change_of_content_is_seen(change: Callable[[onnx.ModelProto], None]) -> None:
    model = branches()
    change(model)
    assert zrt.fingerprint(model) != zrt.fingerprint(branches())


def test_texts_and_sparse_weights_count() -> None:
    def texts(*words: str) -> zrt.Fingerprint:
        weight = onnx.helper.make_tensor("w", onnx.TensorProto.STRING, [len(words)], [word.encode() for word in words])
        node = onnx.helper.make_node("Identity", ["w"], ["y"])
        output = onnx.helper.make_tensor_value_info("y", onnx.TensorProto.STRING, [len(words)])
        return zrt.fingerprint(onnx.helper.make_model(onnx.helper.make_graph([node], "g", [], [output], [weight])))

    def sparse(value: float, place: int, raw: bool = True) -> zrt.Fingerprint:
        data = np.float32(value).tobytes() if raw else [value]
        values = onnx.helper.make_tensor("w", onnx.TensorProto.FLOAT, [1], data, raw)
        indices = onnx.numpy_helper.from_array(np.array([place], np.int64))
        weight = onnx.helper.make_sparse_tensor(values, indices, [4])
        node = onnx.helper.make_node("Identity", ["w"], ["y"])
        output = onnx.helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, [4])
        graph = onnx.helper.make_graph([node], "g", [], [output], sparse_initializer=[weight])
        return zrt.fingerprint(onnx.helper.make_model(graph))

    assert len({str(texts("a", "b")), str(texts("a", "c")), str(texts("ab", ""))}) == 3
    assert len({str(sparse(1, 2)), str(sparse(1, 3)), str(sparse(2, 2))}) == 3
    # The same elements in another field of the tensor.
    assert sparse(1, 2, raw=False) == sparse(1, 2)


def test_deep_graphs_are_refused() -> None:
    data = b""
    for _ in range(200):
        # A graph with a node with an attribute with a graph.
        for number in (6, 5, 1):
            data = bytes([number << 3 | 2]) + onnx_length(len(data)) + data
    with pytest.raises(ModelError, match="levels deep"):
        zrt.fingerprint(b"\x3a" + onnx_length(len(data)) + data)


def onnx_length(size: int) -> bytes:
    parts = bytearray()
    while size > 127:
        parts.append(size & 127 | 128)
        size >>= 7
    return bytes([*parts, size])


def test_format_of_onnxruntime_is_refused(model: onnx.ModelProto, tmp_path: Path) -> None:
    zrt.save_optimized(model, tmp_path / "m.ort")
    with pytest.raises(UnsupportedError, match="own format"):
        zrt.fingerprint(tmp_path / "m.ort")
