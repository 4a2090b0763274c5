"""Runs of the drop-in over random feeds of all kinds: each returns, or raises one of the errors that are promised."""

import random
import sys
from typing import Any

import numpy as np

import zrt
import zrt.onnxruntime as ort
from tests.onnxruntime import models
from zrt.onnxruntime import errors
from zrt.onnxruntime.values import OrtValue

PROMISED = (RuntimeError, TypeError, ValueError, errors.InvalidArgument, errors.Fail)

DTYPES = ["f4", "f8", "f2", "i8", "i4", "u1", "?", "c8", "M8[s]", "O", "U3", "S2", ">f4", "V3"]
SHAPES: list[tuple[int, ...]] = [(), (1,), (2,), (1, 4), (2, 4), (0,), (3, 0), (1, 1, 1)]

VALUES = [
    lambda: zrt.Value.from_array(np.zeros((1, 4), np.float32)),
    lambda: zrt.Value.from_strings(["a"]),
    lambda: zrt.Value.from_sequence([np.zeros(2, np.float32)]),
    lambda: zrt.Value.from_map({1: 2.0}, None, np.float32),
    lambda: zrt.Value.from_sparse(zrt.SparseTensor("coo", (3, 3), np.ones(2, np.float32), np.array([0, 4]))),
    lambda: zrt.Value.from_packed(np.zeros(2, np.uint8), zrt.ElementType.INT4, (4,)),
]

OBJECTS: list[Any] = [
    None,
    1,
    1.5,
    "a",
    b"a",
    [],
    [1, 2],
    [[1.0, 2.0, 3.0, 4.0]],
    ["a"],
    (1, 2),
    {},
    {1: 2.0},
    {"a": 1.0},
    [{1: 2.0}],
    ({1: 2.0},),
    object(),
    range(3),
    memoryview(b"abcd"),
    [np.zeros(2, np.float32)],
    [None],
    np.float32(1),
    {1},
]

MODELS = [
    models.model(),
    models.identity("float"),
    models.identity("string"),
    models.identity("int64", ""),
    models.vectorizer(),
    models.zip_map(),
    models.sparse_constant(),
    models.model("agraph (seq(float[n]) s) => (seq(float[n]) t) { t = Identity(s) }"),
    models.model("agraph (optional(float[n]) o) => (optional(float[n]) p) { p = Identity(o) }"),
    models.model("agraph (float[n] x) => (float[n] x, float[n] y) { y = Identity(x) }"),
    models.model("agraph (float[2] x, float[2] w) => (float[2] z) <float[2] w = {5, 6}> { z = Add(x, w) }"),
]


def load(data: bytes) -> Any:
    options = ort.SessionOptions()
    options.log_severity_level = 4
    options.intra_op_num_threads = 1
    return ort.InferenceSession(data, options)


def value() -> Any:
    return OrtValue._of(random.choice(VALUES)())


def array() -> Any:
    array = np.zeros(random.choice(SHAPES), random.choice(DTYPES))
    return array[..., ::-1] if array.ndim and random.random() < 0.3 else array


def feed() -> Any:
    return random.choice([array, array, value, lambda: random.choice(OBJECTS)])()


def names(session: Any) -> Any:
    known = [each.name for each in session.get_outputs()]
    some = [random.choice([*known, "q", ""]) for _ in range(random.randrange(4))]
    return random.choice([None, None, known, some, (), "z", 1, [1], ["\0"]])


def run_once(session: Any) -> None:
    feeds = {each.name: feed() for each in session.get_inputs() if random.random() < 0.97}
    if random.random() < 0.1:
        feeds[random.choice(["q", "", "w", "\0", 1])] = feed()
    way = random.random()
    if way < 0.7:
        session.run(names(session), feeds)
    elif way < 0.85:
        session.run_with_ort_values(names(session), {name: value() for name in feeds})
    else:
        session.run_async(names(session), feeds, lambda *_: None, None)


random.seed(int(sys.argv[1]))
sessions = [load(data) for data in MODELS]
succeeded = 0
for _ in range(int(sys.argv[2])):
    try:
        run_once(random.choice(sessions))
        succeeded += 1
    except PROMISED:
        pass
assert succeeded > int(sys.argv[2]) // 20, succeeded
