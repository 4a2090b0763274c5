"""The faults of ONNX Runtime's releases in docs/security.md: `zrt info` names a library exactly if it has them."""

from pathlib import Path

import pytest

from tests.robustness.conftest import Child
from zrt._native.library import library

pytest.importorskip("onnx", reason="onnx, which writes the models, is not installed")

FAULTY = bool(library().faults)


def test_packed_values_are_right_where_no_fault_is_named(child: Child) -> None:
    """The model does not crash a faulty library with its default options: it computes wrong values."""
    wrong = int(child("faults/packed.py"))
    assert (wrong > 0) is FAULTY


def test_guide_shows_that_model() -> None:
    page = Path(__file__).parents[2] / "docs" / "security.md"
    if not page.exists():
        pytest.skip("the guide is not beside the tests")
    script = (Path(__file__).parent / "scripts" / "faults" / "packed.py").read_text("utf-8")
    model = script.split('"""')[3]
    assert f"```text{model}```" in page.read_text("utf-8")


@pytest.mark.parametrize(
    ("model", "outcome"), [("loop", "InvalidGraphError"), ("embedding", "FailError"), ("convolution", "loaded")]
)
def test_damaged_model_ends_only_a_library_whose_fault_is_named(child: Child, model: str, outcome: str) -> None:
    process = child.start("faults/damaged.py", [model])
    printed, errors = process.communicate(timeout=120)
    if not FAULTY:
        assert (process.returncode, printed.strip()) == (0, outcome), errors
    elif library().source.startswith("onnxruntime distribution"):
        assert process.returncode < 0
    else:
        pytest.skip("only the official builds check the index that they read at")
