"""Values of all kinds: strings, sparse tensors, sequences, maps."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import zrt
from tests.robustness.vocabulary import A_FACT, NOTHING, Bad, Kind, Single, Take, World, closed, f32, huge_array
from zrt.errors import ArgumentError, ClosedError, DTypeError, ShapeError, UnsupportedError

STRINGS = [
    Bad(Kind.WRONG_VALUE, lambda w: ["a", "\ud800"], ArgumentError, "string 1", "UTF-8"),
    Bad(Kind.WRONG_VALUE, lambda w: [b"\xff"], ArgumentError, "string 0", "UTF-8"),
    Bad(Kind.WRONG_TYPE, lambda w: ["a", 5], DTypeError, "element 1", "int"),
    Bad(Kind.WRONG_TYPE, lambda w: 5, DTypeError, "int"),
    Bad(Kind.WRONG_TYPE, lambda w: None, DTypeError, "NoneType"),
    Bad(Kind.WRONG_RANK, lambda w: [["a"], ["b", "c"]], DTypeError),
    Bad(Kind.WRONG_DTYPE, lambda w: f32(2), DTypeError, "float32"),
    Bad(Kind.WRONG_DTYPE, lambda w: huge_array(), DTypeError, "float32"),
]

STRING_SHAPES = [
    Bad(Kind.WRONG_SHAPE, lambda w: (3,), ShapeError, "3", "got 2"),
    Bad(Kind.WRONG_RANK, lambda w: (), ShapeError, "got 2"),
    Bad(Kind.NEGATIVE, lambda w: (-2,), ShapeError, "-2"),
    Bad(Kind.HUGE, lambda w: (2**62, 2**62), ShapeError, "got 2"),
    Bad(Kind.HUGE, lambda w: (2**63,), ShapeError, str(2**63)),
    Bad(Kind.WRONG_TYPE, lambda w: 1.5, ShapeError, "1.5"),
]


def coo(shape: Any, values: Any, indices: Any) -> Callable[[World], zrt.SparseTensor]:
    return lambda w: zrt.SparseTensor("coo", shape, values, indices)


def csr(indices: Any, indptr: Any) -> Callable[[World], zrt.SparseTensor]:
    return lambda w: zrt.SparseTensor("csr", (2, 4), f32(2), indices, indptr)


def blocks(values: Any, indices: Any) -> Callable[[World], zrt.SparseTensor]:
    return lambda w: zrt.SparseTensor("block_sparse", (4, 4), values, indices)


SPARSE = [
    Bad(
        Kind.WRONG_VALUE, lambda w: zrt.SparseTensor("dense", (4,), f32(2), [0, 1]), ArgumentError, "format", "'dense'"
    ),
    Bad(Kind.WRONG_VALUE, coo((4,), f32(2), [0, 4]), ArgumentError, "indices", "4"),
    Bad(Kind.WRONG_VALUE, coo((2, 2), f32(2), [[0, 0], [0, 2]]), ArgumentError, "columns", "2"),
    Bad(Kind.NEGATIVE, coo((4,), f32(2), [0, -1]), ArgumentError, "indices", "-1"),
    Bad(Kind.NEGATIVE, coo((-4,), f32(2), [0, 1]), ShapeError, "-4"),
    Bad(Kind.HUGE, coo((4,), f32(2), [0, 2**62]), ArgumentError, "indices", str(2**62)),
    Bad(Kind.HUGE, coo((2**40, 2**40), f32(2), [0, 1]), ShapeError, "2**63"),
    Bad(Kind.WRONG_SHAPE, coo((4,), f32(2), [0, 1, 2]), ShapeError, "indices", "[2]", "[3]"),
    Bad(Kind.WRONG_RANK, coo((4,), f32(2, 1), [0, 1]), ShapeError, "values", "[2, 1]"),
    Bad(Kind.WRONG_DTYPE, coo((4,), f32(2), [0.5, 1]), DTypeError, "indices", "float64"),
    Bad(Kind.WRONG_DTYPE, coo((4,), np.zeros(2, "c8"), [0, 1]), UnsupportedError, "COMPLEX64"),
    Bad(Kind.WRONG_DTYPE, coo((4,), np.zeros(2, "M8[s]"), [0, 1]), DTypeError, "datetime64"),
    Bad(Kind.WRONG_VALUE, csr([0, 1], [0, 1, 1]), ArgumentError, "indptr", "2"),
    Bad(Kind.WRONG_VALUE, csr([0, 1], [0, 5, 2]), ArgumentError, "indptr", "2"),
    Bad(Kind.WRONG_VALUE, csr([0, 4], [0, 1, 2]), ArgumentError, "indices", "4"),
    Bad(Kind.WRONG_VALUE, csr([0, 1], None), ArgumentError, "indptr"),
    Bad(Kind.WRONG_SHAPE, csr([0, 1], [0, 2]), ShapeError, "indptr", "[3]", "[2]"),
    Bad(Kind.WRONG_VALUE, blocks(f32(2, 2, 1), [[2], [0]]), ArgumentError, "rows", "2"),
    Bad(Kind.WRONG_SHAPE, blocks(f32(3, 3, 1), [[0], [0]]), ShapeError, "3 x 3"),
    Bad(Kind.WRONG_RANK, blocks(f32(2, 2), [[0], [0]]), ShapeError, "[2, 2]"),
    Bad(Kind.WRONG_TYPE, lambda w: f32(2, 2), DTypeError, "SparseTensor", "ndarray"),
    Bad(Kind.WRONG_TYPE, lambda w: None, DTypeError, "NoneType"),
]

ELEMENTS = [
    Bad(Kind.WRONG_TYPE, lambda w: 5, DTypeError, "list", "int"),
    Bad(Kind.WRONG_TYPE, lambda w: "ab", DTypeError, "list", "str"),
    Bad(Kind.WRONG_TYPE, lambda w: {"a": 1}, DTypeError, "list", "dict"),
    Bad(Kind.WRONG_TYPE, lambda w: [object()], DTypeError, "element 0"),
    Bad(Kind.WRONG_TYPE, lambda w: [f32(1), {"a": 1.5}], DTypeError, "element 1", "map"),
    Bad(Kind.WRONG_TYPE, lambda w: [zrt.Value.from_sequence([f32(1)])], UnsupportedError, "sequence"),
    Bad(Kind.WRONG_DTYPE, lambda w: [f32(1), np.zeros(1)], DTypeError, "element 1", "float32", "float64"),
    Bad(Kind.WRONG_DTYPE, lambda w: [np.zeros(1, "c8")], UnsupportedError, "COMPLEX64"),
    Bad(Kind.WRONG_RANK, lambda w: [[[1.0], [2.0, 3.0]]], DTypeError, "element 0"),
    Bad(Kind.WRONG_VALUE, lambda w: [], ArgumentError, "element_type"),
    Bad(Kind.WRONG_VALUE, lambda w: [{}], ArgumentError, "element 0", "value_type"),
    Bad(Kind.WRONG_VALUE, lambda w: [["\ud800"]], ArgumentError, "element 0", "string 0"),
    Bad(Kind.CLOSED, lambda w: [closed(w.value())], ClosedError, "element 0", "Value is closed"),
    Bad(Kind.CLOSED, lambda w: [closed(w.buffer())], ClosedError, "element 0", "Buffer is closed"),
    Bad(Kind.HUGE, lambda w: [f32(1), zrt.Value.from_array(huge_array())], ArgumentError, "contiguous"),
]

MAP = [
    Bad(Kind.WRONG_TYPE, lambda w: 5, DTypeError, "dict", "int"),
    Bad(Kind.WRONG_TYPE, lambda w: [("a", 1)], DTypeError, "dict", "list"),
    Bad(Kind.WRONG_TYPE, lambda w: {"a": 1, 2: 3}, DTypeError, "keys", "2"),
    Bad(Kind.WRONG_TYPE, lambda w: {"a": 1.5, "b": "c"}, DTypeError, "values", "of one kind"),
    Bad(Kind.WRONG_DTYPE, lambda w: {1.5: 1}, UnsupportedError, "keys", "float64"),
    Bad(Kind.WRONG_DTYPE, lambda w: {"a": True}, UnsupportedError, "values", "bool"),
    Bad(Kind.WRONG_DTYPE, lambda w: {"a": object()}, DTypeError, "values", "of one kind"),
    Bad(Kind.WRONG_VALUE, lambda w: {}, ArgumentError, "key_type"),
    Bad(Kind.WRONG_VALUE, lambda w: {"\ud800": 1}, ArgumentError, "keys", "string 0"),
    Bad(Kind.HUGE, lambda w: {2**63 - 1: -(2**63), 2**64: 1}, DTypeError, "keys", "64 bits"),
]

ELEMENT_TYPES = [
    Bad(Kind.WRONG_DTYPE, lambda w: "nonesuch", DTypeError, "nonesuch"),
    Bad(Kind.WRONG_DTYPE, lambda w: np.complex64, UnsupportedError),
    Bad(Kind.WRONG_DTYPE, lambda w: zrt.ElementType.INT4, UnsupportedError, "int4"),
    Bad(Kind.WRONG_DTYPE, lambda w: "float8_e5m2", UnsupportedError, "float8_e5m2"),
    Bad(Kind.WRONG_TYPE, lambda w: 5, DTypeError),
]

TAKES: list[Take] = [
    ("Value.from_strings", "texts", STRINGS, lambda w, bad: zrt.Value.from_strings(bad)),
    ("Value.from_strings", "shape", STRING_SHAPES, lambda w, bad: zrt.Value.from_strings(["a", "b"], bad)),
    ("Value.from_sparse", "matrix", SPARSE, lambda w, bad: zrt.Value.from_sparse(bad)),
    ("Value.from_sparse", "matrix to copy", SPARSE, lambda w, bad: zrt.Value.from_sparse(bad, copy=True)),
    ("SparseTensor.scipy", "fields", SPARSE[:1] + SPARSE[13:20], lambda w, bad: bad.scipy()),
    ("Value.from_sequence", "elements", ELEMENTS, lambda w, bad: zrt.Value.from_sequence(bad)),
    ("Value.from_sequence", "element_type", ELEMENT_TYPES, lambda w, bad: zrt.Value.from_sequence([], bad)),
    ("Value.from_sequence", "key_type", ELEMENT_TYPES, lambda w, bad: zrt.Value.from_sequence([], "float32", bad)),
    ("Value.from_map", "mapping", MAP, lambda w, bad: zrt.Value.from_map(bad)),
    ("Value.from_map", "key_type", ELEMENT_TYPES, lambda w, bad: zrt.Value.from_map({}, bad, "float32")),
    ("Value.from_map", "value_type", ELEMENT_TYPES, lambda w, bad: zrt.Value.from_map({}, str, bad)),
]

SINGLE: list[Single] = [
    (
        "Value.strings",
        Kind.WRONG_TYPE,
        lambda w: zrt.Value.from_sequence([f32(1)]).strings(),
        UnsupportedError,
        ("sequence",),
    ),
    ("Value.strings", Kind.WRONG_DTYPE, lambda w: w.value().strings(), DTypeError, ("FLOAT",)),
    ("Value.sparse", Kind.WRONG_TYPE, lambda w: w.value().sparse(), UnsupportedError, ("a tensor",)),
    ("Value.elements", Kind.WRONG_TYPE, lambda w: w.value().elements(), UnsupportedError, ("a tensor",)),
    ("Value.to_list", Kind.WRONG_TYPE, lambda w: w.value().to_list(), UnsupportedError, ("a tensor",)),
    ("Value.to_dict", Kind.WRONG_TYPE, lambda w: w.value().to_dict(), UnsupportedError, ("a tensor",)),
    (
        "SparseTensor.from_scipy",
        Kind.WRONG_TYPE,
        lambda w: zrt.SparseTensor.from_scipy(f32(2)),
        DTypeError,
        ("ndarray",),
    ),
    (
        "SparseTensor.scipy",
        Kind.WRONG_RANK,
        lambda w: coo((4,), f32(2), [0, 1])(w).scipy(),
        UnsupportedError,
        ("(4,)",),
    ),
]

CLOSED_SELF: dict[str, Callable[[World, Any], object]] = {
    "Value.strings": lambda w, it: it.strings(),
    "Value.sparse": lambda w, it: it.sparse(),
    "Value.elements": lambda w, it: it.elements(),
    "Value.to_list": lambda w, it: it.to_list(),
    "Value.to_dict": lambda w, it: it.to_dict(),
}

CANNOT_FAIL: dict[str, str] = {
    "Value.key_type": A_FACT,
    "SparseTensor.__init__": "its arguments are checked where it is used: see SPARSE",
    "SparseTensor.copy": NOTHING,
}

APPLIES: dict[str, tuple[list[Bad], set[Kind]]] = {
    "strings": (STRINGS, {Kind.WRONG_DTYPE, Kind.WRONG_RANK}),
    "shapes of strings": (STRING_SHAPES, {Kind.WRONG_SHAPE, Kind.WRONG_RANK, Kind.NEGATIVE, Kind.HUGE}),
    "sparse": (SPARSE, {Kind.WRONG_DTYPE, Kind.WRONG_RANK, Kind.WRONG_SHAPE, Kind.NEGATIVE, Kind.HUGE}),
    "elements": (ELEMENTS, {Kind.WRONG_DTYPE, Kind.WRONG_RANK, Kind.CLOSED, Kind.HUGE}),
    "map": (MAP, {Kind.WRONG_DTYPE, Kind.HUGE}),
}
