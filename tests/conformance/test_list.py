"""The list of ONNX's tests that fail is in order, and a case that does not do as it says fails its test."""

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pytest

from tests.conformance import cases

GROUPS = [
    pytest.param(group, id=f"{table}: {group['why']}") for table in ("session", "lane") for group in cases.LIST[table]
]
RELU = "node/test_relu"


@pytest.fixture
def case() -> cases.Case:
    """The case of Relu, which passes; skips the test where onnx lacks its cases."""
    for one in cases.every():
        if one.id == RELU:
            return one.values[0]
    pytest.skip(cases.MISSING)


def right(case: cases.Case, feeds: dict[str, Any]) -> Iterator[Sequence[Any]]:
    yield [np.maximum(feeds["x"], 0)]


def wrong(case: cases.Case, feeds: dict[str, Any]) -> Iterator[Sequence[Any]]:
    yield [np.maximum(feeds["x"], 0) + np.float32(0.01)]


@pytest.mark.parametrize("group", GROUPS)
def test_group_names_each_case_once_and_in_order(group: dict[str, Any]) -> None:
    assert group.keys() >= {"why", "error", "cases"}
    assert group.keys() <= {"why", "error", "cases", "since", "until", "without_locale"}
    assert group["cases"] == sorted(set(group["cases"]))


@pytest.mark.parametrize("table", ["session", "lane"])
def test_no_case_has_two_reasons(table: str) -> None:
    counts = Counter(name for group in cases.groups(table) for name in group["cases"])
    assert counts.total() == len(counts)


def test_every_listed_case_exists(case: cases.Case) -> None:
    known = {one.id for one in cases.every()}
    assert {name for group in cases.LIST["session"] + cases.LIST["lane"] for name in group["cases"]} <= known


def test_case_off_the_list_must_pass(case: cases.Case) -> None:
    assert cases.hold(case, right, None) is None
    with pytest.raises(AssertionError, match="Not equal to tolerance"):
        cases.hold(case, wrong, None)


def test_case_on_the_list_must_fail(case: cases.Case) -> None:
    with pytest.raises(pytest.fail.Exception, match=f"{RELU} passes: remove it from the list, .* because it is hard"):
        cases.hold(case, right, cases.Failure("it is hard", "Not equal"))


def test_case_on_the_list_must_fail_for_that_reason(case: cases.Case) -> None:
    assert isinstance(cases.hold(case, wrong, cases.Failure("it is hard", "Not equal to tolerance")), AssertionError)
    with pytest.raises(AssertionError, match="Regex pattern did not match"):
        cases.hold(case, wrong, cases.Failure("it is hard", "no kernel"))


def test_every_run_of_a_case_must_pass(case: cases.Case) -> None:
    def right_once(case: cases.Case, feeds: dict[str, Any]) -> Iterator[Sequence[Any]]:
        yield from right(case, feeds)
        yield from wrong(case, feeds)

    with pytest.raises(AssertionError, match="Not equal to tolerance"):
        cases.hold(case, right_once, None)


@pytest.mark.parametrize(
    ("result", "wanted"),
    [
        ([np.zeros(2)], [np.zeros(2), np.zeros(2)]),
        ([np.zeros(2)], [np.zeros(3)]),
        ([np.zeros(2)], [np.zeros(2, np.float32)]),
        ([np.zeros(2)], [None]),
        ([None], [np.zeros(2)]),
        ([np.zeros(2)], [[np.zeros(2)]]),
        ([np.array(["a"], object)], [np.array(["b"], object)]),
    ],
    ids=["count", "shape", "type", "value where none is wanted", "none", "no sequence", "string"],
)
def test_results_that_differ_are_noticed(case: cases.Case, result: list[Any], wanted: list[Any]) -> None:
    with pytest.raises(AssertionError):
        cases.assert_similar(result, wanted, case)
