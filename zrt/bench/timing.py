"""Loops that time calls from Python. They time the loop as a user would write it, and subtract nothing."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import repeat
from time import perf_counter_ns as clock
from typing import Any


@contextmanager
def without_gc() -> Iterator[None]:
    """Disables the cyclic GC inside."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


def batch(call: Callable[..., Any], arguments: tuple[Any, ...], runs: int) -> int:
    """Calls the function `runs` times with up to two arguments; returns the nanoseconds of all calls."""
    # One loop for each number of arguments: a lambda or a starred call would add to the measured time.
    if not arguments:
        start = clock()
        for _ in repeat(None, runs):
            call()
        return clock() - start
    if len(arguments) == 1:
        (only,) = arguments
        start = clock()
        for _ in repeat(None, runs):
            call(only)
        return clock() - start
    first, second = arguments
    start = clock()
    for _ in repeat(None, runs):
        call(first, second)
    return clock() - start


def times(call: Callable[..., Any], arguments: tuple[Any, ...], runs: int) -> list[int]:
    """The nanoseconds of each of `runs` calls, including the timer's own (`timer_times`)."""
    samples = [0] * runs
    if not arguments:
        for index in range(runs):
            start = clock()
            call()
            samples[index] = clock() - start
    elif len(arguments) == 1:
        (only,) = arguments
        for index in range(runs):
            start = clock()
            call(only)
            samples[index] = clock() - start
    else:
        first, second = arguments
        for index in range(runs):
            start = clock()
            call(first, second)
            samples[index] = clock() - start
    return samples


def timer_times(runs: int) -> list[int]:
    """The readings of `times` around no call: the cost of the timer."""
    samples = [0] * runs
    for index in range(runs):
        start = clock()
        samples[index] = clock() - start
    return samples


def empty_loop(runs: int) -> int:
    """The nanoseconds of the loop of `batch` without a call."""
    start = clock()
    for _ in repeat(None, runs):
        pass
    return clock() - start
