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
from tests.support.bindings import bind
from tests.support.lanes import run_on
from zrt import errors
from zrt.errors import Error


class Kind(StrEnum):
    """The kinds of bad arguments, each with the error that it causes where its row names no other."""

    usual: type[Error]

    def __new__(cls, text: str, usual: type[Error]) -> Kind:
        kind = str.__new__(cls, text)
        kind._value_, kind.usual = text, usual
        return kind

    UNKNOWN_NAME = "unknown name", errors.UnknownNameError
    MISSING_INPUT = "missing input", errors.ModelError
    WRONG_DTYPE = "wrong dtype", errors.DTypeError
    WRONG_RANK = "wrong rank", errors.ShapeError
    WRONG_SHAPE = "wrong shape", errors.ShapeError
    NEGATIVE = "negative dimension", errors.ArgumentError
    HUGE = "huge dimension", errors.ArgumentError
    CLOSED = "closed object", errors.ClosedError
    CORRUPT = "corrupt model", errors.ModelError
    EMPTY = "empty file", errors.ModelError
    DIRECTORY = "directory", errors.ModelError
    MISSING_FILE = "missing file", errors.ModelNotFoundError
    TRUNCATED = "truncated external data", errors.ModelError
    WRONG_TYPE = "wrong type", errors.DTypeError
    WRONG_VALUE = "wrong value", errors.ArgumentError


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
        run_on(lane, **self.feeds)
        return lane

    @cached_property
    def binding(self) -> zrt.IoBinding:
        return bind(self.session, self.feeds, "z")

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


class Bad:
    """A bad argument: its kind, how to make it, words that the message must contain, and the error if not the usual."""

    def __init__(self, kind: Kind, make: Callable[[Any], Any], *words: str, error: type[Error] | None = None) -> None:
        self.kind, self.make, self.words, self.error = kind, make, words, error or kind.usual

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
