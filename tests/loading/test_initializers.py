"""`list_initializers`, and the copy of a model with other weights in it."""

import contextlib
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import onnx
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as npst
from onnx import TensorProto, helper, numpy_helper

import zrt
from benches.models import build
from tests.support import models
from zrt.errors import ModelError, UnsupportedError
from zrt.loading import initializers, model_source
from zrt.types import ElementType

DTYPES = [np.float32, np.float64, np.float16, np.int8, np.int64, np.uint16, np.bool_]
arrays = st.sampled_from(DTYPES).flatmap(lambda dtype: npst.arrays(dtype, npst.array_shapes(min_dims=0, min_side=0)))


def holding(weights: dict[str, np.ndarray[Any, Any]]) -> onnx.ModelProto:
    """A model with these initializers, which nothing uses."""
    return models.parsed("(float[2] x) => (float[2] y) { y = Neg(x) }", **weights)


def rewritten(model: onnx.ModelProto, weights: dict[str, bytes | None]) -> onnx.ModelProto:
    with model_source.Source(model) as source, initializers.opened(source) as file:
        return onnx.ModelProto.FromString(file.with_weights(weights))


@given(st.lists(arrays, max_size=4))
def test_each_initializer_is_found(contents):
    weights = {f"w{index}": array for index, array in enumerate(contents)}
    data = holding(weights).SerializeToString()
    infos = zrt.list_initializers(data)
    assert [info.name for info in infos] == list(weights)
    for info, array in zip(infos, contents, strict=True):
        assert info.element_type.dtype == array.dtype
        assert info.shape == array.shape
        assert info.nbytes == array.nbytes
        assert info.location is None
        assert not info.overridable
        # An empty initializer has no bytes.
        if array.size:
            assert data[info.offset : info.offset + info.nbytes] == array.tobytes()


@given(st.lists(arrays, min_size=1, max_size=4), st.data())
def test_replaced_initializers(contents, data):
    model = holding({f"w{index}": array for index, array in enumerate(contents)})
    indexes = data.draw(st.sets(st.sampled_from(range(len(contents)))))
    outside = data.draw(st.sets(st.sampled_from(range(len(contents)))))
    other = {f"w{index}": None if index in outside else bytes(reversed(contents[index].tobytes())) for index in indexes}
    expected = onnx.ModelProto()
    expected.CopyFrom(model)
    for tensor in expected.graph.initializer:
        if tensor.name in other:
            content = other[tensor.name]
            size = len(tensor.raw_data)
            tensor.ClearField("raw_data")
            if content is None:
                tensor.data_location = TensorProto.EXTERNAL
                for key, value in (("location", "given"), ("offset", "0"), ("length", str(size))):
                    tensor.external_data.add(key=key, value=value)
            else:
                tensor.raw_data = content
    assert rewritten(model, other) == expected


def test_without_replacements_the_bytes_are_equal():
    data = build.cnn().SerializeToString()
    with model_source.Source(data) as source, initializers.opened(source) as file:
        assert file.with_weights({}) == data


def test_external_initializer_without_a_place_fills_its_file(tmp_path):
    """ONNX lets a model leave out the offset and the length."""
    weight = np.arange(300, dtype=np.float32)
    (tmp_path / "w.bin").write_bytes(weight.tobytes())
    model = models.parsed("(float[300] x) => (float[300] y) { y = Add(x, w) }", w=np.zeros(300, np.float32))
    (tensor,) = model.graph.initializer
    tensor.ClearField("raw_data")
    tensor.data_location = TensorProto.EXTERNAL
    tensor.external_data.add(key="location", value="w.bin")
    onnx.save_model(model, tmp_path / "m.onnx")
    (info,) = zrt.list_initializers(tmp_path / "m.onnx")
    assert (info.location, info.offset, info.nbytes) == ("w.bin", 0, 1200)
    assert np.array_equal(zrt.read_weights(tmp_path / "m.onnx")["w"].numpy(), weight)


def test_external_initializers(tmp_path):
    build.with_external_weights(build.mlp(64, 2), tmp_path)
    infos = {info.name: info for info in zrt.list_initializers(tmp_path / "mlp.onnx")}
    content = (tmp_path / "mlp.weights").read_bytes()
    for tensor in build.mlp(64, 2).graph.initializer:
        info = infos[tensor.name]
        if info.location is not None:
            assert info.location == "mlp.weights"
            assert content[info.offset : info.offset + info.nbytes] == numpy_helper.to_array(tensor).tobytes()
    assert [info.location for info in infos.values()].count("mlp.weights") == 2


