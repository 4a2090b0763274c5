"""Races between threads. A thread that raises or hangs fails the test."""

import threading

import zrt
from tests.robustness.sums import QUIET
from tests.support import models


def in_threads(*functions):
    """Calls each function in a thread of its own; all begin together."""
    barrier = threading.Barrier(len(functions))
    failures = []

    def begin(function):
        try:
            barrier.wait(60)
            function()
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=begin, args=(function,), daemon=True) for function in functions]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
        assert not thread.is_alive(), "a thread hangs"
    if failures:
        raise failures[0]


def race(*functions, turns=300, errors=(zrt.errors.BusyError,)):
    """Calls each function `turns` times in a thread of its own, with the number of the turn.

    Returns for each function the number of calls that raised none of `errors`.
    """
    counts = [0] * len(functions)

    def repeat(number):
        for turn in range(turns):
            try:
                functions[number](turn)
            except errors:
                continue
            counts[number] += 1

    in_threads(*(lambda number=number: repeat(number) for number in range(len(functions))))
    return counts


def counting():
    """A session of end = start + turns, one per iteration: a run takes as long as a test wants."""
    return zrt.Session(models.counting_loop(), QUIET)
