"""Loads with the same options before and after the affinity mask changes; the threads follow the mask."""

import os

import zrt
from tests.support import models, tasks

mask = os.sched_getaffinity(0)
same = zrt.SessionOptions(log_severity_level="FATAL")


def threads_of_a_session(options: zrt.SessionOptions | None) -> int:
    before = tasks.count()
    with zrt.Session(models.add(["n"]), options):
        return tasks.count() - before


zrt.Session(models.add(["n"]), zrt.SessionOptions(intra_op_num_threads=1))
for options in (None, same):
    os.sched_setaffinity(0, mask)
    free = threads_of_a_session(options)
    os.sched_setaffinity(0, sorted(mask)[:1])
    assert threads_of_a_session(options) == 0
    os.sched_setaffinity(0, mask)
    assert threads_of_a_session(options) == free
