"""Graphs saved to files."""

import os
import sys
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

import zrt
from tests.graph.conftest import QUIET
from zrt.errors import ArgumentError, ModelError

FEEDS = {"x": np.ones((1, 4), np.float32)}


def outside(path: Path) -> set[str]:
    model = onnx.load(path, load_external_data=False)
    return {tensor.name for tensor in model.graph.initializer if tensor.external_data}


def test_description_of_an_external_weight_stays(three_layers: Any, tmp_path: Path) -> None:
    model = three_layers(False).to_onnx()
    weight = model.graph.initializer[0]
    weight.doc_string = "of the first layer"
    weight.metadata_props.add(key="k", value="v")
    zrt.Graph.from_onnx(model).save(tmp_path / "net.onnx", external_data=True, size_threshold=0)
    assert outside(tmp_path / "net.onnx")
    saved = onnx.load(tmp_path / "net.onnx").graph.initializer[0]
    saved.ClearField("data_location")
    assert saved == weight


@pytest.mark.parametrize("borrow", [False, True])
@pytest.mark.parametrize(
    ("threshold", "names"),
    [
        (0, {"w0", "w1", "w2", "b0", "b1", "b2"}),
        (128, {"w0", "w1", "w2", "b0", "b1"}),
        (1024, {"w1"}),
        (1 << 20, set()),
    ],
)
def test_size_threshold_of_external_weights(
    borrow: bool, threshold: int, names: set[str], three_layers: Any, tmp_path: Path
) -> None:
    graph, path = three_layers(borrow), tmp_path / "net.onnx"
    graph.save(path, external_data=True, size_threshold=threshold)
    assert outside(path) == names
    assert (tmp_path / "net.onnx.data").exists()
    onnx.checker.check_model(path, full_check=True)
    assert onnx.load(path) != graph.to_onnx() or not names
    assert zrt.Graph.from_onnx(path).to_onnx() == graph.to_onnx()
    np.testing.assert_array_equal(zrt.Session(path, QUIET).run(FEEDS)[0], graph.session(QUIET).run(FEEDS)[0])


def test_saving_again_replaces_both_files(three_layers: Any, tmp_path: Path) -> None:
    path = tmp_path / "net.onnx"
    for _ in range(2):
        three_layers().save(path, external_data=True, location="weights", size_threshold=0)
    once = (tmp_path / "weights").stat().st_size
    three_layers().save(path, external_data=True, location="weights", size_threshold=0)
    assert (tmp_path / "weights").stat().st_size == once
    assert sorted(os.listdir(tmp_path)) == ["net.onnx", "weights"]


@pytest.mark.skipif(sys.platform != "linux", reason="macOS has no such names")
def test_names_that_are_not_utf8(three_layers: Any, tmp_path: Path) -> None:
    """A model's file may have any name, but the model itself holds the name of the file of weights."""
    path = os.fsencode(tmp_path) + b"/\xff.onnx"
    with pytest.raises(ArgumentError, match=r"location: .*UTF-8"):
        three_layers().save(path, external_data=True)
    assert not list(tmp_path.iterdir())
    three_layers().save(path, external_data=True, location="weights")
    assert zrt.Session(Path(os.fsdecode(path)), QUIET).run(FEEDS)
    graph = zrt.Graph.from_onnx(Path(os.fsdecode(path)))
    graph.save(path)
    assert graph.session(QUIET).run(FEEDS)


def test_weights_of_subgraphs_become_external(tmp_path: Path) -> None:
    graph = zrt.Graph()
    flag = graph.input("flag", "bool", ())
    branches = [graph.subgraph(name) for name in ("then", "other")]
    for number, branch in enumerate(branches):
        branch.output(branch.op("Identity", branch.initializer("w", np.full(1000, number, np.float32))))
    graph.output(graph.op("If", flag, then_branch=branches[0], else_branch=branches[1]), "float32", (1000,))
    path = tmp_path / "net.onnx"
    graph.save(path, external_data=True)
    assert path.stat().st_size < 1000
    assert (tmp_path / "net.onnx.data").stat().st_size >= 8000
    for positive in (True, False):
        [result] = zrt.Session(path, QUIET).run([np.array(positive)])
        np.testing.assert_array_equal(result, np.full(1000, not positive))


COUNT = 512


def stored(name: str, place: int, kind: int = onnx.TensorProto.FLOAT, file: str = "net.onnx.data") -> onnx.TensorProto:
    """A tensor of which `COUNT` elements lie in a file; `place` counts blocks of so many floats."""
    size = COUNT * (8 if kind == onnx.TensorProto.INT64 else 4)
    tensor = onnx.TensorProto(name=name, data_type=kind, dims=[COUNT], data_location=onnx.TensorProto.EXTERNAL)
    for key, value in (("location", file), ("offset", place * COUNT * 4), ("length", size)):
        tensor.external_data.add(key=key, value=str(value))
    return tensor


