"""A forked child drops the parent's session and uses an operator of its own; the parent goes on."""

import gc
import os
import sys

import tests.robustness.prologue  # noqa: F401
from tests.custom_ops.support import ONE, Op, X, load

session = load(ONE, Op())
session.run([X])
sys.stdout.flush()
process = os.fork()
if process == 0:
    del session
    gc.collect()
    # One of its own works there.
    assert (load(ONE, Op()).run([X])[0] == X).all()
    os._exit(7)
assert os.waitstatus_to_exitcode(os.waitpid(process, 0)[1]) == 7
assert (session.run([X])[0] == X).all()
