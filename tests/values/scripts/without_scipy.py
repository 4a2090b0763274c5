"""Reads a sparse tensor where SciPy cannot be imported."""

import sys

import numpy as np
import pytest

sys.modules["scipy"] = None

import zrt  # noqa: E402

tensor = zrt.SparseTensor("coo", (4,), np.ones(2, np.float32), [0, 1])
print(zrt.Value.from_sparse(tensor).sparse())
with pytest.raises(zrt.errors.UnsupportedError) as caught:
    tensor.scipy()
print(caught.value)
