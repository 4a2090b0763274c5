"""Loads the mutated models of the seeds from argument 1 up to argument 2, and runs those that are small.

Each seed is printed first, so that the last one is known when the process crashes.
"""

import resource
import sys

import numpy as np

import zrt
from tests.robustness.prologue import QUIET
from tests.robustness.test_fuzz_models import mutated, valid_models

resource.setrlimit(resource.RLIMIT_AS, (4 << 30, 4 << 30))
valid = valid_models()


def run(one):
    feeds = {}
    for info in one.inputs:
        shape = [size if isinstance(size, int) else 2 for size in info.shape or ()]
        if not info.is_tensor or not info.element_type.bits or info.element_type.packed or np.prod(shape) > 1000:
            return "not run"
        feeds[info.name] = np.ones(shape, info.element_type.dtype)
    one.run(feeds, options=zrt.RunOptions(log_severity_level="FATAL"))
    return "ran"


outcomes = {}
for seed in range(int(sys.argv[1]), int(sys.argv[2])):
    print(seed, flush=True)
    outcome = "refused"
    try:
        one = zrt.Session(mutated(seed, valid), QUIET)
        outcome = "not to be run"
        outcome = run(one)
    except zrt.Error:
        pass
    outcomes[outcome] = outcomes.get(outcome, 0) + 1
print(outcomes)
