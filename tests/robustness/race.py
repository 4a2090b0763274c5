"""Races between threads, for the scripts of these tests."""

from __future__ import annotations

import threading

import zrt
from tests.robustness.prologue import QUIET
from tests.support import models


def race(*functions, turns=300, errors=(zrt.errors.BusyError,)):
    """Calls each function `turns` times in a thread of its own; all threads begin together.

    Returns for each function the number of calls that raised none of `errors`. Any other exception ends the process.
    """
    barrier = threading.Barrier(len(functions))
    counts = [0] * len(functions)

    def begin(number, function):
        barrier.wait()
        for turn in range(turns):
            try:
                function(turn)
            except errors:
                continue
            counts[number] += 1

    threads = [threading.Thread(target=begin, args=each) for each in enumerate(functions)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return counts


# end = start + turns, one per iteration: it runs as long as a test wants.
counting = zrt.Session(models.counting_loop(), QUIET)
