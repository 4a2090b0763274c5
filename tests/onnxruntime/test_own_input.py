"""Where the official package destroys what it reads, the drop-in refuses."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.onnxruntime.packages import ours
from tests.support import models
from tests.support.compiler import shared_library
from zrt.onnxruntime.capi.convert_npz_to_onnx_adapter import export_lora_parameters

pytestmark = ours


@pytest.fixture
def model(tmp_path: Path) -> Path:
    """A model whose weights are in a file beside it."""
    return models.save_apart(models.weighted(), tmp_path / "m.onnx", "m.weights")


def content_of(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def test_optimized_model_does_not_replace_the_model(ort: Any, model: Path, options: Any) -> None:
    before = content_of(model.parent)
    options.optimized_model_filepath = str(model)
    with pytest.raises(Exception, match=r"the same file as the input '.*m\.onnx'"):
        ort.InferenceSession(str(model), options, providers=["CPUExecutionProvider"])
    assert content_of(model.parent) == before


@pytest.mark.parametrize("name", ["m.weights", "./m.weights"])
def test_weights_of_the_compiled_model_do_not_replace_those_of_the_model(
    ort: Any, model: Path, options: Any, name: str
) -> None:
    before = content_of(model.parent)
    compiler = ort.ModelCompiler(
        options, str(model), external_initializers_file_path=name, external_initializers_size_threshold=0
    )
    with pytest.raises(Exception, match=r"the same file as the input '.*m\.weights'"):
        compiler.compile_to_file(str(model.with_name("made.onnx")))
    assert content_of(model.parent) == before


def test_weights_of_the_compiled_model_do_not_replace_a_library(ort: Any, model: Path, options: Any) -> None:
    library = shared_library(model.with_name("operators.so"), "void *RegisterCustomOps(void) { return 0; }")
    options.register_custom_ops_library(str(library))
    before = content_of(model.parent)
    compiler = ort.ModelCompiler(
        options, str(model), external_initializers_file_path="operators.so", external_initializers_size_threshold=0
    )
    with pytest.raises(Exception, match=r"the same file as the input '.*operators\.so'"):
        compiler.compile_to_file(str(model.with_name("made.onnx")))
    assert content_of(model.parent) == before


def test_failed_compilation_keeps_the_weights_of_an_earlier_one(ort: Any, tmp_path: Path, options: Any) -> None:
    (tmp_path / "kept.weights").write_bytes(b"precious")
    compiler = ort.ModelCompiler(options, b"no model", external_initializers_file_path="kept.weights")
    with pytest.raises(ort.errors.InvalidProtobuf, match="rotobuf"):
        compiler.compile_to_file(str(tmp_path / "made.onnx"))
    assert content_of(tmp_path) == {"kept.weights": b"precious"}


def test_adapter_does_not_replace_its_arrays(ort: Any, tmp_path: Path) -> None:
    np.savez(tmp_path / "arrays.npz", a=np.ones(4, np.float32))
    before = content_of(tmp_path)
    with pytest.raises(ValueError, match="the same file as the input"):
        export_lora_parameters(tmp_path / "arrays.npz", 1, 1, tmp_path / "arrays.npz")
    assert content_of(tmp_path) == before
