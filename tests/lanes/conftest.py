"""Fixtures of the tests of lanes."""

from typing import Any

import pytest

from zrt import IoBinding
from zrt.lanes import lane_shapes


@pytest.fixture
def trials(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The trial runs that making lanes takes: "trial" for each."""
    runs: list[str] = []
    run_trial = lane_shapes._run_trial

    def counted(binding: IoBinding) -> Any:
        runs.append("trial")
        return run_trial(binding)

    monkeypatch.setattr(lane_shapes, "_run_trial", counted)
    return runs
