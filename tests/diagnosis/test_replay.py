"""The text of `zrt.Replay`."""

from pathlib import Path

import numpy as np

import zrt
from tests.support import models

QUIET = zrt.SessionOptions(log_severity_level="FATAL", intra_op_num_threads=1)


def test_arena_that_shrank_is_said_to_have_shrunk(tmp_path: Path) -> None:
    model = models.parsed("(float[n] x) => (float[n] y) { a = Exp(x) b = Cos(a) y = Exp(b) }")
    session = zrt.Session(model, QUIET)
    large = np.zeros(1 << 20, np.float32)
    for _ in range(2):
        session.run([large])
    with session.record(capsules=tmp_path, slower_than=1e-9) as recorder:
        session.run([large], options=zrt.RunOptions(config_entries={"memory.enable_memory_arena_shrinkage": "cpu:0"}))
        found = zrt.replay(recorder.capsules[-1], model)
    assert found.arena_growth is not None
    assert found.arena_growth <= -large.nbytes
    assert f"then the arena had shrunk by {-found.arena_growth} bytes\n" in str(found)
