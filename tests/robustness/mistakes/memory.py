"""Tensors, buffers, allocators, memories, copies."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import zrt
from tests.robustness.bad import ALLOCATOR, MEMORY, OF_ARRAY, READ_ONLY, SESSION
from tests.robustness.vocabulary import (
    A_FACT,
    A_RESULT,
    NOTHING,
    Bad,
    Kind,
    Single,
    Take,
    World,
    closed,
    f32,
    huge_array,
)
from zrt.errors import AllocationError, ArgumentError, ClosedError, DTypeError, Error, ShapeError, UnsupportedError

DIMS = [
    Bad(Kind.NEGATIVE, lambda w: (-1,), ShapeError, "-1"),
    Bad(Kind.HUGE, lambda w: (2**63,), ShapeError, str(2**63)),
    Bad(Kind.HUGE, lambda w: (2**62,), AllocationError),
    Bad(Kind.HUGE, lambda w: (2**48, 2**48), AllocationError),
    Bad(Kind.HUGE, lambda w: (2**50,), AllocationError),
    Bad(Kind.WRONG_RANK, lambda w: (1,) * 65, ShapeError),
    Bad(Kind.WRONG_TYPE, lambda w: (1.5,), ShapeError, "1.5"),
    Bad(Kind.WRONG_TYPE, lambda w: "ab", ShapeError, "a"),
    Bad(Kind.WRONG_TYPE, lambda w: None, ShapeError, "None"),
]

DTYPE = [
    Bad(Kind.WRONG_DTYPE, lambda w: "nope", DTypeError, "'nope'"),
    Bad(Kind.WRONG_DTYPE, lambda w: None, DTypeError, "None"),
    Bad(Kind.WRONG_DTYPE, lambda w: 5, DTypeError, "5"),
    Bad(Kind.WRONG_DTYPE, lambda w: "M8[s]", DTypeError, "datetime64"),
]

TENSOR_DTYPE = [
    *DTYPE,
    Bad(Kind.WRONG_DTYPE, lambda w: np.complex64, Error, "COMPLEX64"),
    Bad(Kind.WRONG_DTYPE, lambda w: object, Error, "STRING"),
]

PAIR = [
    *(
        Bad(kind, lambda w, make=make: (make(w), w.array), error, "copy 0", *words)
        for kind, make, error, *words in (
            (Kind.WRONG_DTYPE, lambda w: np.zeros((2, 4)), DTypeError, "float64", "float32"),
            (Kind.WRONG_DTYPE, lambda w: np.zeros((2, 4), object), UnsupportedError, "strings"),
            (Kind.WRONG_DTYPE, lambda w: np.zeros((2, 4), "M8[s]"), DTypeError, "datetime64"),
            (Kind.WRONG_RANK, lambda w: f32(2), ShapeError, "[2]", "[2, 4]"),
            (Kind.WRONG_SHAPE, lambda w: f32(2, 5), ShapeError, "[2, 5]", "[2, 4]"),
            (Kind.HUGE, lambda w: huge_array(), ShapeError, "[2, 4]"),
            (Kind.CLOSED, lambda w: closed(w.value()), ClosedError, "Value is closed"),
            (Kind.CLOSED, lambda w: closed(w.buffer()), ClosedError, "Buffer is closed"),
            (Kind.WRONG_TYPE, lambda w: 5, DTypeError, "int"),
            (Kind.WRONG_TYPE, lambda w: [[0.0] * 4] * 2, DTypeError, "list"),
        )
    ),
    Bad(Kind.CLOSED, lambda w: (w.array, closed(w.value())), ClosedError, "copy 0", "Value is closed"),
    Bad(Kind.WRONG_TYPE, lambda w: (w.array, None), DTypeError, "copy 0", "NoneType"),
    Bad(Kind.WRONG_VALUE, lambda w: (w.array, READ_ONLY), ArgumentError, "copy 0", "read-only"),
    Bad(Kind.WRONG_VALUE, lambda w: (w.array, zrt.Value.from_array(READ_ONLY)), ArgumentError, "copy 0", "read-only"),
]

POLICY = [
    Bad(Kind.WRONG_TYPE, lambda w: 5, DTypeError, "policy", "int"),
    Bad(Kind.WRONG_TYPE, lambda w: "auto", DTypeError, "policy", "str"),
]

TAKES: list[Take] = [
    ("Buffer.__init__", "shape", DIMS, lambda w, bad: zrt.Buffer(bad, np.float32)),
    ("Buffer.__init__", "dtype", TENSOR_DTYPE, lambda w, bad: zrt.Buffer((1,), bad)),
    ("Buffer.__init__", "policy", POLICY, lambda w, bad: zrt.Buffer((1,), np.float32, bad)),
    ("Value.allocate", "shape", [bad for bad in DIMS if bad.kind != Kind.WRONG_RANK],
     lambda w, bad: zrt.Value.allocate(bad, np.float32)),
    ("Value.allocate", "dtype", TENSOR_DTYPE[:-1], lambda w, bad: zrt.Value.allocate((1,), bad)),
    ("Value.allocate", "allocator", ALLOCATOR, lambda w, bad: zrt.Value.allocate((1,), np.float32, bad)),
    ("Value.from_packed", "shape", [bad for bad in DIMS if bad.kind in (Kind.NEGATIVE, Kind.WRONG_TYPE)],
     lambda w, bad: zrt.Value.from_packed(np.zeros(1, np.uint8), zrt.ElementType.INT4, bad)),
    ("Value.from_packed", "element_type", DTYPE,
     lambda w, bad: zrt.Value.from_packed(np.zeros(1, np.uint8), bad, (2,))),
    ("Allocator.__init__", "session", SESSION, lambda w, bad: zrt.Allocator(bad)),
    ("Allocator.__init__", "memory", MEMORY, lambda w, bad: zrt.Allocator(w.session, bad)),
    ("MemoryInfo.handle", "fields", [bad for bad in MEMORY[:-1] if bad.kind != Kind.UNKNOWN_NAME],
     lambda w, bad: bad.handle()),
    ("ElementType.of", "dtype", DTYPE, lambda w, bad: zrt.ElementType.of(bad)),
    ("copy", "source and destination", PAIR, lambda w, bad: zrt.copy(*bad)),
    ("copy_all", "pairs", PAIR, lambda w, bad: zrt.copy_all([bad])),
]  # fmt: skip


def sequence(w: World) -> zrt.Value:
    """A value that is not a tensor."""
    return zrt.Value.from_sequence([f32(1), f32(1)])


SINGLE: list[Single] = [
    ("Value.__init__", Kind.WRONG_TYPE, lambda w: zrt.Value(5), DTypeError, ("int",)),
    ("Value.__init__", Kind.WRONG_TYPE, lambda w: zrt.Value(w.session), DTypeError, ("Session",)),
    ("Value.from_array", Kind.WRONG_TYPE, lambda w: zrt.Value.from_array([1.0]), DTypeError, ("list",)),
    (
        "Value.from_array",
        Kind.WRONG_DTYPE,
        lambda w: zrt.Value.from_array(np.zeros(1, "M8[s]")),
        DTypeError,
        ("array",),
    ),
    (
        "Value.from_array",
        Kind.WRONG_DTYPE,
        lambda w: zrt.Value.from_array(np.zeros(1, "c8")),
        UnsupportedError,
        ("array",),
    ),
    (
        "Value.from_array",
        Kind.WRONG_DTYPE,
        lambda w: zrt.Value.from_array(np.array(["a"])),
        UnsupportedError,
        ("strings",),
    ),
    (
        "Value.from_array",
        Kind.WRONG_DTYPE,
        lambda w: zrt.Value.from_array(np.zeros(1, ">f4")),
        ArgumentError,
        ("order",),
    ),
    ("Value.from_array", Kind.HUGE, lambda w: zrt.Value.from_array(huge_array()), ArgumentError, ("contiguous",)),
    ("Value.from_packed", Kind.WRONG_TYPE, lambda w: zrt.Value.from_packed(5, "int4", (2,)), DTypeError, ("uint8",)),
    (
        "Value.from_packed",
        Kind.WRONG_DTYPE,
        lambda w: zrt.Value.from_packed(np.zeros(1, np.int8), "int4", (2,)),
        DTypeError,
        ("uint8", "int8"),
    ),
    (
        "Value.from_packed",
        Kind.WRONG_SHAPE,
        lambda w: zrt.Value.from_packed(np.zeros(1, np.uint8), zrt.ElementType.INT4, (3,)),
        ShapeError,
        ("2 bytes", "has 1"),
    ),
    (
        "Value.from_packed",
        Kind.HUGE,
        lambda w: zrt.Value.from_packed(np.zeros(1, np.uint8), zrt.ElementType.INT4, (2**62, 2**62)),
        ShapeError,
        ("has 1",),
    ),
    ("Value.from_buffer", Kind.CLOSED, lambda w: zrt.Value.from_buffer(closed(w.buffer())), ClosedError, ("Buffer",)),
    ("Value.from_buffer", Kind.WRONG_TYPE, lambda w: zrt.Value.from_buffer(5), DTypeError, ("Buffer", "int")),
    ("Value.numpy", Kind.WRONG_TYPE, lambda w: sequence(w).numpy(), UnsupportedError, ("sequence",)),
    ("Value.address", Kind.WRONG_TYPE, lambda w: sequence(w).address, UnsupportedError, ("sequence",)),
    ("Value.unpack", Kind.WRONG_DTYPE, lambda w: w.value().unpack(), DTypeError, ("FLOAT",)),
    ("Buffer.unpack", Kind.WRONG_DTYPE, lambda w: w.buffer().unpack(), DTypeError, ("FLOAT",)),
    (
        "BufferPolicy.__init__",
        Kind.WRONG_VALUE,
        lambda w: zrt.BufferPolicy(alignment=3),
        ArgumentError,
        ("alignment 3",),
    ),
    (
        "BufferPolicy.__init__",
        Kind.NEGATIVE,
        lambda w: zrt.BufferPolicy(alignment=-64),
        ArgumentError,
        ("alignment -64",),
    ),
    ("BufferPolicy.__init__", Kind.HUGE, lambda w: zrt.BufferPolicy(alignment=2**62), ArgumentError, ("alignment",)),
    ("BufferPolicy.__init__", Kind.WRONG_TYPE, lambda w: zrt.BufferPolicy(alignment="64"), ArgumentError, ("'64'",)),
    ("BufferPolicy.parse", Kind.WRONG_VALUE, lambda w: zrt.BufferPolicy.parse("fast"), ArgumentError, ("'fast'",)),
    ("BufferPolicy.parse", Kind.WRONG_TYPE, lambda w: zrt.BufferPolicy.parse(5), DTypeError, ("5",)),
    ("BufferPolicy.resolve", Kind.WRONG_TYPE, lambda w: zrt.BufferPolicy.AUTO.resolve("5"), DTypeError, ("'5'",)),
    ("copy_all", Kind.WRONG_TYPE, lambda w: zrt.copy_all(5), DTypeError, ("pairs", "int")),
    ("copy_all", Kind.WRONG_TYPE, lambda w: zrt.copy_all([5]), DTypeError, ("copy 0", "pair")),
]

# The methods that raise on a closed object.
CLOSED_SELF: dict[str, Callable[[World, Any], object]] = {
    "Value.address": lambda w, it: it.address,
    "Value.numpy": lambda w, it: it.numpy(),
    "Value.unpack": lambda w, it: it.unpack(),
    "Value.__enter__": lambda w, it: it.__enter__(),
    "Buffer.array": lambda w, it: it.array,
    "Buffer.address": lambda w, it: it.address,
    "Buffer.hugepage": lambda w, it: it.hugepage,
    "Buffer.unpack": lambda w, it: it.unpack(),
    "Buffer.__enter__": lambda w, it: it.__enter__(),
    "Allocator.stats": lambda w, it: it.stats(),
    "Allocator.__enter__": lambda w, it: it.__enter__(),
}

CLOSABLE: dict[str, Callable[[World], Any]] = {
    "Value": lambda w: w.value(),
    "Buffer": lambda w: w.buffer(),
    "Allocator": lambda w: w.session.allocator(),
}

CANNOT_FAIL: dict[str, str] = {
    "AllocatorStats.__init__": A_RESULT,
    **{f"Value.{name}": A_FACT for name in (
        "kind", "is_tensor", "element_type", "shape", "nbytes", "memory", "writeable"
    )},
    **{f"ElementType.{name}": A_FACT for name in ("packed", "onnx_code")},
    **{f"Buffer.{name}": A_FACT for name in ("alignment", "locked")},
    "AllocatorStats.__sub__": "counters of one's own making may be anything",
    "Allocator.default": NOTHING,
    "MemoryInfo.cpu": NOTHING,
    "MemoryInfo.is_host": NOTHING,
    **{f"MemoryInfo.{name}": "its arguments are checked where the memory is used: see MEMORY" for name in (
        "__init__", "cuda", "cuda_pinned"
    )},
}  # fmt: skip

# For each kind of argument: the promised kinds of mistakes that apply to it.
APPLIES: dict[str, tuple[list[Bad], set[Kind]]] = {
    "pair": (PAIR, OF_ARRAY),
    "dims": (DIMS, {Kind.WRONG_RANK, Kind.NEGATIVE, Kind.HUGE}),
    "allocator": (ALLOCATOR, {Kind.CLOSED}),
    "memory": (MEMORY, {Kind.UNKNOWN_NAME}),
}
