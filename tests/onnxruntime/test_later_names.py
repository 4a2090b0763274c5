"""Names that onnxruntime 1.28 to 1.32 brought, on any library; a newer official package is the reference."""

from __future__ import annotations

import gc
import importlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import zrt

DIGITS = Path(zrt.__file__).with_name("models") / "digits.onnx"


def package(name: str, since: int) -> Any:
    """The official package, if it has what this version brought, or zrt's."""
    if name == "zrt":
        return importlib.import_module("zrt.onnxruntime")
    official = pytest.importorskip("onnxruntime")
    if int(official.__version__.split(".")[1]) < since:
        pytest.skip(f"the official package is {official.__version__}, and needs 1.{since}")
    return official


@pytest.fixture(params=["official", "zrt"])
def ort28(request) -> Any:
    return package(request.param, 28)


@pytest.fixture(params=["official", "zrt"])
def ort30(request) -> Any:
    return package(request.param, 30)


@pytest.fixture(params=["official", "zrt"])
def ort32(request) -> Any:
    return package(request.param, 32)


def load(ort: Any) -> Any:
    return ort.InferenceSession(str(DIGITS), providers=["CPUExecutionProvider"])


def state(ort: Any) -> Any:
    return ort.capi.onnxruntime_pybind11_state


class TestSessionAllocator:
    @pytest.mark.parametrize("element_type", [np.float32, 1])
    def test_makes_values_that_outlive_the_session(self, ort30, element_type) -> None:
        session = load(ort30)
        value = session.create_ortvalue_from_shape_and_type([1, 1, 8, 8], element_type, "cpu")
        assert (value.shape(), value.data_type(), value.device_name()) == ([1, 1, 8, 8], "tensor(float)", "cpu")
        image = np.full((1, 1, 8, 8), 0.5, np.float32)
        value.update_inplace(image)
        [expected] = session.run(None, {"image": image})
        np.testing.assert_array_equal(session.run(None, {"image": value})[0], expected)
        del session
        gc.collect()
        np.testing.assert_array_equal(value.numpy(), image)

    @pytest.mark.parametrize(
        "arguments",
        [
            ([2], np.float32, "cuda"),
            ([2], np.float32, "cpu", 1),
            ([2], np.str_, "cpu"),
            ([2], 8, "cpu"),
            ([2], 99, "cpu"),
            ([-2], np.float32, "cpu"),
        ],
    )
    def test_that_is_missing_raises(self, ort30, arguments) -> None:
        with pytest.raises(RuntimeError):
            load(ort30).create_ortvalue_from_shape_and_type(*arguments)

    def test_of_an_unknown_device_raises(self, ort30) -> None:
        with pytest.raises(Exception, match="Unsupported device type: xyz"):
            load(ort30).create_ortvalue_from_shape_and_type([2], np.float32, "xyz")


class TestCapturedGraphs:
    @pytest.mark.parametrize("number", [0, 3, -1])
    def test_that_are_not_there_are_released_without_an_error(self, ort30, number) -> None:
        session = load(ort30)
        assert session.release_captured_graph() is None
        assert session.release_captured_graph(number) is None
        assert session._sess.release_captured_graph(number) is None

    @pytest.mark.parametrize("number", ["x", 2**40, None])
    def test_have_a_number(self, ort30, number) -> None:
        with pytest.raises(TypeError):
            load(ort30).release_captured_graph(number)

    def test_of_webgpu_are_for_webgpu(self, ort30) -> None:
        session = load(ort30)._sess
        assert (session.is_webgpu_graph_capture_enabled(), session.webgpu_context_id()) == (False, -1)


