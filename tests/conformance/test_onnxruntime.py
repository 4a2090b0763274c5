"""The list of ONNX's tests that fail has none that the official package passes."""

from collections.abc import Iterator, Sequence
from typing import Any

import pytest

from tests.conformance import cases

pytestmark = pytest.mark.official


def run(case: cases.Case, feeds: dict[str, Any]) -> Iterator[Sequence[Any]]:
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.log_severity_level = 4
    session = onnxruntime.InferenceSession(str(case.path), options, ["CPUExecutionProvider"])
    yield session.run(None, feeds)


@pytest.mark.parametrize("case", cases.listed("session"))
def test_onnxruntime_fails_in_the_same_way(case: cases.Case) -> None:
    cases.hold(case, run, cases.failures("session")[case.name])