def constant_of_a_function() -> onnx.ModelProto:
    """y = x + k + w, where k is a constant of a function."""
    proto = onnx.parser.parse_model(
        f"""<ir_version: 10, opset_import: ["" : 21, "my" : 1]>
        net (float[{COUNT}] x) => (float[{COUNT}] y) {{ t = my.Shift (x) y = Add (t, w) }}
        <domain: "my", opset_import: ["" : 21]>
        Shift (a) => (b) {{ k = Constant <value_float = 0.0> () b = Add (a, k) }}"""
    )
    constant = proto.functions[0].node[0]
    constant.attribute[0].CopyFrom(onnx.helper.make_attribute("value", stored("k", 0)))
    proto.graph.initializer.append(stored("w", 1))
    return proto


def sparse() -> onnx.ModelProto:
    """y = x + k + w, where k is a sparse initializer."""
    proto = onnx.parser.parse_model(
        f"""<ir_version: 10, opset_import: ["" : 21]>
        net (float[{COUNT}] x) => (float[{COUNT}] y) {{ t = Add (x, k) y = Add (t, w) }}"""
    )
    proto.graph.sparse_initializer.add(
        values=stored("k", 0), indices=stored("", 2, onnx.TensorProto.INT64), dims=[COUNT]
    )
    proto.graph.initializer.append(stored("w", 1))
    return proto


def test_external_weights_without_a_length_end_where_their_shape_does(tmp_path: Path) -> None:
    """ONNX lets a model leave the length out."""
    proto = onnx.parser.parse_model(
        f"""<ir_version: 10, opset_import: ["" : 21]>
        net (float[{COUNT}] x) => (float[{COUNT}] y) {{ y = Add (x, w) }}"""
    )
    proto.graph.initializer.append(stored("w", 0))
    del proto.graph.initializer[0].external_data[2:]
    numbers = np.arange(2 * COUNT, dtype=np.float32)
    (tmp_path / "net.onnx.data").write_bytes(numbers.tobytes())
    zrt.Graph.from_onnx(proto, external_data_dir=tmp_path).save(tmp_path / "net.onnx")
    [result] = zrt.Session(tmp_path / "net.onnx", QUIET).run([np.zeros(COUNT, np.float32)])
    np.testing.assert_array_equal(result, numbers[:COUNT])


@pytest.mark.parametrize("make", [constant_of_a_function, sparse])
def test_model_that_is_saved_over_itself_keeps_all_its_weights(make: Any, tmp_path: Path) -> None:
    path = tmp_path / "net.onnx"
    content = [np.full(COUNT, 7, np.float32), np.full(COUNT, 100, np.float32), np.arange(COUNT)]
    (tmp_path / "net.onnx.data").write_bytes(b"".join(array.tobytes() for array in content))
    path.write_bytes(make().SerializeToString())
    x = [np.ones(COUNT, np.float32)]
    [before] = zrt.Session(path, QUIET).run(x)
    assert set(before.tolist()) == {108.0}
    graph = zrt.Graph.from_onnx(path)
    [built] = graph.session(QUIET).run(x)
    graph.save(path, external_data=True)
    [after] = zrt.Session(path, QUIET).run(x)
    [edited] = zrt.edit(path, QUIET).finalize().run(x)
    for each in (built, after, edited):
        np.testing.assert_array_equal(each, before)


def test_empty_weight_stays_in_the_model(tmp_path: Path) -> None:
    graph = zrt.Graph()
    x = graph.input("x", "float32", (2, 4))
    weights = [graph.initializer(name, np.ones((rows, 4), np.float32)) for name, rows in (("w", 1), ("e", 0))]
    graph.output(graph.op("Concat", x, *weights, axis=0), "float32", (3, 4))
    path = tmp_path / "net.onnx"
    graph.save(path, external_data=True, size_threshold=0)
    assert outside(path) == {"w"}
    assert zrt.Session(path, QUIET).run([np.zeros((2, 4), np.float32)])[0].tolist() == [[0] * 4, [0] * 4, [1] * 4]


def test_failed_save_changes_nothing(three_layers: Any, tmp_path: Path) -> None:
    path = tmp_path / "net.onnx"
    path.write_bytes(b"precious")
    graph = three_layers()
    graph.remove_input("x")
    with pytest.raises(ModelError, match="'x'"):
        graph.save(path)
    assert path.read_bytes() == b"precious"
    assert os.listdir(tmp_path) == ["net.onnx"]


def test_missing_external_weights_raise(three_layers: Any, tmp_path: Path) -> None:
    path = tmp_path / "net.onnx"
    three_layers().save(path, external_data=True)
    (tmp_path / "net.onnx.data").unlink()
    with pytest.raises(ModelError, match=r"net.onnx"):
        zrt.Graph.from_onnx(path)
    with pytest.raises(ModelError, match=r"'w1' and others.*external_data_dir"):
        zrt.Graph.from_onnx(path.read_bytes())


@pytest.mark.skipif(sys.platform != "linux", reason="reads Linux's /proc")
def test_lack_of_memory_is_no_fault_of_the_model(script: Any, tmp_path: Path) -> None:
    assert script("no_memory.py", tmp_path / "model.onnx").stdout in ("MemoryError\n", "AllocationError\n")
