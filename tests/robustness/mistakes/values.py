"""Values of all kinds: strings, sparse tensors, sequences, maps."""

from collections.abc import Callable
from typing import Any

import numpy as np

import zrt
from tests.robustness.vocabulary import A_FACT, NOTHING, Bad, Kind, World, closed, f32, huge_array, wrong_types
from zrt.errors import AllocationError, DTypeError, ShapeError, UnsupportedError

STRINGS = [
    Bad(Kind.WRONG_VALUE, lambda w: ["a", "\ud800"], "string 1", "UTF-8"),
    Bad(Kind.WRONG_VALUE, lambda w: [b"\xff"], "string 0", "UTF-8"),
    Bad(Kind.WRONG_TYPE, lambda w: ["a", 5], "element 1", "int"),
    Bad(Kind.WRONG_TYPE, lambda w: 5, "int"),
    Bad(Kind.WRONG_TYPE, lambda w: None, "NoneType"),
    Bad(Kind.WRONG_RANK, lambda w: [["a"], ["b", "c"]], error=DTypeError),
    Bad(Kind.WRONG_DTYPE, lambda w: f32(2), "float32"),
    Bad(Kind.WRONG_DTYPE, lambda w: huge_array(), "float32"),
]

STRING_SHAPES = [
    Bad(Kind.WRONG_SHAPE, lambda w: (3,), "3", "got 2"),
    Bad(Kind.WRONG_RANK, lambda w: (), "got 2"),
    Bad(Kind.NEGATIVE, lambda w: (-2,), "-2", error=ShapeError),
    Bad(Kind.HUGE, lambda w: (2**62, 2**62), "got 2", error=ShapeError),
    Bad(Kind.HUGE, lambda w: (2**63,), str(2**63), error=ShapeError),
    Bad(Kind.WRONG_TYPE, lambda w: 1.5, "1.5", error=ShapeError),
]


def coo(shape: Any, values: Any, indices: Any) -> Callable[[World], zrt.SparseTensor]:
    return lambda w: zrt.SparseTensor("coo", shape, values, indices)


def csr(indices: Any, indptr: Any) -> Callable[[World], zrt.SparseTensor]:
    return lambda w: zrt.SparseTensor("csr", (2, 4), f32(2), indices, indptr)


def blocks(values: Any, indices: Any) -> Callable[[World], zrt.SparseTensor]:
    return lambda w: zrt.SparseTensor("block_sparse", (4, 4), values, indices)


SPARSE = [
    Bad(Kind.WRONG_VALUE, lambda w: zrt.SparseTensor("dense", (4,), f32(2), [0, 1]), "format", "'dense'"),
    Bad(Kind.WRONG_VALUE, coo((4,), f32(2), [0, 4]), "indices", "4"),
    Bad(Kind.WRONG_VALUE, coo((2, 2), f32(2), [[0, 0], [0, 2]]), "columns", "2"),
    Bad(Kind.NEGATIVE, coo((4,), f32(2), [0, -1]), "indices", "-1"),
    Bad(Kind.NEGATIVE, coo((-4,), f32(2), [0, 1]), "-4", error=ShapeError),
    Bad(Kind.HUGE, coo((4,), f32(2), [0, 2**62]), "indices", str(2**62)),
    Bad(Kind.HUGE, coo((2**40, 2**40), f32(2), [0, 1]), "2**63", error=ShapeError),
    Bad(Kind.HUGE, coo((4,), huge_array(), [0, 1]), "sparse tensor", error=AllocationError),
    Bad(Kind.WRONG_SHAPE, coo((4,), f32(2), [0, 1, 2]), "indices", "[2]", "[3]"),
    Bad(Kind.WRONG_RANK, coo((4,), f32(2, 1), [0, 1]), "values", "[2, 1]"),
    Bad(Kind.WRONG_DTYPE, coo((4,), f32(2), [0.5, 1]), "indices", "float64"),
    Bad(Kind.WRONG_DTYPE, coo((4,), np.zeros(2, "c8"), [0, 1]), "COMPLEX64", error=UnsupportedError),
    Bad(Kind.WRONG_DTYPE, coo((4,), np.zeros(2, "M8[s]"), [0, 1]), "datetime64"),
    Bad(Kind.WRONG_VALUE, csr([0, 1], [0, 1, 1]), "indptr", "2"),
    Bad(Kind.WRONG_VALUE, csr([0, 1], [0, 5, 2]), "indptr", "2"),
    Bad(Kind.WRONG_VALUE, csr([0, 4], [0, 1, 2]), "indices", "4"),
    Bad(Kind.WRONG_VALUE, csr([0, 1], None), "indptr"),
    Bad(Kind.WRONG_SHAPE, csr([0, 1], [0, 2]), "indptr", "[3]", "[2]"),
    Bad(Kind.WRONG_VALUE, blocks(f32(2, 2, 1), [[2], [0]]), "rows", "2"),
    Bad(Kind.WRONG_SHAPE, blocks(f32(3, 3, 1), [[0], [0]]), "3 x 3"),
    Bad(Kind.WRONG_RANK, blocks(f32(2, 2), [[0], [0]]), "[2, 2]"),
    Bad(Kind.WRONG_TYPE, lambda w: f32(2, 2), "SparseTensor", "ndarray"),
    Bad(Kind.WRONG_TYPE, lambda w: None, "NoneType"),
]

