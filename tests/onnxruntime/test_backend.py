"""`onnxruntime.backend`: ONNX's backend interface, on the official package and on this one."""

import importlib
import unittest
from pathlib import Path
from typing import Any

import numpy as np
import pytest

onnx = pytest.importorskip("onnx")
X = np.array([[1, -2, 3]], np.float32)


@pytest.fixture
def backend(ort: Any) -> Any:
    return importlib.import_module(f"{ort.__name__}.backend")


@pytest.fixture
def whole(ort: Any) -> Any:
    """The module `backend.backend`, which has the class."""
    return importlib.import_module(f"{ort.__name__}.backend.backend")


def model(operator: str = "Relu", inputs: tuple[str, ...] = ("x",), opset: int = 17) -> Any:
    shapes = [onnx.helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, [1, 3]) for name in (*inputs, "y")]
    graph = onnx.helper.make_graph([onnx.helper.make_node(operator, inputs, ["y"])], "g", shapes[:-1], shapes[-1:])
    return onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", opset)], ir_version=9)


class TestPrepare:
    def test_model_in_every_form_runs(self, ort: Any, backend: Any, tmp_path: Path) -> None:
        proto = model()
        path = str(tmp_path / "model.onnx")
        onnx.save(proto, path)
        session = ort.InferenceSession(path, providers=["CPUExecutionProvider"])
        for form in (proto, proto.SerializeToString(), path, session):
            # A single input needs no list.
            for inputs in ([X], X):
                [y] = backend.prepare(form).run(inputs)
                assert y.tolist() == [[1, 0, 3]]
        prepared = backend.prepare(proto)
        assert backend.prepare(prepared) is prepared
        assert type(prepared).__name__ == "OnnxRuntimeBackendRep"
        assert isinstance(prepared, onnx.backend.base.BackendRep)

    def test_options_of_a_session_are_keyword_arguments(self, ort: Any, backend: Any) -> None:
        prepared = backend.prepare(model(), ort.get_device(), intra_op_num_threads=1, no_such_option=1)
        assert prepared._session.get_session_options().intra_op_num_threads == 1

    @pytest.mark.parametrize("name", ["enable_profiling", "optimized_model_filepath", "profile_file_prefix"])
    def test_options_that_write_files_are_refused(self, backend: Any, name: str) -> None:
        with pytest.raises(RuntimeError, match=f"SessionOptions attribute '{name}' is not permitted") as caught:
            backend.prepare(model(), **{name: "x"})
        assert "Allowed attributes: enable_cpu_mem_arena, enable_mem_pattern" in str(caught.value)

    def test_other_device_is_refused(self, ort: Any, backend: Any) -> None:
        with pytest.raises(RuntimeError, match=f"Incompatible device expected 'TPU', got '{ort.get_device()}'"):
            backend.prepare(model(), "TPU")

    def test_library_for_gpus_refuses_the_cpu(self, whole: Any, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(whole, "get_device", lambda: "GPU")
        with pytest.raises(RuntimeError, match="Incompatible device expected 'CPU', got 'GPU'"):
            whole.prepare(model(), "CPU")
        for device in ("GPU", "CUDA", None):
            [y] = whole.run(model(), [X], device)
            assert y.tolist() == [[1, 0, 3]]

    def test_wrong_model_is_refused(self, backend: Any) -> None:
        with pytest.raises(onnx.checker.ValidationError):
            backend.prepare(model("NoSuchOperator"))

    def test_excluded_providers_are_left_out(self, ort: Any, backend: Any, monkeypatch: pytest.MonkeyPatch) -> None:
        others = [provider for provider in ort.get_available_providers() if provider != "CPUExecutionProvider"]
        monkeypatch.setenv("ORT_ONNX_BACKEND_EXCLUDE_PROVIDERS", ",".join([*others, "Other"]))
        assert backend.prepare(model())._session.get_providers() == ["CPUExecutionProvider"]


class TestOpsets:
    def test_released_operator_sets_are_supported(self, whole: Any) -> None:
        assert whole.OnnxRuntimeBackend.is_opset_supported(model()) == (True, "")

    def test_unreleased_operator_set_skips(self, whole: Any) -> None:
        proto = model(opset=onnx.defs.onnx_opset_version() + 1)
        supported, message = whole.OnnxRuntimeBackend.is_opset_supported(proto)
        assert not supported
        assert message.startswith("Skipping this test as only released onnx opsets are supported.To run this test set")
        assert message.endswith(f"Got Domain 'ai.onnx' version '{proto.opset_import[0].version}'.")
        # The checker of onnx refuses the model first.
        proto.opset_import[0].domain = "no.such.domain"
        proto.graph.node[0].domain = "no.such.domain"
        with pytest.raises(unittest.SkipTest, match=r"Got Domain 'no\.such\.domain'"):
            whole.prepare(proto)

    def test_variable_allows_unreleased_operator_sets(self, whole: Any, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(whole.OnnxRuntimeBackend, "allowReleasedOpsetsOnly", False)
        assert whole.OnnxRuntimeBackend.is_opset_supported(model(opset=999)) == (True, "")


class TestRun:
    def test_inputs_are_in_the_order_of_the_model(self, backend: Any) -> None:
        [y] = backend.run(model("Sub", ("a", "b")), [X, 2 * X])
        assert y.tolist() == (-X).tolist()
        with pytest.raises(RuntimeError, match="Model expect 2 inputs"):
            backend.run(model("Sub", ("a", "b")), X)

    def test_options_of_a_run_are_keyword_arguments(self, backend: Any) -> None:
        assert len(backend.run(model(), [X], log_severity_level=3, logid="run", only_execute_path_to_fetches=True)) == 1

    def test_option_that_ends_the_run_is_refused(self, backend: Any) -> None:
        with pytest.raises(RuntimeError, match="RunOptions attribute 'terminate' is not permitted") as caught:
            backend.prepare(model()).run([X], terminate=True)
        assert str(caught.value).endswith(
            "Allowed attributes: log_severity_level, log_verbosity_level, logid, only_execute_path_to_fetches"
        )

    def test_single_nodes_do_not_run(self, whole: Any) -> None:
        with pytest.raises(NotImplementedError, match="run a whole model"):
            whole.OnnxRuntimeBackend.run_node(model().graph.node[0], [X])


class TestDevices:
    def test_device_of_the_library_is_supported(self, ort: Any, backend: Any) -> None:
        assert backend.is_compatible(model())
        for supports in (backend.supports_device, lambda device: backend.is_compatible(model(), device)):
            assert supports(ort.get_device())
            assert supports("CPU") is (ort.get_device() == "CPU")
            assert not supports("TPU")

    @pytest.mark.parametrize(
        ("library", "supported"),
        [("CPU", {"CPU"}), ("GPU", {"GPU", "CUDA"}), ("CPU-DNNL", {"CPU", "DNNL", "CPU-DNNL"})],
    )
    def test_library_supports_the_devices_of_its_name(
        self, whole: Any, monkeypatch: pytest.MonkeyPatch, library: str, supported: set[str]
    ) -> None:
        monkeypatch.setattr(whole, "get_device", lambda: library)
        devices = ("CPU", "CPU-DNNL", "CUDA", "DNNL", "GPU", "TPU")
        assert {device for device in devices if whole.supports_device(device)} == supported
        assert {device for device in devices if whole.is_compatible(model(), device)} == supported
        assert whole.is_compatible(model())


# Of the cases of ONNX's runner: tensors, strings, sequences, optional values, several outputs.
CASES = (
    "test_abs",
    "test_identity_sequence",
    "test_if_opt",
    "test_optional_get_element_sequence",
    "test_sequence_insert_at_back",
    "test_split_equal_parts_1d_opset13",
    "test_string_concat",
    "test_top_k",
)


@pytest.mark.onnx_data("node")
def test_cases_of_onnx_pass_with_its_own_runner(whole: Any) -> None:
    runner = importlib.import_module("onnx.backend.test").BackendTest(whole.OnnxRuntimeBackend, __name__)
    for case in CASES:
        runner.include(f"^{case}_cpu$")
    result = unittest.TestResult()
    runner.test_suite.run(result)
    assert [(str(case), text) for case, text in (*result.failures, *result.errors)] == []
    skipped = [case for case, reason in result.skipped if "no matched include pattern" not in reason]
    assert skipped == []
    assert result.testsRun - len(result.skipped) == len(CASES)
