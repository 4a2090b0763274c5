"""The table of bad input: every public call, each kind of bad input that it can be given, and what it answers.

`TAKES` says what each public call takes. For each thing that can be taken (feeds, shapes, a model ...) there is a
list of bad ones, so the rows are the product of the two. What a call alone can be given stands in `SINGLE`, and
`CANNOT_FAIL` says of the others why there is nothing to be given wrongly.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto

import zrt
from tests import models
from zrt.errors import (
    AllocationError,
    ArgumentError,
    ClosedError,
    DTypeError,
    Error,
    FailError,
    InvalidProtobufError,
    ModelError,
    ModelNotFoundError,
    ProviderError,
    ShapeError,
    UnknownNameError,
    UnsupportedError,
)

UNKNOWN_NAME = "unknown name"
MISSING_INPUT = "missing input"
WRONG_DTYPE = "wrong dtype"
WRONG_RANK = "wrong rank"
WRONG_SHAPE = "wrong shape"
NEGATIVE = "negative dimension"
HUGE = "huge dimension"
CLOSED = "closed object"
CORRUPT = "corrupt model"
EMPTY = "empty file"
DIRECTORY = "directory"
MISSING_FILE = "missing file"
TRUNCATED = "truncated external data"
WRONG_TYPE = "wrong type"
WRONG_VALUE = "wrong value"

KINDS = (
    UNKNOWN_NAME,
    MISSING_INPUT,
    WRONG_DTYPE,
    WRONG_RANK,
    WRONG_SHAPE,
    NEGATIVE,
    HUGE,
    CLOSED,
    CORRUPT,
    EMPTY,
    DIRECTORY,
    MISSING_FILE,
    TRUNCATED,
)
"""The kinds that the project promises an answer to; the two others are what remains."""

QUIET = zrt.SessionOptions(intra_op_num_threads=1, log_severity_level="FATAL")


class World:
    """One of everything, made when a row first asks for it; `folder` is empty at first."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        # z = x + y over float32 [n, 4].
        self.model = models.add(["n", 4])
        self.session = zrt.Session(self.model, QUIET)
        self.feeds = {"x": np.arange(8, dtype=np.float32).reshape(2, 4), "y": np.ones((2, 4), np.float32)}
        self.shapes = {"x": (2, 4), "y": (2, 4)}

    @cached_property
    def lane(self) -> zrt.Lane:
        lane = self.session.lane(self.shapes)
        for name, feed in self.feeds.items():
            lane.inputs[name][...] = feed
        return lane

    @cached_property
    def binding(self) -> zrt.IoBinding:
        binding = self.session.binding()
        for name, feed in self.feeds.items():
            binding.bind_input(name, feed)
        binding.bind_output("z")
        return binding

    @cached_property
    def prepared(self) -> zrt.PreparedRun:
        return self.session.prepare(self.feeds)

    @cached_property
    def runtime(self) -> zrt.Runtime:
        return zrt.Runtime(self.session, shapes=self.shapes)

    @cached_property
    def dynamic(self) -> zrt.DynamicRuntime:
        return zrt.DynamicRuntime(self.session, max_buckets=2)

    @cached_property
    def array(self) -> np.ndarray:
        return np.zeros((2, 4), np.float32)

    def value(self) -> zrt.Value:
        return zrt.Value.from_array(self.array)

    def buffer(self) -> zrt.Buffer:
        return zrt.Buffer((2, 4), np.float32)

    def file(self, name: str, content: bytes) -> Path:
        path = self.folder / name
        path.write_bytes(content)
        return path

    def outside(self, keep: int) -> Path:
        """A model whose weights lie in a file beside it, of which only the first `keep` bytes are there."""
        weights = np.ones((1024, 4), np.float32)
        proto = onnx.load_model_from_string(
            models.build(
                [models.node("Add", ["x", "w"], ["z"])],
                [models.tensor("x", TensorProto.FLOAT, [1024, 4])],
                [models.tensor("z", TensorProto.FLOAT, [1024, 4])],
                {"w": weights},
            )
        )
        path = self.folder / "outside.onnx"
        onnx.save_model(proto, path, save_as_external_data=True, location="outside.weights")
        data = self.folder / "outside.weights"
        data.write_bytes(data.read_bytes()[:keep])
        return path

    def check(self) -> None:
        """Whatever was tried, everything still gives the right result."""
        wanted = self.feeds["x"] + self.feeds["y"]
        np.testing.assert_array_equal(self.session.run(self.feeds)[0], wanted)
        self.lane.run()
        np.testing.assert_array_equal(self.lane.outputs["z"], wanted)
        self.binding.run()
        np.testing.assert_array_equal(self.binding.numpy()["z"], wanted)
        np.testing.assert_array_equal(self.prepared.run()[0], wanted)


