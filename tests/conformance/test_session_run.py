"""ONNX's own tests through `Session.run`."""

from collections.abc import Iterator, Sequence
from typing import Any

import pytest

import zrt
from tests.conformance import cases


def run(case: cases.Case, feeds: dict[str, Any]) -> Iterator[Sequence[Any]]:
    """Once with feeds that the session has not seen, and once with those of the run before, which is the fast path."""
    options = zrt.SessionOptions(intra_op_num_threads=1, log_severity_level="FATAL")
    with zrt.Session(case.path, options) as session:
        yield session.run(feeds)
        yield session.run(feeds)


@pytest.mark.parametrize("case", cases.every())
def test_case_passes_or_fails_as_listed(case: cases.Case) -> None:
    cases.hold(case, run, cases.failures("session").get(case.name))
