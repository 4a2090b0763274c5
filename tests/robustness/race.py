"""Races between threads. A thread that raises or hangs fails the test."""

import zrt
from tests.robustness.sums import QUIET
from tests.support import models
from tests.support.together import in_threads


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
