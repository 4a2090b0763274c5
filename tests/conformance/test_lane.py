"""ONNX's own tests through lanes."""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pytest

import zrt
from tests.conformance import cases
from zrt.errors import UnsupportedError
from zrt.types import ElementType, pack, unpack


def run(case: cases.Case, feeds: dict[str, Any]) -> Iterator[Sequence[Any]]:
    """Twice over the same memory."""
    options = zrt.SessionOptions(intra_op_num_threads=1, log_severity_level="FATAL")
    session = zrt.Session(case.path, options)
    lane = session.lane({name: feed.shape for name, feed in feeds.items() if isinstance(feed, np.ndarray)})
    for name, feed in feeds.items():
        kind = ElementType.of(feed.dtype)
        lane.inputs[name][...] = pack(feed, kind) if kind.packed else feed
    for _ in range(2):
        lane.run()
        ports = zip(session.outputs, lane.audit().outputs, strict=True)
        yield [_elements(lane.outputs[info.name], info, port) for info, port in ports]


def _elements(output: Any, info: zrt.ValueInfo, port: zrt.PortAudit) -> Any:
    """An output as `Session.run` returns it: a sequence as a list; of a packed type the elements, not their bytes."""
    if isinstance(output, zrt.Value) and output.kind is zrt.ValueKind.SEQUENCE:
        return output.to_list()
    if isinstance(output, np.ndarray) and info.element_type.packed:
        assert port.shape is not None
        return unpack(output, info.element_type, port.shape)
    return output


@pytest.mark.parametrize("case", cases.every())
def test_case_passes_or_fails_as_listed(case: cases.Case) -> None:
    failure, refusal = (cases.failures(table).get(case.name) for table in ("session", "lane"))
    error = cases.hold(case, run, failure or refusal)
    assert failure or refusal is None or isinstance(error, UnsupportedError)
