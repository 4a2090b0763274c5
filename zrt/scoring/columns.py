"""Columns of a data set as the inputs of a model: arrays whose first axis is the rows, and the rows that do not fit."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, Self

import numpy as np

from zrt.errors import DTypeError
from zrt.memory import arrays
from zrt.values.type_info import ValueInfo

Array = np.ndarray[Any, Any]

OUT_OF_RANGE = "a number is out of the range of the input's type"
NO_UTF8 = "it is no UTF-8"


class Wanted(NamedTuple):
    """An input or output: its type, and the shape of one row."""

    name: str
    dtype: np.dtype[Any]
    row: tuple[int | None, ...]
    """The shape of one row; None stands for an open size."""

    @classmethod
    def of(cls, info: ValueInfo) -> Self:
        """The rows of a tensor of the model's."""
        row = tuple(size if isinstance(size, int) else None for size in (info.shape or ())[1:])
        return cls(info.name, info.element_type.dtype, row)

    @property
    def least(self) -> tuple[int, ...]:
        """The shape of one row, with 1 for open sizes."""
        return tuple(1 if size is None else size for size in self.row)


class Rows(NamedTuple):
    """The values of some rows, one for each, and the reason of each row that cannot be fed."""

    values: Array | list[Array | None]
    """One array, or an array for each row where their shapes differ."""
    bad: dict[int, str]


def fit(subject: str, array: Array, wanted: Wanted) -> Rows:
    """Rows of an array whose first axis they are."""
    row = array.shape[1:]
    if not matches(row, wanted.row):
        flat = int(np.prod(row, dtype=np.int64))
        if None in wanted.row or flat != int(np.prod([size or 0 for size in wanted.row], dtype=np.int64)):
            return Rows(array, dict.fromkeys(range(len(array)), f"{subject}: {_shape(row)}, not {_shape(wanted.row)}"))
        array = array.reshape(len(array), *[size or 0 for size in wanted.row])
    if array.dtype == wanted.dtype:
        return Rows(array, {})
    numbers_for_texts = wanted.dtype.kind == "O" and array.dtype.kind not in "SUT"
    whole = array.dtype.kind in "iu" and wanted.dtype.kind in "iu"
    if numbers_for_texts or not (whole or np.can_cast(array.dtype, wanted.dtype, "same_kind")):
        raise DTypeError(f"{subject}: {array.dtype} cannot be fed as {wanted.dtype} to input {wanted.name!r}")
    with np.errstate(over="ignore", invalid="ignore"):
        converted = array.astype(wanted.dtype)
    if wanted.dtype.kind == "O" and not _is_utf8(converted):
        return Rows(converted, {row: f"{subject}: {NO_UTF8}" for row, one in enumerate(array) if not _is_utf8(one)})
    if np.can_cast(array.dtype, wanted.dtype) or wanted.dtype.kind in "OSUb":
        return Rows(converted, {})
    # A number out of the range becomes another whole number, or infinite, or NaN.
    wrong = converted != array if wanted.dtype.kind in "iu" else np.isfinite(array) & ~np.isfinite(converted)
    lost = wrong.any(axis=tuple(range(1, wrong.ndim)))
    return Rows(converted, {int(index): f"{subject}: {OUT_OF_RANGE}" for index in np.flatnonzero(lost)})


def fit_each(subject: str, values: Sequence[Any], wanted: Wanted) -> Rows:
    """Rows of Python objects: numbers, texts, lists of them, None."""
    arrays: list[Array | None] = []
    bad: dict[int, str] = {}
    for index, value in enumerate(values):
        row = _one(value, wanted)
        if isinstance(row, str):
            bad[index] = f"{subject}: {row}"
        arrays.append(None if isinstance(row, str) else row)
    shapes = {array.shape for array in arrays if array is not None}
    if len(shapes) > 1:
        return Rows(arrays, bad)
    filler = blank(shapes.pop() if shapes else wanted.least, wanted.dtype)
    return Rows(np.stack([filler if array is None else array for array in arrays]), bad)


def _truth(text: str) -> bool:
    words = {"true": True, "1": True, "false": False, "0": False}
    if text.lower() not in words:
        raise ValueError("no truth value")
    return words[text.lower()]


