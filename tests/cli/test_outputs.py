import numpy as np
import pytest

from zrt.cli import outputs


def top(array) -> list[int] | None:
    top = outputs.describe(np.asarray(array, np.float32))["top"]
    return top and [entry["index"] for entry in top]


@pytest.mark.parametrize("shape", [(1, 10), (3, 10), (1, 10, 1, 1), (1, 1, 10)])
def test_scores_of_classes_have_a_top_five(shape):
    scores = np.zeros(shape, np.float32)
    scores.reshape(-1)[:10] = [0, 9, 1, 8, 2, 7, 3, 6, 4, 5]
    assert top(scores) == [1, 3, 5, 7, 9]


@pytest.mark.parametrize("shape", [(), (10,), (1, 1), (2, 3, 4), (1, 100_001), (0, 10), (1, 0)])
def test_other_shapes_have_no_top_five(shape):
    assert top(np.zeros(shape, np.float32)) is None


def test_non_float_outputs_have_no_top_five():
    assert outputs.describe(np.zeros((1, 10), np.int64))["top"] is None


def test_fewer_than_five_finite_classes_are_all_listed():
    assert top([[1, 3, 2]]) == [1, 2, 0]
    assert top([[np.nan, np.inf, 2, 0]]) == [2, 3]


def test_absent_optional_has_its_own_kind():
    assert outputs.describe(None) == {"kind": "nothing"}


def test_large_integers_do_not_overflow():
    description = outputs.describe(np.array([2**63 - 1, -(2**63)], np.int64))
    assert (description["min"], description["max"]) == (-(2**63), 2**63 - 1)
    assert description["mean"] == 0


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("large", [1e200, 1.7e308])
def test_large_floats_do_not_overflow(large):
    description = outputs.describe(np.array([large, -large, large, -large]))
    assert (description["mean"], description["deviation"]) == (0, pytest.approx(large))
    description = outputs.describe(np.array([large, large]))
    assert (description["mean"], description["deviation"]) == (pytest.approx(large), 0)


def test_output_without_finite_elements():
    description = outputs.describe(np.array([np.nan, np.inf, -np.inf], np.float32))
    assert (description["nan"], description["infinite"], description["min"], description["mean"]) == (1, 2, None, None)
    assert not outputs.is_finite(description)
