"""The elements of the table of bad input: kinds of mistakes, bad arguments, rows, and objects to use them with."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto

import zrt
from tests.support import models
from zrt.errors import Error


class Kind(StrEnum):
    """The kinds of bad arguments."""

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


PROMISED = set(Kind) - {Kind.WRONG_TYPE, Kind.WRONG_VALUE}
"""The kinds for which zrt promises a typed error; the two others are general."""

QUIET = zrt.SessionOptions(intra_op_num_threads=1, log_severity_level="FATAL")


class World:
    """One object of every kind, made at first use; `folder` is empty at first."""

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
        """A model with an external weights file that is cut to its first `keep` bytes."""
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
        """Checks that every object still computes the right result."""
        wanted = self.feeds["x"] + self.feeds["y"]
        np.testing.assert_array_equal(self.session.run(self.feeds)[0], wanted)
        self.lane.run()
        np.testing.assert_array_equal(self.lane.outputs["z"], wanted)
        self.binding.run()
        np.testing.assert_array_equal(self.binding.numpy()["z"], wanted)
        np.testing.assert_array_equal(self.prepared.run()[0], wanted)


@dataclass(frozen=True)
class Bad:
    """A bad argument: its kind, how to make it, the error it causes, and words that the message must contain."""

    kind: Kind
    make: Callable[[World], Any]
    error: type[Error]
    words: tuple[str, ...] = ()

    def __init__(self, kind: Kind, make: Callable[[World], Any], error: type[Error], *words: str) -> None:
        for name, value in (("kind", kind), ("make", make), ("error", error), ("words", words)):
            object.__setattr__(self, name, value)


Take = tuple[str, str, list[Bad], Callable[[World, Any], object]]
"""A public call, the kind of argument, the bad arguments, and a function that passes one to the call."""

Single = tuple[str, Kind, Callable[[World], object], type[Error], tuple[str, ...]]
"""A public call, the kind of mistake, the mistake, the error it causes, and words of the message."""


@dataclass(frozen=True)
class Row:
    """A public call with one bad argument."""

    call: str
    takes: str
    number: int
    bad: Bad
    do: Callable[[World], object]

    def __str__(self) -> str:
        return f"{self.call}({self.takes}: {self.bad.kind} {self.number})".replace(" ", "-")


class Impostor:
    """Has every attribute, and each is a list of which C would make a structure of its own."""

    def __getattr__(self, name: str) -> Any:
        return [{}]


def f32(*shape: int) -> np.ndarray:
    return np.zeros(shape, np.float32)


def closed(item: Any) -> Any:
    item.close()
    return item


def terminated() -> zrt.RunOptions:
    options = zrt.RunOptions()
    options.terminate()
    return options


def huge_array() -> np.ndarray:
    """An array with 2**46 rows that share their memory."""
    return np.broadcast_to(np.float32(0), (2**46, 4))


def feeding(kind: Kind, array: Callable[[World], Any], error: type[Error], *words: str) -> Bad:
    """Feeds of which only `x` is bad."""
    return Bad(kind, lambda w: {**w.feeds, "x": array(w)}, error, "input 'x'", *words)


A_RESULT = "only zrt makes it, as a result"
INSIDE = "only zrt's own modules call it, with handles and tables of the C API"
A_FACT = "returns a value that was read when the object was made"
TWICE = "takes no arguments, and closing twice is allowed"
ANY = "takes any arguments, and makes a closed object"
NOTHING = "takes no arguments, and does not call ONNX Runtime"
