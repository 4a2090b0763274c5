"""The modules of `onnxruntime.capi` have the objects of the package."""

from __future__ import annotations

import importlib
from typing import Any

import pytest

COLLECTION = [
    "AdapterFormat",
    "IOBinding",
    "InferenceSession",
    "ModelCompiler",
    "OrtDevice",
    "OrtDeviceVendorId",
    "OrtValue",
    "SparseTensor",
    "copy_tensors",
]
STATE = ["SessionOptions", "RunOptions", "NodeArg", "ModelMetadata", "GraphOptimizationLevel", "get_device"]


@pytest.fixture
def module(ort) -> Any:
    return lambda name: importlib.import_module(f"{ort.__name__}.capi.{name}")


@pytest.mark.parametrize("name", COLLECTION)
def test_python_layer_has_the_classes_of_the_package(ort, module, name) -> None:
    assert getattr(module("onnxruntime_inference_collection"), name) is getattr(ort, name)


@pytest.mark.parametrize("name", STATE)
def test_extension_module_has_the_objects_of_the_package(ort, state, module, name) -> None:
    assert getattr(state, name) is getattr(ort, name)
    assert getattr(module("_pybind_state"), name) is getattr(ort, name)
    assert getattr(module("onnxruntime_inference_collection").C, name) is getattr(ort, name)


def test_modules_are_attributes_of_the_package(ort, module) -> None:
    for name in ("_pybind_state", "onnxruntime_inference_collection", "onnxruntime_pybind11_state"):
        assert getattr(ort.capi, name) is module(name)
    assert ort.onnxruntime_validation is module("onnxruntime_validation")


@pytest.mark.parametrize("name", ["", "_pybind_state", "onnxruntime_inference_collection", "build_and_package_info"])
def test_unknown_name_raises_attribute_error(ort, module, name) -> None:
    where = module(name) if name else ort.capi
    with pytest.raises(AttributeError, match="has no attribute 'no_such_name'"):
        where.no_such_name  # noqa: B018


def test_validation_returns_what_the_package_has(ort, module) -> None:
    validation = module("onnxruntime_validation")
    expected = (ort.package_name, ort.version, ort.cuda_version)
    assert validation.get_package_name_and_version_info() == expected
    assert validation.check_training_module() == (False, *expected)
    assert validation.check_distro_info() is None
    assert module("build_and_package_info").package_name == ort.package_name
    assert module("build_and_package_info").__version__ == ort.version


def test_validation_warns_on_other_systems(module, monkeypatch) -> None:
    validation = module("onnxruntime_validation")
    monkeypatch.setattr(validation.platform, "system", lambda: "Plan9")
    with pytest.warns(UserWarning, match="Unsupported platform"):
        validation.check_distro_info()


def test_names_of_the_extension_module_can_be_imported_at_once(module) -> None:
    found: dict[str, Any] = {}
    exec(f"from {module('_pybind_state').__name__} import *", found)
    assert {"SessionOptions", "Fail", "OrtDevice", "get_available_providers"} <= found.keys()
