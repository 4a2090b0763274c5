"""Loads with the same options before and after the affinity mask changes; the threads follow the mask."""

from __future__ import annotations

import os

import zrt
from tests.support import models, tasks

mask = os.sched_getaffinity(0)
same = zrt.SessionOptions(log_severity_level="FATAL")


def made(options: zrt.SessionOptions | None) -> int:
    before = tasks.count()
    with zrt.Session(models.add(["n"]), options):
        return tasks.count() - before


zrt.Session(models.add(["n"]), zrt.SessionOptions(intra_op_num_threads=1))
for options in (None, same):
    os.sched_setaffinity(0, mask)
    free = made(options)
    os.sched_setaffinity(0, sorted(mask)[:1])
    assert made(options) == 0
    os.sched_setaffinity(0, mask)
    assert made(options) == free