class TestMemoryInfo:
    def test_without_a_shared_allocator_raises(self, ort28) -> None:
        cuda = ort28.OrtMemoryInfo("Cuda", ort28.OrtAllocatorType.ORT_DEVICE_ALLOCATOR, 0, ort28.OrtMemType.DEFAULT)
        with pytest.raises(RuntimeError, match="No shared allocator found for"):
            ort28.OrtValue.ortvalue_from_shape_and_type([2], np.float32, memory_info=cuda)

    def test_of_another_type_raises(self, ort28) -> None:
        with pytest.raises(TypeError):
            ort28.OrtValue.ortvalue_from_shape_and_type([2], np.float32, memory_info=3)

    @pytest.mark.parametrize("element_type", [np.float32, 1])
    def test_of_the_host_makes_a_value(self, element_type) -> None:
        ort = package("zrt", 28)
        [memory, *_] = load(ort).get_input_memory_infos()
        value = ort.OrtValue.ortvalue_from_shape_and_type([2, 3], element_type, memory_info=memory)
        value.update_inplace(np.ones((2, 3), np.float32))
        np.testing.assert_array_equal(value.numpy(), np.ones((2, 3)))

    def test_beside_a_device_warns(self, ort28) -> None:
        memory = ort28.OrtMemoryInfo("Cuda", ort28.OrtAllocatorType.ORT_DEVICE_ALLOCATOR, 0, ort28.OrtMemType.DEFAULT)
        with (
            pytest.warns(UserWarning, match="are ignored when memory_info is provided"),
            pytest.raises(RuntimeError, match="No shared allocator"),
        ):
            ort28.OrtValue.ortvalue_from_shape_and_type([2], np.float32, "cuda", memory_info=memory)


class TestEpContextBinaries:
    @pytest.mark.parametrize(
        ("folder", "name", "message"),
        [
            ("", "m", "output_dir or model_name is empty"),
            ("folder/", "", "output_dir or model_name is empty"),
            ("folder", "m", "output_dir is not a valid directory"),
        ],
    )
    def test_invalid_places_raise(self, ort32, folder, name, message) -> None:
        compiler = ort32.ModelCompiler(ort32.SessionOptions(), str(DIGITS))
        with pytest.raises(state(ort32).InvalidArgument, match=message):
            compiler.set_ep_context_binary_information(folder, name)

    @pytest.mark.parametrize("arguments", [(3, "m"), ("/tmp/", 3)])
    def test_other_types_raise(self, ort32, arguments) -> None:
        compiler = ort32.ModelCompiler(ort32.SessionOptions(), str(DIGITS))
        with pytest.raises(TypeError):
            compiler.set_ep_context_binary_information(*arguments)

    def test_place_is_taken(self, ort32, tmp_path) -> None:
        compiler = ort32.ModelCompiler(ort32.SessionOptions(), str(DIGITS))
        compiler.set_ep_context_binary_information(f"{tmp_path}/", "digits")
        assert ort32.InferenceSession(compiler.compile_to_bytes(), providers=["CPUExecutionProvider"])
        compiler.compile_to_file(str(tmp_path / "compiled.onnx"))
        assert (tmp_path / "compiled.onnx").is_file()


class TestFp4:
    @pytest.mark.parametrize(("columns", "rows"), [(2, 2), (8, 12), (64, 10)])
    def test_codes_are_transposed(self, ort28, columns, rows) -> None:
        codes = np.random.default_rng(columns).integers(0, 16, (columns, rows), np.uint8)
        packed = codes[:, ::2] | codes[:, 1::2] << 4
        found = state(ort28).pack_fp4_weights_for_cuda_moe_gemm(packed, columns, rows)
        assert (found.dtype, found.shape) == (np.uint8, (columns * rows // 2,))
        expected = codes.T
        np.testing.assert_array_equal(found, (expected[:, ::2] | expected[:, 1::2] << 4).reshape(-1))

    @pytest.mark.parametrize(
        ("shape", "columns", "rows"),
        [((8, 6), 8, 13), ((8, 6), 7, 12), ((8, 6), 4, 24), ((48,), 8, 12), ((8, 6), -8, 12)],
    )
    def test_wrong_sizes_raise(self, ort28, shape, columns, rows) -> None:
        with pytest.raises(ValueError, match=r"N and K must be|q_weights must have shape"):
            state(ort28).pack_fp4_weights_for_cuda_moe_gemm(np.zeros(shape, np.uint8), columns, rows)


def test_device_reset_is_an_exception_of_its_own(ort28) -> None:
    assert state(ort28).DeviceReset.__bases__ == (Exception,)


def test_providers_are_those_that_the_library_knows() -> None:
    official = pytest.importorskip("onnxruntime")
    assert package("zrt", 32).get_all_providers() == official.get_all_providers()


def test_dlpack_exports_bool_as_the_official_package_of_the_library_does() -> None:
    kinds = [
        np.from_dlpack(ort.OrtValue.ortvalue_from_numpy(np.array([True, False]))).dtype
        for ort in (pytest.importorskip("onnxruntime"), package("zrt", 32))
    ]
    assert kinds[0] == kinds[1]
