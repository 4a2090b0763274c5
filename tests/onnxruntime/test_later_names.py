"""Names that onnxruntime 1.28 to 1.32 brought, on any library; a newer official package is the reference."""

import gc
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import zrt
from tests.onnxruntime.packages import ours, since

DIGITS = Path(zrt.__file__).with_name("models") / "digits.onnx"


@pytest.fixture
def digits(load) -> Any:
    return load(str(DIGITS))


@since(30)
class TestSessionAllocator:
    @pytest.mark.parametrize("element_type", [np.float32, 1])
    def test_makes_values_that_outlive_the_session(self, ort, element_type) -> None:
        session = ort.InferenceSession(str(DIGITS), providers=["CPUExecutionProvider"])
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
    def test_that_is_missing_raises(self, digits, arguments) -> None:
        with pytest.raises(RuntimeError):
            digits.create_ortvalue_from_shape_and_type(*arguments)

    def test_of_an_unknown_device_raises(self, digits) -> None:
        with pytest.raises(Exception, match="Unsupported device type: xyz"):
            digits.create_ortvalue_from_shape_and_type([2], np.float32, "xyz")


@since(30)
class TestCapturedGraphs:
    @pytest.mark.parametrize("number", [0, 3, -1])
    def test_that_are_not_there_are_released_without_an_error(self, digits, number) -> None:
        assert digits.release_captured_graph() is None
        assert digits.release_captured_graph(number) is None
        assert digits._sess.release_captured_graph(number) is None

    @pytest.mark.parametrize("number", ["x", 2**40, None])
    def test_have_a_number(self, digits, number) -> None:
        with pytest.raises(TypeError):
            digits.release_captured_graph(number)

    def test_of_webgpu_are_for_webgpu(self, digits) -> None:
        session = digits._sess
        assert (session.is_webgpu_graph_capture_enabled(), session.webgpu_context_id()) == (False, -1)


class TestMemoryInfo:
    @since(28)
    def test_of_another_type_raises(self, ort) -> None:
        with pytest.raises(TypeError):
            ort.OrtValue.ortvalue_from_shape_and_type([2], np.float32, memory_info=3)

    @pytest.mark.parametrize("element_type", [np.float32, 1])
    @ours
    def test_of_the_host_makes_a_value(self, ort, digits, element_type) -> None:
        [memory, *_] = digits.get_input_memory_infos()
        value = ort.OrtValue.ortvalue_from_shape_and_type([2, 3], element_type, memory_info=memory)
        value.update_inplace(np.ones((2, 3), np.float32))
        np.testing.assert_array_equal(value.numpy(), np.ones((2, 3)))

    @since(28)
    def test_without_a_shared_allocator_raises_and_beside_a_device_warns(self, ort) -> None:
        memory = ort.OrtMemoryInfo("Cuda", ort.OrtAllocatorType.ORT_DEVICE_ALLOCATOR, 0, ort.OrtMemType.DEFAULT)
        with pytest.raises(RuntimeError, match="No shared allocator found for"):
            ort.OrtValue.ortvalue_from_shape_and_type([2], np.float32, memory_info=memory)
        with (
            pytest.warns(UserWarning, match="are ignored when memory_info is provided"),
            pytest.raises(RuntimeError, match="No shared allocator found for"),
        ):
            ort.OrtValue.ortvalue_from_shape_and_type([2], np.float32, "cuda", memory_info=memory)


@since(32)
class TestEpContextBinaries:
    @pytest.mark.parametrize(("folder", "name"), [("", "m"), ("folder/", ""), ("folder", "m")])
    def test_invalid_places_raise(self, ort, state, folder, name) -> None:
        compiler = ort.ModelCompiler(ort.SessionOptions(), str(DIGITS))
        with pytest.raises(state.InvalidArgument):
            compiler.set_ep_context_binary_information(folder, name)

    @pytest.mark.parametrize("arguments", [(3, "m"), ("/tmp/", 3)])
    def test_other_types_raise(self, ort, arguments) -> None:
        compiler = ort.ModelCompiler(ort.SessionOptions(), str(DIGITS))
        with pytest.raises(TypeError):
            compiler.set_ep_context_binary_information(*arguments)

    def test_place_is_taken(self, ort, tmp_path) -> None:
        compiler = ort.ModelCompiler(ort.SessionOptions(), str(DIGITS))
        compiler.set_ep_context_binary_information(f"{tmp_path}/", "digits")
        assert ort.InferenceSession(compiler.compile_to_bytes(), providers=["CPUExecutionProvider"])
        compiler.compile_to_file(str(tmp_path / "compiled.onnx"))
        assert (tmp_path / "compiled.onnx").is_file()


@since(28)
class TestFp4:
    @pytest.mark.parametrize(("columns", "rows"), [(2, 2), (8, 12), (64, 10)])
    def test_codes_are_transposed(self, state, columns, rows) -> None:
        codes = np.random.default_rng(columns).integers(0, 16, (columns, rows), np.uint8)
        packed = codes[:, ::2] | codes[:, 1::2] << 4
        transposed = state.pack_fp4_weights_for_cuda_moe_gemm(packed, columns, rows)
        assert (transposed.dtype, transposed.shape) == (np.uint8, (columns * rows // 2,))
        expected = codes.T
        np.testing.assert_array_equal(transposed, (expected[:, ::2] | expected[:, 1::2] << 4).reshape(-1))

    @pytest.mark.parametrize(
        ("shape", "columns", "rows"),
        [((8, 6), 8, 13), ((8, 6), 7, 12), ((8, 6), 4, 24), ((48,), 8, 12), ((8, 6), -8, 12)],
    )
    def test_wrong_sizes_raise(self, state, shape, columns, rows) -> None:
        with pytest.raises(ValueError, match=r"N and K must be|q_weights must have shape"):
            state.pack_fp4_weights_for_cuda_moe_gemm(np.zeros(shape, np.uint8), columns, rows)


@since(28)
def test_device_reset_is_an_exception_of_its_own(state) -> None:
    assert state.DeviceReset.__bases__ == (Exception,)


@ours
def test_answers_that_depend_on_the_library_are_those_of_the_official_package(ort) -> None:
    packages = pytest.importorskip("onnxruntime"), ort
    assert len({tuple(package.get_all_providers()) for package in packages}) == 1
    array = np.array([True, False])
    assert len({np.from_dlpack(package.OrtValue.ortvalue_from_numpy(array)).dtype for package in packages}) == 1
