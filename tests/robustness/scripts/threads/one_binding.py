"""Threads run, read and rebind one binding: each use is whole or refused."""

from __future__ import annotations

import numpy as np

import zrt
from tests.robustness.prologue import FEEDS, SUM, binding, same, session
from tests.robustness.race import race

bound = binding(session())
inputs = [np.full(4, number, np.float32) for number in range(5)]
place = np.zeros(4, np.float32)
whole = {tuple(feed + 1) for feed in inputs} | {tuple(SUM)}


def run(turn):
    bound.run()


def read(turn):
    for value in bound.numpy().values():
        assert tuple(value.tolist()) in whole or np.shares_memory(value, place)


def bind(turn):
    bound.bind_input("x", inputs[turn % 5])


def bind_place(turn):
    bound.bind_output("z", place if turn % 2 else None)


def clear(turn):
    bound.clear_inputs() if turn % 2 else bound.clear_outputs()
    bound.synchronize_inputs()


def restore(turn):
    for name, feed in FEEDS.items():
        bound.bind_input(name, feed)
    bound.bind_output("z")


errors = zrt.errors.BusyError, zrt.errors.ArgumentError
race(run, read, turns=2000, errors=errors)
race(run, bind, turns=2000, errors=errors)
race(run, run, read, bind, bind_place, clear, restore, turns=2000, errors=errors)
restore(0)
bound.run()
same(bound.numpy()["z"], SUM)