# Those of texts, by the kind of an input's type; others are of numbers with a fraction.
PARSERS: dict[str, Callable[[str], Any]] = {"i": int, "u": int, "b": _truth}


def _one(value: Any, wanted: Wanted) -> Array | str:
    """One row as an array, or the reason why there is none."""
    if value is None:
        return "it is null"
    if wanted.dtype.kind == "O":
        return _texts(value, wanted)
    try:
        array = np.asarray(value)
        if not array.size:
            # numpy takes a list of nothing for numbers of floating point.
            array = array.astype(wanted.dtype)
        if array.dtype.kind == "U":
            parse = PARSERS.get(wanted.dtype.kind, float)
            texts = array.ravel()
            if not all(text.isascii() and "_" not in text for text in texts):
                raise ValueError("Python's own notation")
            array = np.array([parse(text) for text in texts]).reshape(array.shape)
            if array.dtype.kind == "f" and any("inf" not in text.lower() for text in texts[np.isinf(array.ravel())]):
                return OUT_OF_RANGE
        if array.dtype.kind == "O":
            if all(isinstance(number, int) for number in array.ravel()):
                return OUT_OF_RANGE
            return "it has a null or lists of different lengths"
        rows = fit("", array[None], wanted)
    except (ValueError, OverflowError):
        return f"{str(value)[:40]!r} is no {wanted.dtype}"
    except DTypeError:
        return f"{array.dtype} cannot be fed as {wanted.dtype}"
    if rows.bad:
        return rows.bad[0].removeprefix(": ")
    return np.asarray(rows.values[0])


def _texts(value: Any, wanted: Wanted) -> Array | str:
    """One row of texts, or the reason why there is none."""
    # As objects: numpy's own texts end before a zero character.
    array = np.array(value, object)
    for text in array.ravel():
        if text is None or isinstance(text, list):
            return "it has a null or lists of different lengths"
        if not isinstance(text, str | bytes):
            return f"{str(text)[:40]!r} is no text"
    if not _is_utf8(array):
        return NO_UTF8
    rows = fit("", array[None], wanted)
    if rows.bad:
        return rows.bad[0].removeprefix(": ")
    values = np.asarray(rows.values)
    return values.reshape(values.shape[1:])


def _is_utf8(texts: Any) -> bool:
    """Whether an array of texts, or a text, has UTF-8 alone."""
    try:
        for text in np.ravel(texts).tolist():
            text.decode() if isinstance(text, bytes) else str(text).encode()
    except UnicodeError:
        return False
    return True


def stack(parts: Sequence[Rows], wanted: Wanted) -> Rows:
    """One input of several columns of numbers, side by side in the shape that the input takes."""
    bad: dict[int, str] = {}
    for part in reversed(parts):
        bad.update(part.bad)
    columns = [np.asarray(part.values) for part in parts]
    # Rows of lists are all bad.
    flat = [column if column.ndim == 1 else np.zeros(len(column), wanted.dtype) for column in columns]
    stacked = np.stack(flat, axis=1)
    rows = fit("columns side by side", stacked, wanted)
    return Rows(rows.values, {**rows.bad, **bad})


def blank(shape: Sequence[int], dtype: np.dtype[Any]) -> Array:
    """An array of zeros, or of empty texts."""
    return np.full(shape, "" if dtype.kind == "O" else 0, dtype)


def storable(array: Array) -> Array:
    """The array in a type that files have: float32 for bfloat16 and the like, which libraries add to numpy's types."""
    return array.astype(np.float32) if arrays.is_added(array.dtype) else array


def has_nan(dtype: np.dtype[Any]) -> bool:
    """Whether an output of this type has NaN, for a null, in numpy's files."""
    return dtype.kind in "fc" or arrays.is_added(dtype)


def matches(row: Sequence[int], wanted: Sequence[int | None]) -> bool:
    """Whether a row's shape is what an input takes."""
    return len(row) == len(wanted) and all(size is None or size == own for own, size in zip(row, wanted, strict=True))


def _shape(row: Sequence[int | None]) -> str:
    return f"shape [{', '.join('?' if size is None else str(size) for size in row)}]"
