"""ONNX's own tests through `Session.run`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import onnx
import pytest

import zrt
from tests.conformance import cases


def run(case: cases.Case, model: onnx.ModelProto, feeds: dict[str, Any]) -> Sequence[Any]:
    options = zrt.SessionOptions(intra_op_num_threads=1, log_severity_level="FATAL")
    with zrt.Session(case.path, options) as session:
        return session.run(feeds)


@pytest.mark.parametrize("case", cases.every())
def test_case_passes_or_fails_as_listed(case: cases.Case) -> None:
    cases.hold(case, run, cases.failures("session").get(case.name))