@dataclass(frozen=True)
class Bad:
    """One bad thing: its kind, how to get it, the error that answers, and words of which the message has each."""

    kind: str
    make: Callable[[World], Any]
    error: type[Error]
    words: tuple[str, ...] = ()

    def __init__(self, kind: str, make: Callable[[World], Any], error: type[Error], *words: str) -> None:
        for name, value in (("kind", kind), ("make", make), ("error", error), ("words", words)):
            object.__setattr__(self, name, value)


@dataclass(frozen=True)
class Row:
    """A public call given one bad thing."""

    call: str
    takes: str
    number: int
    bad: Bad
    do: Callable[[World], object]

    def __str__(self) -> str:
        return f"{self.call}({self.takes}: {self.bad.kind} {self.number})".replace(" ", "-")


def f32(*shape: int) -> np.ndarray:
    return np.zeros(shape, np.float32)


def closed(thing: Any) -> Any:
    thing.close()
    return thing


def terminated() -> zrt.RunOptions:
    options = zrt.RunOptions()
    options.terminate()
    return options


def huge_array() -> np.ndarray:
    """An array that says it has 2**46 rows, without the memory for them."""
    return np.broadcast_to(np.float32(0), (2**46, 4))


def feeding(kind: str, array: Callable[[World], Any], error: type[Error], *words: str) -> Bad:
    """Feeds that are right but for `x`."""
    return Bad(kind, lambda w: {**w.feeds, "x": array(w)}, error, "input 'x'", *words)


# Things that can be taken: for each, its bad ones.

ARRAY = [
    (WRONG_DTYPE, lambda w: np.zeros((2, 4)), DTypeError, "float32", "float64"),
    (WRONG_DTYPE, lambda w: np.zeros((2, 4), np.int32), DTypeError, "float32", "int32"),
    (WRONG_DTYPE, lambda w: np.zeros((2, 4), np.complex64), DTypeError, "float32", "complex64"),
    (WRONG_DTYPE, lambda w: np.zeros((2, 4), object), DTypeError, "float32"),
    (WRONG_DTYPE, lambda w: np.full((2, 4), "a"), DTypeError, "float32", "string"),
    (WRONG_DTYPE, lambda w: np.zeros((2, 4), "M8[s]"), DTypeError, "datetime64"),
    (WRONG_DTYPE, lambda w: np.zeros((2, 4), [("f", "f4")]), DTypeError, "dtype"),
    (WRONG_DTYPE, lambda w: zrt.Value.from_array(np.zeros((2, 4))), DTypeError, "float32", "float64"),
    (WRONG_DTYPE, lambda w: zrt.Buffer((2, 4), np.float64), DTypeError, "float32", "float64"),
    (WRONG_RANK, lambda w: f32(2), ShapeError, "[n, 4]", "[2]"),
    (WRONG_RANK, lambda w: f32(2, 4, 1), ShapeError, "[n, 4]", "[2, 4, 1]"),
    (WRONG_RANK, lambda w: f32(), ShapeError, "[n, 4]", "[]"),
    (WRONG_RANK, lambda w: zrt.Value.from_array(f32(2)), ShapeError, "[n, 4]", "[2]"),
    (WRONG_SHAPE, lambda w: f32(2, 5), ShapeError, "[n, 4]", "[2, 5]"),
    (WRONG_SHAPE, lambda w: f32(2, 0), ShapeError, "[n, 4]", "[2, 0]"),
    (WRONG_SHAPE, lambda w: zrt.Buffer((2, 5), np.float32), ShapeError, "[n, 4]", "[2, 5]"),
    (CLOSED, lambda w: closed(w.value()), ClosedError, "Value is closed"),
    (CLOSED, lambda w: closed(w.buffer()), ClosedError, "Buffer is closed"),
    (WRONG_TYPE, lambda w: "a", DTypeError, "str"),
    (WRONG_TYPE, lambda w: None, DTypeError),
    (WRONG_TYPE, lambda w: object(), DTypeError),
    (WRONG_TYPE, lambda w: {"x": 1}, DTypeError),
]

