"""Tensors, buffers, allocators, memories, copies."""

import numpy as np

import zrt
from tests.robustness.bad import ALLOCATOR, MEMORY, READ_ONLY, SESSION
from tests.robustness.vocabulary import (
    A_FACT,
    A_RESULT,
    NOTHING,
    QUIET,
    Bad,
    Kind,
    World,
    closed,
    f32,
    huge_array,
    wrong_types,
)
from zrt.errors import AllocationError, ArgumentError, Error, ShapeError, UnsupportedError

DIMS = [
    Bad(Kind.NEGATIVE, lambda w: (-1,), "-1", error=ShapeError),
    Bad(Kind.HUGE, lambda w: (2**63,), str(2**63), error=ShapeError),
    Bad(Kind.HUGE, lambda w: (2**62,), error=AllocationError),
    Bad(Kind.HUGE, lambda w: (2**48, 2**48), error=AllocationError),
    Bad(Kind.HUGE, lambda w: (2**50,), error=AllocationError),
    Bad(Kind.WRONG_RANK, lambda w: (1,) * 65),
    Bad(Kind.WRONG_TYPE, lambda w: (1.5,), "1.5", error=ShapeError),
    Bad(Kind.WRONG_TYPE, lambda w: "ab", "a", error=ShapeError),
    Bad(Kind.WRONG_TYPE, lambda w: None, "None", error=ShapeError),
]

DTYPE = [
    Bad(Kind.WRONG_DTYPE, lambda w: "nope", "'nope'"), Bad(Kind.WRONG_DTYPE, lambda w: None, "None"),
    Bad(Kind.WRONG_DTYPE, lambda w: 5, "5"), Bad(Kind.WRONG_DTYPE, lambda w: "M8[s]", "datetime64"),
]  # fmt: skip

TENSOR_DTYPE = [
    *DTYPE,
    Bad(Kind.WRONG_DTYPE, lambda w: np.complex64, "COMPLEX64", error=Error),
    Bad(Kind.WRONG_DTYPE, lambda w: object, "STRING", error=Error),
]

PAIR = [
    *(
        bad.inside(lambda w, source: (source, w.array), "copy 0")
        for bad in (
            Bad(Kind.WRONG_DTYPE, lambda w: np.zeros((2, 4)), "float64", "float32"),
            Bad(Kind.WRONG_DTYPE, lambda w: np.zeros((2, 4), object), "strings", error=UnsupportedError),
            Bad(Kind.WRONG_DTYPE, lambda w: np.zeros((2, 4), "M8[s]"), "datetime64"),
            Bad(Kind.WRONG_RANK, lambda w: f32(2), "[2]", "[2, 4]"),
            Bad(Kind.WRONG_SHAPE, lambda w: f32(2, 5), "[2, 5]", "[2, 4]"),
            Bad(Kind.HUGE, lambda w: huge_array(), "[2, 4]", error=ShapeError),
            Bad(Kind.CLOSED, lambda w: closed(w.value()), "Value is closed"),
            Bad(Kind.CLOSED, lambda w: closed(w.buffer()), "Buffer is closed"),
            Bad(Kind.WRONG_TYPE, lambda w: 5, "int"),
            Bad(Kind.WRONG_TYPE, lambda w: [[0.0] * 4] * 2, "list"),
        )
    ),
    Bad(Kind.CLOSED, lambda w: (w.array, closed(w.value())), "copy 0", "Value is closed"),
    Bad(Kind.WRONG_TYPE, lambda w: (w.array, None), "copy 0", "NoneType"),
    Bad(Kind.WRONG_VALUE, lambda w: (w.array, READ_ONLY), "copy 0", "read-only"),
    Bad(Kind.WRONG_VALUE, lambda w: (w.array, zrt.Value.from_array(READ_ONLY)), "copy 0", "read-only"),
]

POLICY = [*wrong_types("policy", 5, "auto")]

