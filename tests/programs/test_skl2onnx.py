"""skl2onnx's own tests and examples have the same outcomes with the drop-in as with the official package."""

from __future__ import annotations

import os
import xml.etree.ElementTree as ET
from collections.abc import Callable
from pathlib import Path

import pytest

HERE = Path(__file__).parent
SOURCE = "ZRT_SKL2ONNX_SOURCE"
# Files that take up to a few seconds. Tests that fail with the official package must fail with the drop-in too.
TESTS = (
    "test_algebra_onnx_operators.py",
    "test_algebra_onnx_operators_sparse.py",
    "test_convert_options.py",
    "test_investigate.py",
    "test_onnxruntime.py",
    "test_sklearn_decision_tree_converters.py",
    "test_sklearn_imputer_converter.py",
    "test_sklearn_label_encoder_converter.py",
    "test_sklearn_normalizer_converter.py",
    "test_sklearn_one_hot_encoder_converter.py",
    "test_sklearn_ordinal_encoder.py",
    "test_sklearn_pipeline.py",
    "test_sklearn_scaler_converter.py",
    "test_sklearn_text.py",
    "test_utils_sklearn.py",
)
EXAMPLES = (
    "examples/plot_backend.py",
    "examples/plot_convert_decision_function.py",
    "examples/plot_errors_onnxruntime.py",
    "examples/plot_metadata.py",
    "tutorial/plot_gbegin_dataframe.py",
)
# Programs print these texts differently: the module of an error's class; the type of int64 arrays, for which the
# official package has C's "long long", which numpy does not take for the default; and an error's words in the C API.
DIFFERENCES = {
    "onnxruntime.capi.onnxruntime_pybind11_state.": "zrt.onnxruntime.errors.",
    ", dtype=int64)": ")",
    "Invalid output name:": "Invalid output name: ",
}

pytestmark = [pytest.mark.official, pytest.mark.programs("skl2onnx", "sklearn", "pandas")]


@pytest.fixture
def source() -> Path:
    """The unpacked source distribution of the installed version of skl2onnx: its wheel has no tests."""
    if not os.environ.get(SOURCE):
        pytest.skip(f"{SOURCE} is not set: it would name the source of skl2onnx")
    return Path(os.environ[SOURCE])


def outcomes(report: Path) -> dict[str, str]:
    """The outcome of each test in a report that pytest has written."""
    cases = ET.parse(report).getroot().iter("testcase")
    return {f"{case.get('classname')}.{case.get('name')}": case[0].tag if len(case) else "passed" for case in cases}


def test_tests_have_the_same_outcomes(outputs: Callable[..., dict[str, str]], source: Path, tmp_path: Path) -> None:
    outputs(HERE / "scripts" / "run_pytest.py", *(source / "tests" / name for name in TESTS))
    official, own = (outcomes(tmp_path / package / "report.xml") for package in ("official", "zrt"))
    assert list(official.values()).count("passed") > 100
    assert own == official


@pytest.mark.parametrize("example", EXAMPLES)
def test_examples_print_the_same(outputs: Callable[..., dict[str, str]], source: Path, example: str) -> None:
    printed = outputs(HERE / "scripts" / "run_seeded.py", source / "docs" / example)
    official = printed["official"]
    for theirs, ours in DIFFERENCES.items():
        official = official.replace(theirs, ours)
    assert printed["zrt"] == official
