"""Fixtures of the tests of lanes."""

from typing import Any

import pytest

from tests.support.decoding import decoder_session
from zrt import IoBinding, Session
from zrt.lanes import lane_shapes


@pytest.fixture(scope="session")
def decoder() -> Session:
    """The decoder of tests.support.decoding."""
    return decoder_session()


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
