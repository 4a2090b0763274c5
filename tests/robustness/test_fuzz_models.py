"""Mutated models are refused or run; only where onnxruntime itself crashes may the process end."""

from __future__ import annotations

import random
import subprocess
import sys

import pytest

from tests.robustness.conftest import ROOT, Child
from tests.support import models


def valid_models() -> list[bytes]:
    """What is mutated below. None has a loop: a mutated one may be endless."""
    return [
        models.add(["n", 4]),
        models.mixed(),
        models.convolution(),
        models.computed_reshape(),
        models.gather(),
        models.non_zero(),
        models.to_sequence(),
        models.from_sequence(),
        models.to_strings(),
        models.scalar_and_empty(),
        models.wrongly_declared(),
    ]


def mutated(seed: int, valid: list[bytes]) -> bytes:
    """Bits flipped, bytes put in, taken out or set, two models joined, or no model at all."""
    chance = random.Random(seed)
    model = bytearray(chance.choice(valid))
    place = chance.randrange(len(model))
    how = chance.random()
    if how < 0.5:
        for _ in range(chance.choice((1, 1, 2, 8))):
            model[chance.randrange(len(model))] ^= 1 << chance.randrange(8)
    elif how < 0.65:
        model[place] = chance.choice((0, 1, 127, 128, 255))
    elif how < 0.75:
        del model[place : place + chance.choice((1, 4, len(model)))]
    elif how < 0.85:
        model[place:place] = chance.randbytes(chance.choice((1, 4, 100)))
    elif how < 0.95:
        model[place:] = chance.choice(valid)[place:]
    else:
        model[:] = chance.randbytes(chance.choice((1, 10, 1000)))
    return bytes(model)


# Loads a model, reads all that it says, and runs it if it is small. The seed is written before each, so that the
# last one is known where the process dies of it.
LOADS = """
from tests.robustness.test_fuzz_models import mutated, valid_models
import resource
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
"""

OFFICIAL = """
import sys
import onnxruntime
from tests.robustness.test_fuzz_models import mutated, valid_models
import numpy as np
options = onnxruntime.SessionOptions()
options.intra_op_num_threads, options.log_severity_level = 1, 4
try:
    one = onnxruntime.InferenceSession(mutated(int(sys.argv[1]), valid_models()), options)
    kinds = {"tensor(float)": "f4", "tensor(int64)": "i8", "tensor(bool)": "?", "tensor(float16)": "f2"}
    kinds |= {"tensor(uint8)": "u1", "tensor(double)": "f8"}
    feeds = {}
    for each in one.get_inputs():
        shape = [size if isinstance(size, int) else 2 for size in each.shape]
        feeds[each.name] = np.ones(shape, kinds.get(each.type, "f4"))
    one.run(None, feeds)
except Exception as error:
    print(error)
"""

MODELS_EACH = 1000


@pytest.mark.official
@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="limits are those of Linux")
@pytest.mark.parametrize("first", range(0, 4 * MODELS_EACH, MODELS_EACH))
def test_any_model(child: Child, first: int) -> None:
    """A model that is none is refused or runs; only where onnxruntime itself crashes may the process end."""
    last = first + MODELS_EACH
    while first < last:
        process = child.start(LOADS, arguments=[first, last])
        output, errors = process.communicate(timeout=120)
        if process.returncode == 0:
            assert "ran" in output
            assert "refused" in output
            return
        assert process.returncode < 0, errors
        first = int(output.split()[-1])
        official = subprocess.run(
            [sys.executable, "-c", OFFICIAL, str(first)], cwd=ROOT, capture_output=True, text=True, timeout=60
        )
        assert official.returncode < 0, f"seed {first}: onnxruntime lives on\n{errors}"
        first += 1
