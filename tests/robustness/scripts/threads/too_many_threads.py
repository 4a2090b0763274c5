"""A session with 100,000 threads is refused by name."""

import resource
import sys

import numpy as np

import zrt
from tests.robustness.prologue import FEEDS, SUM, session

# A low limit, so that a number which is not refused fails soon.
resource.setrlimit(resource.RLIMIT_AS, (8 << 30, 8 << 30))
options = zrt.SessionOptions(**{sys.argv[1]: 100_000}, execution_mode="PARALLEL")
try:
    session(options)
except zrt.errors.ArgumentError as error:
    assert sys.argv[1] in str(error)
    print("refused")
assert np.array_equal(session().run(FEEDS)[0], SUM)