ELEMENTS = [
    *wrong_types("list", 5, "ab"),
    Bad(Kind.WRONG_TYPE, lambda w: {"a": 1}, "list", "dict"),
    Bad(Kind.WRONG_TYPE, lambda w: [object()], "element 0"),
    Bad(Kind.WRONG_TYPE, lambda w: [f32(1), {"a": 1.5}], "element 1", "map"),
    Bad(Kind.WRONG_TYPE, lambda w: [zrt.Value.from_sequence([f32(1)])], "sequence", error=UnsupportedError),
    Bad(Kind.WRONG_DTYPE, lambda w: [f32(1), np.zeros(1)], "element 1", "float32", "float64"),
    Bad(Kind.WRONG_DTYPE, lambda w: [np.zeros(1, "c8")], "COMPLEX64", error=UnsupportedError),
    Bad(Kind.WRONG_RANK, lambda w: [[[1.0], [2.0, 3.0]]], "element 0", error=DTypeError),
    Bad(Kind.WRONG_VALUE, lambda w: [], "element_type"),
    Bad(Kind.WRONG_VALUE, lambda w: [{}], "element 0", "value_type"),
    Bad(Kind.WRONG_VALUE, lambda w: [["\ud800"]], "element 0", "string 0"),
    Bad(Kind.CLOSED, lambda w: [closed(w.value())], "element 0", "Value is closed"),
    Bad(Kind.CLOSED, lambda w: [closed(w.buffer())], "element 0", "Buffer is closed"),
    Bad(Kind.HUGE, lambda w: [f32(1), zrt.Value.from_array(huge_array())], "contiguous"),
    Bad(Kind.HUGE, lambda w: [f32(1), huge_array()], "sequence", error=AllocationError),
]

MAP = [
    *wrong_types("dict", 5, [("a", 1)]),
    Bad(Kind.WRONG_TYPE, lambda w: {"a": 1, 2: 3}, "keys", "2"),
    Bad(Kind.WRONG_TYPE, lambda w: {"a": 1.5, "b": "c"}, "values", "of one kind"),
    Bad(Kind.WRONG_DTYPE, lambda w: {1.5: 1}, "keys", "float64", error=UnsupportedError),
    Bad(Kind.WRONG_DTYPE, lambda w: {"a": True}, "values", "bool", error=UnsupportedError),
    Bad(Kind.WRONG_DTYPE, lambda w: {"a": object()}, "values", "of one kind"),
    Bad(Kind.WRONG_VALUE, lambda w: {}, "key_type"),
    Bad(Kind.WRONG_VALUE, lambda w: {"\ud800": 1}, "keys", "string 0"),
    Bad(Kind.HUGE, lambda w: {2**63 - 1: -(2**63), 2**64: 1}, "keys", "64 bits", error=DTypeError),
]

