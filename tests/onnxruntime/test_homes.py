"""The names of the drop-in are imported at their first use."""

import importlib
from pathlib import Path

import pytest

import zrt
import zrt.onnxruntime
from zrt.onnxruntime import homes

DIGITS = Path(zrt.__file__).with_name("models") / "digits.onnx"
NEEDED = {
    "zrt",
    "zrt._common",
    "zrt._common.installation",
    "zrt.errors",
    "zrt.onnxruntime",
    "zrt.onnxruntime.homes",
    "zrt.version",
}


def test_unknown_name_raises_attribute_error(ort) -> None:
    with pytest.raises(AttributeError, match=f"module {ort.__name__!r} has no attribute 'no_such_name'"):
        ort.no_such_name  # noqa: B018


def test_import_reads_the_table_of_names_alone(python) -> None:
    script = """
        import sys
        import zrt.onnxruntime
        from zrt.onnxruntime.capi import _pybind_state, onnxruntime_inference_collection
        print(*(name for name in sys.modules if name.partition(".")[0] in ("zrt", "numpy", "cffi", "logging")))
    """
    loaded = {name for name in python(script).stdout.split() if not name.startswith("zrt.onnxruntime.capi")}
    assert loaded == NEEDED


def test_first_use_of_a_name_does_not_open_the_library(python) -> None:
    script = """
        import zrt.onnxruntime
        for name in ("GraphOptimizationLevel", "SessionOptions", "set_seed", "InferenceSession"):
            getattr(zrt.onnxruntime, name)
            from zrt._native import library
            print(library._library)
    """
    assert python(script).stdout == "None\n" * 4


# Modules that few programs need for their first answer.
RARE = {
    "importlib.metadata",
    "ml_dtypes",
    "zrt.environment.devices",
    "zrt.interop.dlpack",
    "zrt.onnxruntime.options",
    "zrt.onnxruntime.values",
    "zrt.session.compatibility",
    "zrt.values.copy",
}


DEVICES = {"zrt.environment.devices", "zrt.session.compatibility"}


@pytest.mark.parametrize(
    ("line", "needs"),
    [
        ("", set()),
        ("ort.SessionOptions()", {"zrt.onnxruntime.options"}),
        (
            "ort.OrtValue.ortvalue_from_numpy(image)",
            DEVICES | {"zrt.interop.dlpack", "zrt.onnxruntime.values", "zrt.values.copy"},
        ),
        ("ort.get_ep_devices()", DEVICES),
    ],
)
def test_call_imports_only_the_modules_that_it_needs(python, line, needs) -> None:
    script = f"""
        import sys
        import numpy as np
        before = set(sys.modules)
        import zrt.onnxruntime as ort
        session = ort.InferenceSession({str(DIGITS)!r}, providers=["CPUExecutionProvider"])
        image = np.zeros((1, 1, 8, 8), np.float32)
        session.run(None, {{session.get_inputs()[0].name: image}})
        {line}
        print(" ".join(set(sys.modules) - before))
    """
    assert set(python(script).stdout.split()) & RARE == needs


def test_table_has_every_name_of_the_package() -> None:
    names = set(zrt.onnxruntime.__all__) - {"capi", "onnxruntime_validation", "install"}
    assert names <= homes.HOMES.keys()


@pytest.mark.parametrize("table", ["STATE", "COLLECTION", "HOMES"])
def test_table_names_modules_that_have_the_names(table) -> None:
    for name, home in getattr(homes, table).items():
        assert hasattr(importlib.import_module(f"zrt.onnxruntime.{home}"), name)


def test_names_of_the_package_are_listed(ort) -> None:
    listed = set(dir(zrt.onnxruntime))
    assert listed >= {name for name in ("InferenceSession", "OrtValue", "__version__", "capi") if hasattr(ort, name)}
