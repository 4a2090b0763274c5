"""Uses zrt in several interpreters of one process; the main one goes on."""

import gc
import sys
from pathlib import Path

import numpy as np

from tests.robustness.prologue import ADD, FEEDS, SUM, lane, session

try:
    import _interpreters as interpreters
except ImportError:
    try:
        import _xxsubinterpreters as interpreters
    except ImportError:
        sys.exit(0)
script = Path(__file__).with_name("in_subinterpreter.py").read_text("utf-8")
code = f"import sys; sys.path[:] = {sys.path!r}; ADD = {ADD!r}\n" + script
one = session()
for _ in range(3):
    other = interpreters.create()
    interpreters.run_string(other, code)
    interpreters.destroy(other)
    assert np.array_equal(one.run(FEEDS)[0], SUM)
gc.collect()
lane(one).run()