ELEMENT_TYPES = [
    Bad(Kind.WRONG_DTYPE, lambda w: "nonesuch", "nonesuch"),
    Bad(Kind.WRONG_DTYPE, lambda w: np.complex64, error=UnsupportedError),
    Bad(Kind.WRONG_DTYPE, lambda w: zrt.ElementType.INT4, "int4", error=UnsupportedError),
    Bad(Kind.WRONG_DTYPE, lambda w: "float8_e5m2", "float8_e5m2", error=UnsupportedError),
    Bad(Kind.WRONG_TYPE, lambda w: 5),
]

TAKES = [
    ("Value.from_strings", "texts", STRINGS, lambda w, bad: zrt.Value.from_strings(bad)),
    ("Value.from_strings", "shape", STRING_SHAPES, lambda w, bad: zrt.Value.from_strings(["a", "b"], bad)),
    ("Value.from_sparse", "matrix", SPARSE, lambda w, bad: zrt.Value.from_sparse(bad)),
    ("Value.from_sparse", "matrix to copy", SPARSE, lambda w, bad: zrt.Value.from_sparse(bad, copy=True)),
    ("SparseTensor.scipy", "fields", SPARSE[:1] + SPARSE[14:21], lambda w, bad: bad.scipy()),
    ("Value.from_sequence", "elements", ELEMENTS, lambda w, bad: zrt.Value.from_sequence(bad)),
    ("Value.from_sequence", "element_type", ELEMENT_TYPES, lambda w, bad: zrt.Value.from_sequence([], bad)),
    ("Value.from_sequence", "key_type", ELEMENT_TYPES, lambda w, bad: zrt.Value.from_sequence([], "float32", bad)),
    ("Value.from_map", "mapping", MAP, lambda w, bad: zrt.Value.from_map(bad)),
    ("Value.from_map", "key_type", ELEMENT_TYPES, lambda w, bad: zrt.Value.from_map({}, bad, "float32")),
    ("Value.from_map", "value_type", ELEMENT_TYPES, lambda w, bad: zrt.Value.from_map({}, str, bad)),
]

SINGLE = {
    "Value.strings": [
        Bad(Kind.WRONG_TYPE, lambda w: zrt.Value.from_sequence([f32(1)]).strings(), "sequence", error=UnsupportedError),
        Bad(Kind.WRONG_DTYPE, lambda w: w.value().strings(), "FLOAT"),
    ],
    "Value.sparse": [Bad(Kind.WRONG_TYPE, lambda w: w.value().sparse(), "a tensor", error=UnsupportedError)],
    "Value.elements": [Bad(Kind.WRONG_TYPE, lambda w: w.value().elements(), "a tensor", error=UnsupportedError)],
    "Value.to_list": [Bad(Kind.WRONG_TYPE, lambda w: w.value().to_list(), "a tensor", error=UnsupportedError)],
    "Value.to_dict": [Bad(Kind.WRONG_TYPE, lambda w: w.value().to_dict(), "a tensor", error=UnsupportedError)],
    "SparseTensor.from_scipy": [Bad(Kind.WRONG_TYPE, lambda w: zrt.SparseTensor.from_scipy(f32(2)), "ndarray")],
    "SparseTensor.scipy": [
        Bad(Kind.WRONG_RANK, lambda w: coo((4,), f32(2), [0, 1])(w).scipy(), "(4,)", error=UnsupportedError)
    ],
}

CLOSED_ALONE = {"Value": "strings sparse elements to_list to_dict"}

CANNOT_FAIL = {
    A_FACT: "Value.key_type",
    "its arguments are checked where it is used: see SPARSE": "SparseTensor.__init__",
    NOTHING: "SparseTensor.copy",
}
