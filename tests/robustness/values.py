"""Values of every kind, and a check of each; for test_lifetimes.py, test_threads.py and their scripts."""

import numpy as np
import scipy.sparse as sp

import zrt
from tests.robustness.sums import QUIET
from tests.support import models
from tests.support.bindings import bind


def numbers():
    return np.arange(500, dtype=np.float32).copy()


def every_kind():
    """Each value with a check that it still has its content."""
    sequence = zrt.Value.from_sequence([numbers(), zrt.Value.from_array(numbers())])
    maps = zrt.Value.from_sequence([{"a": 1.5}], "float32", "str")
    sparse = zrt.Value.from_sparse(sp.csr_array(numbers().reshape(20, 25)))
    insert = zrt.Session(models.longer(), QUIET)
    binding = bind(insert, {"s": sequence, "t": numbers()}, "u")
    binding.run()
    return {
        "sequence": (sequence, lambda it: [a.sum() for a in it.to_list()] == [TOTAL] * 2),
        "elements": (sequence.elements(), lambda it: it[1].numpy().sum() == TOTAL),
        "view of an element": (sequence.elements()[0].numpy(), lambda it: it.sum() == TOTAL),
        "maps": (maps, lambda it: it.to_list() == [{"a": 1.5}]),
        "keys": (maps.elements()[0].elements()[0], lambda it: it.strings() == ["a"]),
        "strings": (zrt.Value.from_strings(["a" * 100, "b"]), lambda it: it.strings() == ["a" * 100, "b"]),
        "sparse": (sparse, lambda it: it.sparse().values.sum() == TOTAL),
        "views of sparse": (sparse.sparse(), lambda it: it.values.sum() == TOTAL and it.indptr[-1] == len(it.indices)),
        "longer": (binding.outputs()["u"], lambda it: [a.sum() for a in it.to_list()] == [TOTAL] * 3),
        "binding": (binding, lambda it: (it.run(), len(it.outputs()["u"].to_list()) == 3)[1]),
        "result": (insert.run({"s": sequence, "t": numbers()})[0], lambda it: len(it) == 3),
        "empty": (zrt.Value.from_sequence([], "int64"), lambda it: it.to_list() == []),
    }


TOTAL = numbers().sum()
