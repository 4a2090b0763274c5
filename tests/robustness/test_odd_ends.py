"""Ends of processes in which something was refused before."""

from __future__ import annotations

from tests.robustness.conftest import Child


def test_a_process_that_gets_no_thread_ends_quietly(child: Child) -> None:
    process = child.start(
        """
        def refuse(thread):
            raise RuntimeError("can't start new thread")
        start, threading.Thread.start = threading.Thread.start, refuse
        try:
            session().submit(FEEDS)
        except zrt.errors.AllocationError as error:
            assert "no thread" in str(error), error
        else:
            raise SystemExit("a thread was started")
        """
    )
    _, errors = process.communicate(timeout=60)
    assert (process.returncode, errors) == (0, "")