FEEDS = [
    Bad(UNKNOWN_NAME, lambda w: {**w.feeds, "q": w.array}, UnknownNameError, "'q'", "'x', 'y'"),
    Bad(UNKNOWN_NAME, lambda w: {**w.feeds, 5: w.array}, UnknownNameError, "5", "'x', 'y'"),
    Bad(UNKNOWN_NAME, lambda w: {**w.feeds, "x\0": w.array}, UnknownNameError, "'x\\x00'"),
    Bad(MISSING_INPUT, lambda w: {"x": w.array}, ArgumentError, "'y'", "missing"),
    Bad(MISSING_INPUT, lambda w: {}, ArgumentError, "'x', 'y'", "missing"),
    Bad(MISSING_INPUT, lambda w: [w.array], ArgumentError, "2 inputs", "got 1"),
    Bad(WRONG_VALUE, lambda w: [w.array] * 3, ArgumentError, "2 inputs", "got 3"),
    *(feeding(*each) for each in ARRAY),
    Bad(WRONG_TYPE, lambda w: 5, DTypeError, "feeds", "int"),
    Bad(WRONG_TYPE, lambda w: None, DTypeError, "feeds", "NoneType"),
    Bad(WRONG_TYPE, lambda w: "xy", DTypeError, "feeds", "str"),
    Bad(WRONG_TYPE, lambda w: w.array, DTypeError, "feeds", "ndarray"),
    Bad(WRONG_TYPE, lambda w: {"x", "y"}, DTypeError, "feeds", "set"),
]

COPIED_FEEDS = [
    *FEEDS,
    feeding(WRONG_DTYPE, lambda w: [["a", "b"]], DTypeError, "float32"),
    feeding(WRONG_RANK, lambda w: [[1.0], [2.0, 3.0]], DTypeError),
    feeding(HUGE, lambda w: huge_array(), AllocationError, "float32"),
]

BORROWED_FEEDS = [
    *FEEDS,
    feeding(WRONG_TYPE, lambda w: [[0.0] * 4], DTypeError, "list"),
    feeding(WRONG_VALUE, lambda w: f32(4, 2).T, ArgumentError, "contiguous"),
    feeding(WRONG_VALUE, lambda w: np.zeros((2, 4), ">f4"), ArgumentError, "byte order"),
    feeding(HUGE, lambda w: huge_array(), ArgumentError, "contiguous"),
]

BOUND_INPUT = [
    Bad(UNKNOWN_NAME, lambda w: ("q", w.array), UnknownNameError, "'q'", "'x', 'y'"),
    Bad(UNKNOWN_NAME, lambda w: ("z", w.array), UnknownNameError, "'z'", "'x', 'y'"),
    Bad(UNKNOWN_NAME, lambda w: ("x\0", w.array), UnknownNameError, "'x\\x00'"),
    Bad(UNKNOWN_NAME, lambda w: ("", w.array), UnknownNameError, "''"),
    Bad(UNKNOWN_NAME, lambda w: (5, w.array), UnknownNameError, "5"),
    Bad(UNKNOWN_NAME, lambda w: ([], w.array), UnknownNameError, "[]"),
    *(Bad(bad.kind, lambda w, bad=bad: ("x", bad.make(w)["x"]), bad.error, *bad.words)
      for bad in BORROWED_FEEDS if "input 'x'" in bad.words),
]  # fmt: skip

BOUND_OUTPUT = [
    Bad(UNKNOWN_NAME, lambda w: ("q", w.array), UnknownNameError, "'q'", "'z'"),
    Bad(UNKNOWN_NAME, lambda w: ("x", None), UnknownNameError, "'x'", "'z'"),
    Bad(UNKNOWN_NAME, lambda w: ([], None), UnknownNameError, "[]"),
    *(Bad(kind, lambda w, make=make: ("z", make(w)), error, "output 'z'", *words)
      for kind, make, error, *words in ARRAY if make(None) is not None or kind == CLOSED),
    Bad(WRONG_VALUE, lambda w: ("z", np.broadcast_to(np.float32(0), (2, 4))), ArgumentError, "output 'z'"),
    Bad(WRONG_VALUE, lambda w: ("z", np.frombuffer(bytes(32), np.float32).reshape(2, 4)), ArgumentError, "read-only"),
    Bad(
        WRONG_VALUE,
        lambda w: ("z", zrt.Value.from_array(np.frombuffer(bytes(32), np.float32).reshape(2, 4))),
        ArgumentError,
        "output 'z'",
        "read-only",
    ),
    Bad(WRONG_VALUE, lambda w: ("z", zrt.MemoryInfo.cuda()), ArgumentError, "output 'z'", "Cuda"),
    Bad(HUGE, lambda w: ("z", huge_array()), ArgumentError, "output 'z'"),
]  # fmt: skip