def test_encodings_of_protobuf():
    """float_data and double_data are memory images; varints are not."""
    model = holding({})
    values = [1.5, -2.0, 3.25]
    for name, kind in (("f", TensorProto.FLOAT), ("d", TensorProto.DOUBLE), ("i", TensorProto.INT32)):
        content = values if name != "i" else [1, -2, 3]
        model.graph.initializer.append(helper.make_tensor(name, kind, [3], content))
    model.graph.initializer.append(helper.make_tensor("text", TensorProto.STRING, [1], [b"a"]))
    data = model.SerializeToString()
    infos = {info.name: info for info in zrt.list_initializers(data)}
    assert set(infos) == {"f", "d", "i"}
    assert infos["i"].offset is None
    for name, dtype in (("f", np.float32), ("d", np.float64)):
        assert np.frombuffer(data, dtype, 3, infos[name].offset).tolist() == values


def test_overridable_and_packed():
    model = holding({"w": np.ones(2, np.float32)})
    model.graph.input.append(helper.make_tensor_value_info("w", TensorProto.FLOAT, [2]))
    model.graph.initializer.append(numpy_helper.from_array(np.arange(3).astype(ml_dtypes.int4), "i4"))
    first, second = zrt.list_initializers(model)
    assert first.overridable
    assert not second.overridable
    assert (second.element_type, second.shape, second.nbytes) == (ElementType.INT4, (3,), 2)


def test_graph_in_two_pieces():
    """protobuf merges a message that occurs twice, and other writers than Python's may write one so."""
    model = holding({"a": np.ones(2, np.float32)})
    more = onnx.ModelProto()
    more.graph.initializer.append(numpy_helper.from_array(np.zeros(3, np.float32), "b"))
    data = model.SerializeToString() + more.SerializeToString()
    assert [info.name for info in zrt.list_initializers(data)] == ["a", "b"]
    with model_source.Source(data) as source, initializers.opened(source) as file:
        joined = onnx.ModelProto.FromString(file.with_weights({"b": np.full(3, 7, np.float32).tobytes()}))
    assert numpy_helper.to_array(joined.graph.initializer[1]).tolist() == [7, 7, 7]
    assert joined.graph.node == model.graph.node


@given(st.binary(min_size=1, max_size=64))
def test_any_bytes_give_a_list_or_raise(data):
    with contextlib.suppress(ModelError, UnsupportedError):
        assert isinstance(zrt.list_initializers(data), tuple)


@given(st.data())
def test_damaged_model_gives_a_list_or_raises(data):
    content = bytearray(build.mlp(8, 2).SerializeToString())
    for place in data.draw(st.lists(st.integers(0, len(content) - 1), max_size=4)):
        content[place] = data.draw(st.integers(0, 255))
    with contextlib.suppress(ModelError, UnsupportedError):
        assert isinstance(zrt.list_initializers(bytes(content[: data.draw(st.integers(1, len(content)))])), tuple)


@pytest.mark.parametrize(
    ("key", "value", "says"),
    [
        ("offset", "-4", "offset '-4'"),
        ("length", "12", "its external length is 12"),
        ("offset", "x", "offset 'x'"),
        ("offset", str(10**20), "offset '100000000000000000000'"),
        ("offset", str(2**63), "offset '9223372036854775808'"),
        ("offset", "9" * 5000, "offset '999"),
        ("length", str(10**20), "length '100000000000000000000'"),
        ("length", "-1", "length '-1'"),
        ("location", "a\0b", r"location 'a\\x00b'"),
    ],
)
def test_wrong_external_place_raises(tmp_path, key, value, says):
    build.with_external_weights(build.mlp(64, 2), tmp_path)
    model = onnx.load(tmp_path / "mlp.onnx", load_external_data=False)
    models.move(model.graph.initializer[0], **{key: value})
    with pytest.raises(ModelError, match=rf"initializer 'layer0\.w' .*{says}"):
        zrt.list_initializers(model)


def test_ort_format_raises(tmp_path):
    zrt.save_optimized(build.mlp(8, 1), tmp_path / "mlp.ort")
    with pytest.raises(UnsupportedError, match=r"model '.*mlp\.ort' is in ONNX Runtime's own format"):
        zrt.list_initializers(tmp_path / "mlp.ort")


def test_file_that_becomes_shorter_raises(tmp_path: Path):
    path = tmp_path / "m.onnx"
    path.write_bytes(build.mlp(64, 1).SerializeToString())
    with model_source.Source(path) as source, initializers.opened(source) as file:
        path.write_bytes(b"")
        with pytest.raises(ModelError, match="became shorter"):
            list(file.tensors())
