"""`zrt._native.thread_start`: an interrupt while a thread starts comes out as itself."""

from __future__ import annotations

import threading

import pytest

from zrt._native.thread_start import start_thread


class Interrupted(threading.Thread):
    """One whose start is interrupted where `threading` holds a lock, which fails in its turn."""

    def start(self) -> None:
        try:
            raise KeyboardInterrupt
        finally:
            raise RuntimeError("release unlocked lock")


class Refused(threading.Thread):
    """One that the system has no room for."""

    def start(self) -> None:
        raise RuntimeError("can't start new thread")


def test_a_thread_starts():
    done = threading.Event()
    thread = threading.Thread(target=done.set)
    start_thread(thread)
    thread.join(10)
    assert done.is_set()


def test_an_interrupt_is_raised_as_one():
    with pytest.raises(KeyboardInterrupt):
        start_thread(Interrupted())


def test_a_refusal_is_none_even_where_an_interrupt_is_handled():
    with pytest.raises(RuntimeError, match="can't start new thread"):
        start_thread(Refused())
    try:
        raise KeyboardInterrupt
    except KeyboardInterrupt:
        with pytest.raises(RuntimeError, match="can't start new thread"):
            start_thread(Refused())


def test_an_interrupt_within_the_handling_of_another_is_raised():
    try:
        raise ValueError
    except ValueError:
        with pytest.raises(KeyboardInterrupt):
            start_thread(Interrupted())
