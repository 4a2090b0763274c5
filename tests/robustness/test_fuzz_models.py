"""Mutated models are refused or run; a crash is accepted only where onnxruntime itself crashes."""

import random
import sys

import pytest

from tests.robustness.conftest import Child
from tests.support import models
from tests.support.times import TIMES


def valid_models() -> list[bytes]:
    """The models to mutate; none has a loop, which a mutation could make endless."""
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
    """A model with bits flipped, bytes inserted, removed or set, two models joined, or random bytes."""
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


MODELS_EACH = 1000 * TIMES


@pytest.mark.official
@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="limits are those of Linux")
@pytest.mark.parametrize("first", range(0, 4 * MODELS_EACH, MODELS_EACH))
def test_mutated_model_is_refused_or_runs(child: Child, first: int) -> None:
    last = first + MODELS_EACH
    while first < last:
        process = child.start("fuzz/models.py", arguments=[first, last])
        output, errors = process.communicate(timeout=120 * TIMES)
        if process.returncode == 0:
            assert "ran" in output
            assert "refused" in output
            return
        assert process.returncode < 0, errors
        first = int(output.split()[-1])
        official = child.start("fuzz/official.py", arguments=[first])
        official.communicate(timeout=60)
        assert official.returncode < 0, f"seed {first}: onnxruntime does not crash\n{errors}"
        first += 1
