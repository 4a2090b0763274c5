"""`AdapterFormat` and `LoraAdapter`: the files of adapters, and runs with them."""

import copy
import gc
from typing import Any

import numpy as np
import pytest

from tests.onnxruntime.packages import ours
from tests.support import models

A, B = np.arange(6, dtype=np.float32).reshape(2, 3), np.arange(3, dtype=np.int64)
BFLOAT16 = np.arange(3, dtype=np.uint16)


@pytest.fixture
def adapter(ort) -> Any:
    adapter = ort.AdapterFormat()
    adapter.set_adapter_version(3)
    adapter.set_model_version(5)
    make = ort.OrtValue.ortvalue_from_numpy
    bfloat16 = ort.OrtValue.ortvalue_from_numpy_with_onnx_type(BFLOAT16, 16)
    adapter.set_parameters({"a": make(A), "b": make(B), "c": bfloat16, "empty": make(A[:0])})
    return adapter


def versions(adapter: Any) -> tuple[int, int, int]:
    return adapter.get_format_version(), adapter.get_adapter_version(), adapter.get_model_version()


def test_new_adapter_is_empty(ort, state) -> None:
    adapter = ort.AdapterFormat()
    assert versions(adapter) == (1, 0, 0)
    assert adapter.get_parameters() == {}
    assert ort.AdapterFormat(state.AdapterFormat()).get_parameters() == {}


def test_copy_is_the_same_adapter(adapter) -> None:
    assert versions(copy.copy(adapter)) == (1, 3, 5)


def test_adapter_comes_back_from_its_file(ort, adapter, tmp_path) -> None:
    path = str(tmp_path / "some.onnx_adapter")
    adapter.export_adapter(path)
    read = ort.AdapterFormat.read_adapter(path)
    assert versions(read) == (1, 3, 5)
    parameters = read.get_parameters()
    assert {name: (value.data_type(), value.shape()) for name, value in parameters.items()} == {
        "a": ("tensor(float)", [2, 3]),
        "b": ("tensor(int64)", [3]),
        "c": ("tensor(bfloat16)", [3]),
        "empty": ("tensor(float)", [0, 3]),
    }
    np.testing.assert_array_equal(parameters["a"].numpy(), A)
    np.testing.assert_array_equal(parameters["b"].numpy(), B)


@pytest.mark.official
def test_file_of_one_package_is_read_by_the_other(tmp_path) -> None:
    import onnxruntime as official

    import zrt.onnxruntime as ours

    for writer, reader in [(official, ours), (ours, official)]:
        path = str(tmp_path / f"{writer.__name__}.onnx_adapter")
        adapter = writer.AdapterFormat()
        adapter.set_parameters({"a": writer.OrtValue.ortvalue_from_numpy(A)})
        adapter.export_adapter(path)
        read = reader.AdapterFormat.read_adapter(path)
        np.testing.assert_array_equal(read.get_parameters()["a"].numpy(), A)
        reader.LoraAdapter().Load(path)


@ours
def test_parameters_outlive_the_adapter(ort, tmp_path) -> None:
    path = str(tmp_path / "some.onnx_adapter")
    adapter = ort.AdapterFormat()
    adapter.set_parameters({"a": ort.OrtValue.ortvalue_from_numpy(A)})
    adapter.export_adapter(path)
    (value,) = ort.AdapterFormat.read_adapter(path).get_parameters().values()
    gc.collect()
    np.testing.assert_array_equal(value.numpy(), A)
    value.update_inplace(A + 1)
    np.testing.assert_array_equal(ort.AdapterFormat.read_adapter(path).get_parameters()["a"].numpy(), A)


def test_wrong_arguments_raise(ort, adapter, tmp_path) -> None:
    for wrong in ("x", 1 << 40):
        with pytest.raises(TypeError):
            adapter.set_model_version(wrong)
    for wrong in ({"a": 3}, 3):
        with pytest.raises(AttributeError):
            adapter.set_parameters(wrong)
    for wrong in (3, tmp_path / "some.onnx_adapter"):
        with pytest.raises(TypeError):
            adapter.export_adapter(wrong)
        with pytest.raises(TypeError):
            ort.AdapterFormat.read_adapter(wrong)
    with pytest.raises(RuntimeError):
        adapter.export_adapter(str(tmp_path / "none" / "some.onnx_adapter"))
    with pytest.raises(AttributeError):
        adapter._adapter.format_version = 2


@pytest.mark.parametrize("content", [None, b"", b"no adapter" * 40])
def test_file_that_is_no_adapter_raises(ort, tmp_path, content) -> None:
    path = tmp_path / "some.onnx_adapter"
    if content is not None:
        path.write_bytes(content)
    for read in (ort.AdapterFormat.read_adapter, ort.LoraAdapter().Load):
        with pytest.raises(RuntimeError):
            read(str(path))


def test_lora_adapter_takes_its_path_in_load(ort, adapter, tmp_path) -> None:
    path = tmp_path / "some.onnx_adapter"
    adapter.export_adapter(str(path))
    assert ort.LoraAdapter().Load(str(path)) is None
    with pytest.raises(TypeError):
        ort.LoraAdapter(str(path))
    with pytest.raises(TypeError):
        ort.LoraAdapter().Load(path)


def test_run_uses_the_adapter_that_was_added_first(ort, options, tmp_path) -> None:
    model = models.parse("(float[3] x, float[3] w) => (float[3] y) <float[3] w = {0, 0, 0}> { y = Add(x, w) }")
    session = ort.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    feeds = {"x": np.zeros(3, np.float32)}
    adapters = []
    for factor in (1, 10):
        path = str(tmp_path / f"{factor}.onnx_adapter")
        made = ort.AdapterFormat()
        # The official package reads the array's memory at the export, and does not keep the array.
        weights = np.array([1, 2, 3], np.float32) * factor
        made.set_parameters({"w": ort.OrtValue.ortvalue_from_numpy(weights)})
        made.export_adapter(path)
        adapters.append(ort.LoraAdapter())
        adapters[-1].Load(path)
    for order, wanted in (([0], [1, 2, 3]), ([0, 1], [1, 2, 3]), ([1, 0], [10, 20, 30])):
        run = ort.RunOptions()
        for index in order:
            run.add_active_adapter(adapters[index])
        assert session.run(None, feeds, run)[0].tolist() == wanted
