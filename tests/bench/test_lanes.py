from __future__ import annotations

import threading

import pytest

from tests.support import models
from zrt import Session
from zrt.bench import lanes
from zrt.errors import ZrtError


def test_report_has_figures_of_every_lane():
    with Session(models.add()) as session:
        found = lanes.measure([session.lane() for _ in range(3)], typical_ns=1000.0, runs=50)
    assert [len(latency.samples) for latency in found.latencies] == [50] * 3
    assert found.single_per_s > 0
    assert found.all_per_s > 0


def test_failing_lane_raises_and_does_not_hang():
    with Session(models.add()) as session:
        several = [session.lane() for _ in range(2)]
    several[1].close()
    with pytest.raises(ZrtError, match="closed"):
        lanes.measure(several, typical_ns=1000.0, runs=5)
    assert threading.active_count() < 10
