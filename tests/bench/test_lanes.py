import threading

import pytest

from tests.support import models
from zrt import Session
from zrt.bench import lanes
from zrt.errors import ZrtError


def test_failing_lane_raises_and_does_not_hang():
    with Session(models.add()) as session:
        several = [session.lane() for _ in range(2)]
    several[1].close()
    before = threading.active_count()
    with pytest.raises(ZrtError, match="closed"):
        lanes.measure(several, typical_ns=1000.0, runs=5)
    assert threading.active_count() <= before


def test_interrupt_before_all_threads_start_does_not_hang(monkeypatch):
    submit = lanes.ThreadPoolExecutor.submit
    started = []

    def interrupted(pool, *arguments):
        if started:
            raise KeyboardInterrupt
        started.append(True)
        return submit(pool, *arguments)

    monkeypatch.setattr(lanes.ThreadPoolExecutor, "submit", interrupted)
    ended = threading.Event()

    def run():
        with pytest.raises(KeyboardInterrupt):
            lanes.at_once([int, int])
        ended.set()

    threading.Thread(target=run, daemon=True).start()
    assert ended.wait(10)
