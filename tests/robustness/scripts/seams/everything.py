"""Runs of every kind of value in many ways, while other threads close, cancel, terminate and drop."""

from __future__ import annotations

import asyncio
import concurrent.futures
import gc
import logging

import numpy as np

import zrt
from tests.robustness.prologue import ADD, FEEDS, QUIET, SUM, same
from tests.robustness.race import race
from tests.robustness.seams import LOGGED, built, own_threads
from tests.values.test_optional import TENSOR, makes

LOGGED.addHandler(logging.NullHandler())
SETTINGS = [QUIET, own_threads(logger=LOGGED, log_severity_level="VERBOSE")]
CHOICES = [None, zrt.DevicePolicy.PREFER_CPU, lambda devices, metadata: devices[:1]]
strings = built("(string[n] x) => (string[n] y) { y = Identity(x) }")
sequences = built("(seq(float[n]) s, float[n] x) => (seq(float[n]) t) { t = SequenceInsert(s, x) }")


class Objects:
    def __init__(self, turn):
        self.options = zrt.RunOptions(tag="a")
        self.add = zrt.Session(ADD, SETTINGS[turn % 2], CHOICES[turn % 3])
        self.strings = zrt.Session(strings, SETTINGS[turn % 2])
        self.sequences = zrt.Session(sequences, QUIET)
        self.optional = makes(TENSOR)
        self.future = None


now = [Objects(0)]


def submit(turn):
    held = now[0]
    held.future = future = held.add.submit(FEEDS, options=held.options if turn % 2 else None)
    same(future.result(60)[0], SUM)


def wait(turn):
    one = now[0].add

    async def three():
        return await asyncio.gather(*(one.run_async(FEEDS) for _ in range(3)))

    for found in asyncio.run(three()):
        same(found[0], SUM)


def text(turn):
    given = np.array(["é" * turn, ""], object)
    same(now[0].strings.submit({"x": given}).result(60)[0], given)
    same(now[0].strings.prepare([zrt.Value.from_strings(given)]).run()[0], given)


def lists(turn):
    feeds = [[np.ones(turn % 5, np.float32)] * 3, np.zeros(2, np.float32)]
    assert len(now[0].sequences.submit(feeds).result(60)[0]) == 4


def absent(turn):
    feeds = {"fill": np.array(bool(turn % 2)), "x": np.ones(2, np.float32)}
    assert (now[0].optional.submit(feeds).result(60)[0] is None) == (turn % 2 == 0)


def cancel(turn):
    if now[0].future is not None:
        now[0].future.cancel()


def end(turn):
    options = now[0].options
    options.terminate()
    options.reset()


def close(turn):
    former, now[0] = now[0], Objects(turn)
    for each in (former.add, former.strings, former.sequences, former.optional, former.options):
        each.close()


def drop(turn):
    now[0] = Objects(turn)
    gc.collect(0)


errors = (zrt.errors.ClosedError, zrt.errors.TerminatedError, zrt.errors.BusyError, concurrent.futures.CancelledError)
counts = race(submit, submit, wait, text, lists, absent, cancel, end, close, drop, turns=25, errors=errors)
assert counts[-2:] == [25, 25], counts
assert all(counts), counts
