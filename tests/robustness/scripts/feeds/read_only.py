"""A file mapped read-only is refused as an output: writing there would crash."""

from __future__ import annotations

import mmap
import tempfile

import numpy as np

import zrt
from tests.robustness.prologue import FEEDS, binding, session

with tempfile.TemporaryFile() as file:
    file.write(bytes(4096))
    file.flush()
    mapped = mmap.mmap(file.fileno(), 4096, prot=mmap.PROT_READ)
array = np.frombuffer(mapped, np.float32, 4)
value = zrt.Value.from_array(array)
one = session()
bound = binding(one)
for place in (array, value, zrt.Value.from_array(value.numpy()), array.view(np.ndarray)):
    for attempt in (lambda: bound.bind_output("z", place), lambda: zrt.copy(FEEDS["x"], place)):
        try:
            attempt()
        except zrt.errors.ArgumentError:
            continue
        raise AssertionError(attempt)
assert not value.numpy().flags.writeable
assert np.array_equal(one.run({"x": value, "y": array})[0], np.zeros(4))
