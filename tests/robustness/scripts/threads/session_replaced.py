"""Eight threads use a session in every way while others close it, drop it and load another."""

from __future__ import annotations

import gc

import numpy as np

import zrt
from tests.robustness.prologue import FEEDS, SUM, binding, lane, same, session
from tests.robustness.race import race

current = [session()]


def run(turn):
    same(current[0].run(FEEDS)[0], SUM)


def run_slowly(turn):
    same(current[0].run([FEEDS["x"][: turn % 4], FEEDS["y"][: turn % 4]], ["z"])[0], SUM[: turn % 4])


def prepare(turn):
    prepared = current[0].prepare(FEEDS)
    same(prepared.run()[0], SUM)


def make_lane(turn):
    made = lane(current[0])
    made.run()
    same(made.outputs["z"], SUM)


def bind(turn):
    bound = binding(current[0])
    bound.run()
    same(bound.numpy()["z"], SUM)


def allocate(turn):
    value = zrt.Value.allocate((4,), np.float32, current[0].allocator())
    value.numpy()[...] = turn
    same(value.numpy(), [turn] * 4)


def close(turn):
    former, current[0] = current[0], session()
    former.close()


def drop(turn):
    current[0] = session()
    gc.collect(0)


counts = race(run, run, run_slowly, prepare, make_lane, bind, allocate, run, close, drop, errors=zrt.errors.ClosedError)
assert counts[-2:] == [300, 300]
assert counts[0] > 0
