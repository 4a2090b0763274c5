"""Loops that time calls from Python. What is timed is the loop as a user would write it; nothing is subtracted."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import repeat
from time import perf_counter_ns as clock
from typing import Any


@contextmanager
def without_gc() -> Iterator[None]:
    """Keeps the cyclic garbage collector out of what is timed inside."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


def batch(call: Callable[..., Any], arguments: tuple[Any, ...], runs: int) -> int:
    """The nanoseconds that `runs` calls in a row take. Takes up to two arguments."""
    # Written out for each count: a lambda or a starred call would cost what is to be measured.
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
    """The nanoseconds of each of `runs` calls, the timer's own (`timer_times`) included."""
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
    """What `times` reads where nothing is called: the cost of the timer."""
    samples = [0] * runs
    for index in range(runs):
        start = clock()
        samples[index] = clock() - start
    return samples


def empty_loop(runs: int) -> int:
    """The nanoseconds that the loop of `batch` takes where nothing is called."""
    start = clock()
    for _ in repeat(None, runs):
        pass
    return clock() - start
