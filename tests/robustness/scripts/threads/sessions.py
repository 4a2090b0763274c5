"""Eight threads load, run and drop sessions; some of the loads fail."""

from __future__ import annotations

import gc

import zrt
from tests.robustness.prologue import ADD, FEEDS, SUM, lane, same, session
from tests.robustness.race import race

options = [zrt.SessionOptions(intra_op_num_threads=count) for count in (1, 2)]


def load(turn):
    with session(options[turn % 2]) as one:
        made = lane(one)
        same(one.run(FEEDS)[0], SUM)
    made.run()
    same(made.outputs["z"], SUM)


def drop(turn):
    kept = [lane(session()) for _ in range(2)]
    del kept[0]
    gc.collect(0)


def fail(turn):
    try:
        zrt.Session(ADD[:-10])
    except zrt.errors.InvalidProtobufError:
        return
    raise AssertionError


race(*[load] * 5, fail, fail, fail, turns=40, errors=())
