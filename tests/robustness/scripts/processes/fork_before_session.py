"""Forks before the first session, when argument 1 has been done; a session of the child runs, and of its child."""

import sys

import zrt
from tests.robustness.forking import fork
from tests.robustness.prologue import FEEDS, SUM, same, session
from zrt._native.library import api

SHARED = zrt.SessionOptions(use_per_session_threads=False)
if sys.argv[1] == "library":
    api()
elif sys.argv[1] == "environment":
    zrt.Environment()
elif sys.argv[1] == "global pools":
    zrt.Environment(threading=zrt.ThreadingOptions(intra_op_num_threads=3, inter_op_num_threads=2))


def infer(options):
    """Runs a new session, which lives to the end of the process."""
    kept.append(session(options))
    same(kept[-1].run(FEEDS)[0], SUM)


kept = []
options = [zrt.SessionOptions(intra_op_num_threads=3)]
if sys.argv[1] == "global pools":
    options.append(SHARED)


def child():
    for each in options:
        infer(each)
    fork(lambda: infer(options[0]), 30)


fork(child)
for each in options:
    infer(each)
