"""The modules of `onnxruntime.capi` have the objects of the package."""

import importlib
from typing import Any

import pytest

from zrt.onnxruntime import homes


@pytest.fixture
def module(ort) -> Any:
    return lambda name: importlib.import_module(f"{ort.__name__}.capi.{name}")


def test_each_thing_is_one_object_in_all_modules(ort, state, module) -> None:
    collection = module("onnxruntime_inference_collection")
    # An older official package lacks some names.
    names = {name for name in homes.PACKAGE if hasattr(ort, name)}
    for name in names & homes.COLLECTION.keys():
        assert getattr(collection, name) is getattr(ort, name)
    for name in names & homes.STATE.keys() - homes.COLLECTION.keys():
        for extension in (state, module("_pybind_state"), collection.C):
            assert getattr(extension, name) is getattr(ort, name)


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
    modules: dict[str, Any] = {}
    exec(f"from {module('_pybind_state').__name__} import *", modules)
    assert {"SessionOptions", "Fail", "OrtDevice", "get_available_providers"} <= modules.keys()
