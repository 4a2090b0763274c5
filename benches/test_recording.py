"""The cost of recording a run."""

from typing import Any

import numpy as np
import pytest

import zrt
from benches.models import build


@pytest.mark.parametrize("recorded", [False, True])
def test_run(benchmark: Any, recorded: bool) -> None:
    session = zrt.Session(build.add(), zrt.SessionOptions(intra_op_num_threads=1))
    feeds = {name: np.ones(4, np.float32) for name in session.input_names}
    recorder = session.record() if recorded else None
    benchmark(session.run, feeds)
    assert (recorder is not None and recorder.count > 0) == recorded