TAKES = [
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


SINGLE = {
    "Value.__init__": [
        Bad(Kind.WRONG_TYPE, lambda w: zrt.Value(5), "int"),
        Bad(Kind.WRONG_TYPE, lambda w: zrt.Value(w.session), "Session"),
    ],
    "Value.from_array": [
        Bad(Kind.WRONG_TYPE, lambda w: zrt.Value.from_array([1.0]), "list"),
        Bad(Kind.WRONG_DTYPE, lambda w: zrt.Value.from_array(np.zeros(1, "M8[s]")), "array"),
        Bad(Kind.WRONG_DTYPE, lambda w: zrt.Value.from_array(np.zeros(1, "c8")), "array", error=UnsupportedError),
        Bad(Kind.WRONG_DTYPE, lambda w: zrt.Value.from_array(np.array(["a"])), "strings", error=UnsupportedError),
        Bad(Kind.WRONG_DTYPE, lambda w: zrt.Value.from_array(np.zeros(1, ">f4")), "order", error=ArgumentError),
        Bad(Kind.HUGE, lambda w: zrt.Value.from_array(huge_array()), "contiguous"),
    ],
    "Value.from_packed": [
        Bad(Kind.WRONG_TYPE, lambda w: zrt.Value.from_packed(5, "int4", (2,)), "uint8"),
        Bad(Kind.WRONG_DTYPE, lambda w: zrt.Value.from_packed(np.zeros(1, np.int8), "int4", (2,)), "uint8", "int8"),
        Bad(Kind.WRONG_SHAPE, lambda w: zrt.Value.from_packed(np.zeros(1, np.uint8), zrt.ElementType.INT4, (3,)),
            "2 bytes", "has 1"),
        Bad(Kind.HUGE, lambda w: zrt.Value.from_packed(np.zeros(1, np.uint8), zrt.ElementType.INT4, (2**62, 2**62)),
            "has 1", error=ShapeError),
    ],
    "Value.from_buffer": [
        Bad(Kind.CLOSED, lambda w: zrt.Value.from_buffer(closed(w.buffer())), "Buffer"),
        Bad(Kind.WRONG_TYPE, lambda w: zrt.Value.from_buffer(5), "Buffer", "int"),
    ],
    "Value.numpy": [Bad(Kind.WRONG_TYPE, lambda w: sequence(w).numpy(), "sequence", error=UnsupportedError)],
    "Value.address": [Bad(Kind.WRONG_TYPE, lambda w: sequence(w).address, "sequence", error=UnsupportedError)],
    "Value.unpack": [Bad(Kind.WRONG_DTYPE, lambda w: w.value().unpack(), "FLOAT")],
    "Buffer.unpack": [Bad(Kind.WRONG_DTYPE, lambda w: w.buffer().unpack(), "FLOAT")],
    "BufferPolicy.__init__": [
        Bad(Kind.WRONG_VALUE, lambda w: zrt.BufferPolicy(alignment=3), "alignment 3"),
        Bad(Kind.NEGATIVE, lambda w: zrt.BufferPolicy(alignment=-64), "alignment -64"),
        Bad(Kind.HUGE, lambda w: zrt.BufferPolicy(alignment=2**62), "alignment"),
        Bad(Kind.WRONG_TYPE, lambda w: zrt.BufferPolicy(alignment="64"), "'64'", error=ArgumentError),
    ],
    "BufferPolicy.parse": [
        Bad(Kind.WRONG_VALUE, lambda w: zrt.BufferPolicy.parse("fast"), "'fast'"),
        Bad(Kind.WRONG_TYPE, lambda w: zrt.BufferPolicy.parse(5), "5"),
    ],
    "BufferPolicy.resolve": [Bad(Kind.WRONG_TYPE, lambda w: zrt.BufferPolicy.AUTO.resolve("5"), "'5'")],
    "memory_report": [
        Bad(Kind.WRONG_TYPE, lambda w: zrt.memory_report(5), "Session", "int"),
        Bad(Kind.WRONG_TYPE, lambda w: zrt.memory_report(w.session, 5), "int"),
        Bad(Kind.WRONG_TYPE, lambda w: zrt.memory_report("m.onnx"), "session: expected a Session or a SessionSpec"),
        Bad(Kind.UNKNOWN_NAME, lambda w: zrt.memory_report(w.session, {"nope": f32(1, 4)}), "'nope'"),
        Bad(Kind.WRONG_RANK, lambda w: zrt.memory_report(w.session, [f32(3), f32(3)]), "'x'"),
        Bad(Kind.MISSING_FILE, lambda w: zrt.memory_report(zrt.SessionSpec("missing.onnx")), "missing.onnx"),
        Bad(Kind.CLOSED, lambda w: zrt.memory_report(closed(zrt.Session(w.model, QUIET))), "Session is closed"),
    ],
    "copy_all": [
        Bad(Kind.WRONG_TYPE, lambda w: zrt.copy_all(5), "pairs", "int"),
        Bad(Kind.WRONG_TYPE, lambda w: zrt.copy_all(np.array(5)), "pairs", "ndarray"),
        Bad(Kind.WRONG_TYPE, lambda w: zrt.copy_all([5]), "copy 0", "pair"),
    ],
}  # fmt: skip

# The methods that raise on a closed object.
CLOSED_ALONE = {"Value": "address numpy unpack", "Buffer": "array address hugepage unpack", "Allocator": "stats"}

CLOSABLE = {"Value": lambda w: w.value(), "Buffer": lambda w: w.buffer(), "Allocator": lambda w: w.session.allocator()}

CANNOT_FAIL = {
    A_RESULT: "AllocatorStats.__init__ MemoryReport.__init__",
    A_FACT: """
        Value.kind Value.is_tensor Value.element_type Value.shape Value.nbytes Value.memory Value.writeable
        ElementType.packed ElementType.onnx_code Buffer.alignment Buffer.locked
    """,
    "counters of one's own making may be anything": "AllocatorStats.__sub__",
    NOTHING: "Allocator.default MemoryInfo.cpu MemoryInfo.is_host",
    "its arguments are checked where the memory is used: see MEMORY": """
        MemoryInfo.__init__ MemoryInfo.cuda MemoryInfo.cuda_pinned
    """,
}
