"""Arrow's columns as rows for a model, and results as Arrow's columns. Needs the pyarrow package."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from zrt.errors import ArgumentError, DTypeError
from zrt.scoring.columns import Array, Rows, Wanted, fit, fit_each, storable
from zrt.scoring.results import Result

# The words that files have in place of a number. "nan" is a number.
NULLS = ["", "null", "NULL", "NA", "N/A", "#N/A"]

# The names of the types of tensors, pyarrow's own and Ray's.
TENSORS = ("arrow.fixed_shape_tensor", "ray.")

# A text that is no UTF-8 either.
NO_TEXT = "\udcff"

# The texts that become numbers. Identifiers such as 007, and those of more digits than a number keeps, stay texts.
INTEGER = "^(0|-?[1-9][0-9]{0,17})$"
NUMBER = r"^-?(0|[1-9][0-9]{0,14})(\.[0-9]+)?([eE][+-]?[0-9]{1,2})?$"


def rows_of(column: Any, subject: str, wanted: Wanted) -> Rows:
    """The rows of a column (`pyarrow.Array`)."""
    if isinstance(column, pa.ExtensionArray):
        if column.type.extension_name.startswith(TENSORS):
            if _has_null(column.storage):
                return fit_each(subject, [_tensor(column[row : row + 1]) for row in range(len(column))], wanted)
            tensors = _tensors(column)
            return (
                fit_each(subject, list(tensors), wanted) if tensors.dtype.kind == "O" else fit(subject, tensors, wanted)
            )
        column = column.storage
    if pa.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    kind = column.type
    while _is_list(kind):
        kind = kind.value_type
    number = pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_boolean(kind)
    if pa.types.is_temporal(kind) or pa.types.is_decimal(kind) or (number and wanted.dtype.kind == "O"):
        raise DTypeError(f"{subject}: {column.type} cannot be fed as {wanted.dtype} to input {wanted.name!r}")
    if wanted.dtype.kind != "O" and (pa.types.is_string(column.type) or pa.types.is_large_string(column.type)):
        column = _parsed(column, wanted)
    array = _plain(column)
    if array is None:
        return fit_each(subject, _objects(column), wanted)
    return fit(subject, array, wanted)


def _tensors(column: Any) -> Array:
    """A column of tensors without nulls as one array, or as an object array where their shapes differ."""
    if column.type.extension_name == TENSORS[0]:
        return np.asarray(column.to_numpy_ndarray())
    return np.asarray(column.to_numpy(zero_copy_only=False))


def _tensor(row: Any) -> Any:
    """The tensor of a column of one row; None, or a list with None, in place of one that is null or has a null."""
    return row.storage[0].as_py() if _has_null(row.storage) else _tensors(row)[0]


def _has_null(column: Any) -> bool:
    """Whether a column has a null anywhere; pyarrow and Ray take those within a tensor for numbers."""
    if column.null_count:
        return True
    if pa.types.is_struct(column.type):
        return any(map(_has_null, column.flatten()))
    return _is_list(column.type) and _has_null(column.flatten())


def _is_list(kind: Any) -> bool:
    return bool(pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind))


def _objects(column: Any) -> list[Any]:
    """A column as Python objects; Parquet may have texts that are no UTF-8."""
    try:
        objects: list[Any] = column.to_pylist()
    except UnicodeDecodeError:
        return [_object(each) for each in column]
    return objects


def _object(value: Any) -> Any:
    try:
        return value.as_py()
    except UnicodeDecodeError:
        return NO_TEXT


def _parsed(column: Any, wanted: Wanted) -> Any:
    """A column of texts as numbers, or as booleans, if all of them are."""
    column = without_words(column)
    if pc.any(pc.match_substring(column, "x", ignore_case=True)).as_py():
        # For pyarrow, not for Python, "0x10" is a whole number.
        return column
    kinds = {"b": pa.bool_(), "i": pa.int64(), "u": pa.int64()}
    try:
        parsed = pc.cast(column, kinds.get(wanted.dtype.kind, pa.float64()))
    except pa.ArrowInvalid:
        return column
    # A number that is too large for a double becomes infinite, which each text by itself tells from "inf".
    infinite = pa.types.is_floating(parsed.type) and pc.any(pc.is_inf(parsed)).as_py()
    return column if infinite else parsed


def without_words(column: Any) -> Any:
    """A column of texts with nulls in place of the words that stand for them."""
    return pc.if_else(pc.is_in(column, pa.array(NULLS, column.type)), None, column)


def typed(column: Any, kind: Any) -> Any:
    """A column of texts in the type that `types_of` found."""
    return without_words(column).cast(kind)


def types_of(batches: Iterable[Any], columns: Sequence[str]) -> dict[str, Any]:
    """The types of columns of texts whose values are all whole numbers, or all numbers."""
    left = {name: [(INTEGER, pa.int64()), (NUMBER, pa.float64())] for name in columns}
    seen: set[str] = set()
    for batch in batches:
        for name in columns:
            values = without_words(batch.column(list(columns).index(name))).drop_null()
            if len(values):
                seen.add(name)
                left[name] = [kind for kind in left[name] if pc.all(pc.match_substring_regex(values, kind[0])).as_py()]
    return {name: left[name][0][1] for name in columns if name in seen and left[name]}


def _plain(column: Any) -> Array | None:
    """A column without nulls, whose rows all have the same shape, as one array; None for any other."""
    sizes = [len(column)]
    while True:
        if column.null_count:
            return None
        kind = column.type
        if pa.types.is_fixed_size_list(kind):
            sizes.append(kind.list_size)
        elif pa.types.is_list(kind) or pa.types.is_large_list(kind):
            lengths = pc.min_max(pc.list_value_length(column)).as_py()
            if lengths["min"] is None or lengths["min"] != lengths["max"]:
                return None
            sizes.append(lengths["min"])
        else:
            break
        column = column.flatten()
    if not (pa.types.is_floating(column.type) or pa.types.is_integer(column.type) or pa.types.is_boolean(column.type)):
        return None
    flat: Array = column.to_numpy(zero_copy_only=False)
    return flat.reshape(sizes)


def table_of(result: Result) -> Any:
    """Results as a table: the columns that were copied, then the outputs."""
    columns = {
        name: _column(column, None) if isinstance(column, np.ndarray) else column
        for name, column in result.columns.items()
    }
    return pa.table(columns | {name: _column(array, result.null) for name, array in result.outputs.items()})


def _column(array: Array, null: Array | None) -> Any:
    if array.dtype.kind == "O":
        flat = pa.array(array.ravel().tolist(), pa.string())
    else:
        stored = storable(array)
        # Arrow has the machine's own order of bytes alone.
        flat = pa.array(np.ascontiguousarray(stored, stored.dtype.newbyteorder("=")).ravel())
    for size in reversed(array.shape[1:]):
        flat = pa.FixedSizeListArray.from_arrays(flat, size)
    if null is None:
        return flat
    return pc.if_else(pa.array(~null), flat, pa.nulls(len(flat), flat.type))


def flattened(table: Any) -> Any:
    """A table for CSV, which has no lists: an element a column, named like ``probabilities_0``."""
    columns: dict[str, Any] = {}
    for name in table.column_names:
        pieces = {name: table[name].combine_chunks()}
        while any(pa.types.is_fixed_size_list(piece.type) for piece in pieces.values()):
            pieces = {
                f"{key}_{index}": pc.list_element(piece, index)
                for key, piece in pieces.items()
                for index in range(piece.type.list_size)
            }
        for key in columns.keys() & pieces.keys():
            raise ArgumentError(f"two columns of a CSV file would be {key!r}: write Parquet or Arrow")
        columns.update(pieces)
    return pa.table(columns)
