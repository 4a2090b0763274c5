"""The elements of the table of bad input: kinds of mistakes, bad arguments, rows, and objects to use them with."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

import zrt
from tests.robustness.sums import QUIET as QUIET
from tests.support import models
from zrt import errors
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
        model = models.parse("(float[1024, 4] x) => (float[1024, 4] z) { z = Add(x, w) }", w=weights)
        path = models.save_apart(model, self.folder / "outside.onnx", "outside.weights")
        data = self.folder / "outside.weights"
        data.write_bytes(data.read_bytes()[:keep])
        return path

    def move(self, folder: Path) -> None:
        """Makes it ready for another test: only what `check` checks stays."""
        self.folder = folder
        for name in ("runtime", "dynamic", "array"):
            vars(self).pop(name, None)

    def check(self) -> None:
        """Checks that every object still computes the right result."""
        wanted = self.feeds["x"] + self.feeds["y"]
        np.testing.assert_array_equal(self.session.run(self.feeds)[0], wanted)
        self.lane.run()
        np.testing.assert_array_equal(self.lane.outputs["z"], wanted)
        self.binding.run()
        np.testing.assert_array_equal(self.binding.numpy()["z"], wanted)
        np.testing.assert_array_equal(self.prepared.run()[0], wanted)


# The error that a kind of mistake causes where its row names no other.
USUAL: dict[Kind, type[Error]] = {
    Kind.UNKNOWN_NAME: errors.UnknownNameError,
    Kind.MISSING_INPUT: errors.ModelError,
    Kind.WRONG_DTYPE: errors.DTypeError,
    Kind.WRONG_RANK: errors.ShapeError,
    Kind.WRONG_SHAPE: errors.ShapeError,
    Kind.NEGATIVE: errors.ArgumentError,
    Kind.HUGE: errors.ArgumentError,
    Kind.CLOSED: errors.ClosedError,
    Kind.CORRUPT: errors.ModelError,
    Kind.EMPTY: errors.ModelError,
    Kind.DIRECTORY: errors.ModelError,
    Kind.MISSING_FILE: errors.ModelNotFoundError,
    Kind.TRUNCATED: errors.ModelError,
    Kind.WRONG_TYPE: errors.DTypeError,
    Kind.WRONG_VALUE: errors.ArgumentError,
}


class Bad:
    """A bad argument: its kind, how to make it, words that the message must contain, and the error if not the usual."""

    def __init__(self, kind: Kind, make: Callable[[Any], Any], *words: str, error: type[Error] | None = None) -> None:
        self.kind, self.make, self.words, self.error = kind, make, words, error or USUAL[kind]

    def inside(self, put: Callable[[World, Any], Any], *words: str) -> Bad:
        """The same mistake as a part of another argument, of which the message also has these words."""
        return Bad(self.kind, lambda w: put(w, self.make(w)), *words, *self.words, error=self.error)


Take = tuple[str, str, list[Bad], Callable[[World, Any], object]]
"""A public call, the kind of argument, the bad arguments, and a function that passes one to the call."""


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


def feeding(kind: Kind, array: Callable[[World], Any], *words: str, error: type[Error] | None = None) -> Bad:
    """Feeds of which only `x` is bad."""
    return Bad(kind, array, *words, error=error).inside(fed, "input 'x'")


def fed(w: World, x: Any) -> dict[str, Any]:
    return {**w.feeds, "x": x}


def unsupported(make: Callable[[World], Any], *words: str) -> Bad:
    """A call that its object, or its provider, cannot do."""
    return Bad(Kind.WRONG_VALUE, make, *words, error=errors.UnsupportedError)


def each(kind: Kind, culprit: str, *values: object, error: type[Error] | None = None) -> list[Bad]:
    """A row for each of these values: the message names the culprit and the value."""
    return [Bad(kind, lambda w, value=value: value, culprit, repr(value), error=error) for value in values]


def wrong_types(culprit: str, *values: object) -> list[Bad]:
    """A row for each of these values: the message names the culprit, the value's type and the value."""
    return [
        Bad(Kind.WRONG_TYPE, lambda w, value=value: value, culprit, f"{type(value).__name__} {value!r}")
        for value in values
    ]


A_RESULT = "only zrt makes it, as a result"
INSIDE = "only zrt's own modules call it, with handles and tables of the C API"
A_FACT = "returns a value that was read when the object was made"
TWICE = "takes no arguments, and closing twice is allowed"
ANY = "takes any arguments, and makes a closed object"
NOTHING = "takes no arguments, and does not call ONNX Runtime"
