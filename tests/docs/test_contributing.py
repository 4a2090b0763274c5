"""The numbers in the page for contributors are those of the tests."""

from pathlib import Path

import pytest

from tests.conformance import cases

PAGE = Path(__file__).parents[2].joinpath("docs/contributing.md").read_text("utf-8")


def test_page_counts_the_cases_of_onnx_that_do_not_pass() -> None:
    failing, refused = (sum(len(group["cases"]) for group in cases.LIST[table]) for table in ("session", "lane"))
    assert f"- {failing} fail because" in PAGE
    assert f"- {refused} have strings" in PAGE


def test_page_counts_the_cases_of_onnx() -> None:
    count = len(cases.every())
    if count == 1:
        pytest.skip(cases.MISSING)
    assert f"the {count:,} cases" in PAGE
