"""`zrt._native.thread_start`: an interrupt while a thread starts comes out as itself."""

import threading

import pytest

from zrt._native.thread_start import start_thread
from zrt.errors import AllocationError


class Interrupted(threading.Thread):
    """A thread whose start is interrupted, which makes `threading` fail on its own lock."""

    def start(self) -> None:
        try:
            raise KeyboardInterrupt
        finally:
            raise RuntimeError("release unlocked lock")


class Refused(threading.Thread):
    """A thread that the system refuses."""

    def start(self) -> None:
        raise RuntimeError("can't start new thread")


def test_thread_starts():
    done = threading.Event()
    thread = threading.Thread(target=done.set)
    start_thread(thread)
    thread.join(10)
    assert done.is_set()


def test_interrupt_of_start_is_raised():
    with pytest.raises(KeyboardInterrupt):
        start_thread(Interrupted())


def test_refused_thread_raises_also_while_an_interrupt_is_handled():
    with pytest.raises(AllocationError, match="can't start new thread"):
        start_thread(Refused())
    try:
        raise KeyboardInterrupt
    except KeyboardInterrupt:
        with pytest.raises(AllocationError, match="can't start new thread"):
            start_thread(Refused())


def test_interrupt_is_raised_while_another_exception_is_handled():
    try:
        raise ValueError
    except ValueError:
        with pytest.raises(KeyboardInterrupt):
            start_thread(Interrupted())
