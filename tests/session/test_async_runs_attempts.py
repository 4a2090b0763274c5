"""Asynchronous runs of models that declare an output wrongly: each first one has a second attempt."""

from __future__ import annotations

import threading
import time

import numpy as np
import pytest

import zrt
from zrt.session import async_runs

pytestmark = pytest.mark.usefixtures("no_run_left")


@pytest.fixture(params=[1, 2], ids=["no pool", "pool"])
def session(request, build):
    options = zrt.SessionOptions(intra_op_num_threads=request.param, log_severity_level="FATAL")
    return zrt.Session(build("(float[n] x) => (float[3] y) { y = Neg(x) }"), options)


def test_model_with_a_wrong_output_shape_runs_again(session):
    np.testing.assert_array_equal(session.submit([np.ones(5, np.float32)]).result(60)[0], -np.ones(5))
    np.testing.assert_array_equal(session.submit([np.ones(4, np.float32)]).result(60)[0], -np.ones(4))


def test_message_of_the_first_attempt_does_not_complete_the_second(session, monkeypatch):
    """The message of a run that had to be repeated may be read when the second attempt has begun."""
    claim, start = async_runs.Run.claim, async_runs._start
    message, second, claimed = threading.Event(), threading.Event(), threading.Event()

    def late_claim(run, key):
        if threading.current_thread().name != "zrt-bridge":
            return claim(run, key)
        message.set()
        assert second.wait(60)
        claims = claim(run, key)
        claimed.set()
        return claims

    def start_and_wait(block):
        if message.is_set():
            second.set()
            assert claimed.wait(60)
            # Time for the thread to complete the attempt wrongly.
            time.sleep(0.1)
        start(block)

    monkeypatch.setattr(async_runs.Run, "claim", late_claim)
    monkeypatch.setattr(async_runs, "_start", start_and_wait)
    future = session.submit([np.ones(5, np.float32)])
    assert message.wait(60)
    np.testing.assert_array_equal(future.result(60)[0], -np.ones(5))
    assert claimed.is_set()


def test_interrupt_while_the_second_attempt_starts(session, monkeypatch, caplog, eventually):
    claim, start = async_runs.Run.claim, async_runs._start
    blocks, interrupted = [], threading.Event()

    def claim_second(run, key):
        """Leaves the first attempt to the thread that waits, and takes the second one after the interrupt."""
        if threading.current_thread() is not threading.main_thread():
            if len(blocks) < 2:
                return False
            assert interrupted.wait(60)
        return claim(run, key)

    def start_and_interrupt(block):
        blocks.append(block)
        start(block)
        if len(blocks) == 2:
            raise KeyboardInterrupt

    monkeypatch.setattr(async_runs.Run, "claim", claim_second)
    monkeypatch.setattr(async_runs, "_start", start_and_interrupt)
    future = session.submit([np.ones(5, np.float32)])
    with pytest.raises(KeyboardInterrupt):
        future.result(60)
    interrupted.set()
    eventually(lambda: not async_runs._under_way)
    monkeypatch.undo()
    assert not caplog.records
    np.testing.assert_array_equal(session.submit([np.ones(5, np.float32)]).result(60)[0], -np.ones(5))
