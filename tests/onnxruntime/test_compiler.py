"""`ModelCompiler`: outputs, settings and refusals."""

from typing import Any

import numpy as np
import onnx
import pytest

from tests.support import models

WEIGHTS = models.parse("(float[1000] x) => (float[1000] y) { y = Add(x, w) }", w=np.arange(1000, dtype=np.float32))


def test_compiles_to_a_file_to_bytes_and_to_a_stream(ort, options, tmp_path) -> None:
    path = tmp_path / "model.onnx"
    path.write_bytes(models.add())
    for model in (str(path), path, models.add()):
        compiler = ort.ModelCompiler(options, model)
        compiler.compile_to_file(str(tmp_path / "made.onnx"))
        compiler.compile_to_file(tmp_path / "made.onnx")
        pieces: list[bytes] = []
        compiler.compile_to_stream(pieces.append)
        for compiled in ((tmp_path / "made.onnx").read_bytes(), compiler.compile_to_bytes(), b"".join(pieces)):
            assert [node.op_type for node in onnx.load_from_string(compiled).graph.node] == ["Add"]


def test_writes_weights_into_a_file_of_their_own(ort, options, tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    compiler = ort.ModelCompiler(
        options, WEIGHTS, external_initializers_file_path="weights.bin", external_initializers_size_threshold=10
    )
    (tmp_path / "made.onnx").write_bytes(compiler.compile_to_bytes())
    assert (tmp_path / "weights.bin").stat().st_size >= 4000
    session = ort.InferenceSession(str(tmp_path / "made.onnx"), options, providers=["CPUExecutionProvider"])
    result = session.run(None, {"x": np.zeros(1000, np.float32)})[0]
    np.testing.assert_array_equal(result, np.arange(1000, dtype=np.float32))


def test_asks_for_the_place_of_each_weight(ort, options) -> None:
    asked = []

    def locate(name: str, value: Any, info: Any) -> Any:
        asked.append((name, value.shape(), type(value) is ort.OrtValue, info))
        np.testing.assert_array_equal(value.numpy(), np.arange(1000, dtype=np.float32))

    inside = ort.ModelCompiler(options, WEIGHTS, get_initializer_location_func=locate).compile_to_bytes()
    assert asked == [("w", [1000], True, None)]
    assert len(inside) > 4000
    outside = ort.ModelCompiler(
        options,
        WEIGHTS,
        get_initializer_location_func=lambda *_: ort.OrtExternalInitializerInfo("weights.bin", 0, 4000),
    ).compile_to_bytes()
    assert len(outside) < 1000


def test_exceptions_of_callbacks_are_failures(ort, state, options) -> None:
    def fail(*_: object) -> None:
        raise KeyError("boom")

    with pytest.raises(state.Fail, match="KeyError: 'boom'"):
        ort.ModelCompiler(options, WEIGHTS).compile_to_stream(fail)
    with pytest.raises(state.Fail, match="KeyError: 'boom'"):
        ort.ModelCompiler(options, WEIGHTS, get_initializer_location_func=fail).compile_to_bytes()
    with pytest.raises(state.Fail):
        ort.ModelCompiler(options, WEIGHTS, get_initializer_location_func=lambda *_: 3).compile_to_bytes()


def test_flags_make_failures(ort, state, options, tmp_path) -> None:
    flags = ort.OrtCompileApiFlags
    with pytest.raises(state.Fail, match="Unable to compile any nodes"):
        ort.ModelCompiler(options, WEIGHTS, flags=flags.ERROR_IF_NO_NODES_COMPILED).compile_to_bytes()
    (tmp_path / "made.onnx").write_bytes(b"")
    compiler = ort.ModelCompiler(options, WEIGHTS, flags=flags.ERROR_IF_OUTPUT_FILE_EXISTS)
    with pytest.raises(state.Fail, match="exists already"):
        compiler.compile_to_file(str(tmp_path / "made.onnx"))


def test_wrong_models_raise(ort, state, options, tmp_path, refused) -> None:
    for model in ("", b""):
        with pytest.raises(ValueError, match="is empty"):
            ort.ModelCompiler(options, model)
    with pytest.raises(TypeError, match="Unable to load from type"):
        ort.ModelCompiler(options, 3)
    with refused(state.InvalidArgument, "none.onnx"):
        ort.ModelCompiler(options, str(tmp_path / "none.onnx")).compile_to_bytes()
    with pytest.raises(state.InvalidProtobuf, match="protobuf parsing failed"):
        ort.ModelCompiler(options, b"no model").compile_to_bytes()


def test_wrong_arguments_raise(ort, state, options, tmp_path, refused) -> None:
    for arguments in [
        {"flags": "a"},
        {"graph_optimization_level": 1},
        {"external_initializers_size_threshold": -1},
        {"external_initializers_file_path": 3},
        {"sess_options": None},
        {"sess_options": 3},
    ]:
        with pytest.raises(TypeError):
            ort.ModelCompiler(**{"sess_options": options, "input_model_path_or_bytes": WEIGHTS, **arguments})
    with refused(ValueError, "external_initializers_file_path", "get_initializer_location_func"):
        ort.ModelCompiler(options, WEIGHTS, external_initializers_file_path="w", get_initializer_location_func=print)
    compiler = ort.ModelCompiler(options, WEIGHTS)
    for wrong in (None, 3):
        with pytest.raises(TypeError):
            compiler.compile_to_file(wrong)
    with pytest.raises(TypeError):
        compiler.compile_to_stream(3)
    with pytest.raises(state.InvalidArgument):
        compiler.compile_to_file(str(tmp_path / "none" / "made.onnx"))


def test_place_of_a_weight_has_its_numbers(ort) -> None:
    place = ort.OrtExternalInitializerInfo("weights.bin", 16, 4000)
    assert (place.filepath, place.file_offset, place.byte_size) == ("weights.bin", 16, 4000)
    for wrong in [("weights.bin", 16, -1), (3, 16, 4000), ()]:
        with pytest.raises(TypeError):
            ort.OrtExternalInitializerInfo(*wrong)
    with pytest.raises(AttributeError):
        place.filepath = "other.bin"
