"""`Scorer`: the rows of a `ray.data.Dataset` through a model."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from zrt._common.arguments import boolean, integer, require_type, texts, wrong_type
from zrt._common.public import public_in
from zrt.environment import cpu_limits
from zrt.errors import ArgumentError, ShapeError
from zrt.memory import arrays
from zrt.scoring.blocks import Chunk, no_rows
from zrt.scoring.columns import Array, has_nan, storable
from zrt.scoring.results import Result, joined
from zrt.scoring.score import Lanes
from zrt.scoring.scorer import Scorer as Batches
from zrt.scoring.scorer import check_columns
from zrt.session.spec import SessionSpec

DEFAULT_BATCH = 64


@public_in("zrt.ray")
class Scorer:
    """Puts the batches of a `ray.data.Dataset` through a model: the class for `Dataset.map_batches`.

    Ray makes one for each actor, which loads the model of `spec`, a `SessionSpec`, once. `lanes` threads put each batch
    through the model, with a lane each; without `lanes` they are as many as the CPUs that Ray gives to the actor
    (`num_cpus`). Set `intra_op_num_threads` to 1 in the options of the recipe: the actors of a node do not know of each
    other.

    `inputs` names the columns of each input, one column or several that go side by side; an input that it lacks is fed
    by the column of its name. `keep` names the columns that the results have besides the outputs. `batch` is the number
    of rows of a run, where the model leaves that open.

    The batches of rows may be dicts of numpy arrays, `pyarrow.Table` or `pandas.DataFrame`, whatever `batch_format`
    asks for, and results are of the same kind. Rows are fed as `zrt score` feeds them. A row that cannot be fed raises
    `ArgumentError` with its place in the batch and the reason; with `skip_bad` it has nulls in all outputs. In numpy's
    arrays a null is NaN, so that all outputs must be floating point; in a frame of pandas, outputs of several numbers a
    row are lists then.

    Raises `ArgumentError` for names that the model does not have, `DTypeError` for arguments of other types and for
    columns of another kind than their inputs, `UnsupportedError` for a model that does not take rows, and the errors of
    `SessionSpec.load`.
    """

    def __init__(
        self,
        spec: SessionSpec,
        *,
        inputs: Mapping[str, str | Sequence[str]] | None = None,
        keep: Sequence[str] = (),
        batch: int = DEFAULT_BATCH,
        skip_bad: bool = False,
        lanes: int | None = None,
    ) -> None:
        require_type(spec, SessionSpec, "spec", "a SessionSpec")
        by_input = {} if inputs is None else inputs
        require_type(by_input, Mapping, "inputs", "a mapping of inputs to columns")
        boolean(skip_bad, "skip_bad")
        self._columns = {name: _names(columns, f"inputs[{name!r}]") for name, columns in by_input.items()}
        for name, columns in self._columns.items():
            if not columns:
                raise ArgumentError(f"inputs[{name!r}]: there are no columns")
        self._keep = _names(keep, "keep")
        self._skip_bad = skip_bad
        self._session = spec.shared()
        scorer = Batches(self._session, integer(batch, "batch", 1))
        for name in self._session.input_names:
            self._columns.setdefault(name, [name])
        named = [column for columns in self._columns.values() for column in columns]
        check_columns(scorer, self._columns, [*named, *self._keep], self._keep)
        self._lanes = Lanes(
            scorer,
            self._columns,
            threads=_given_cpus() if lanes is None else integer(lanes, "lanes", 1),
            keep=self._keep,
            skip_bad=skip_bad,
        )

    def __call__(self, batch: Any) -> Any:
        """The outputs of the rows of a batch, and the columns of `keep`."""
        opened = _open(batch)
        check_columns(self._lanes.scorer, self._columns, list(opened.columns), self._keep)
        if opened.kind == "numpy" and self._skip_bad:
            for info in self._session.outputs:
                if not has_nan(info.element_type.dtype):
                    raise ArgumentError(f"output {info.name!r} has no nulls in numpy: use batch_format='pyarrow'")
        result = self._run(opened)
        if opened.kind == "pyarrow":
            from zrt.scoring.arrow import table_of

            return table_of(result)
        if opened.kind == "pandas":
            return _frame(result, {name: batch[name] for name in self._keep}, batch.index, self._skip_bad)
        if result.null is not None:
            for array in result.outputs.values():
                array[result.null] = np.nan
        return {**result.columns, **result.outputs}

    def _run(self, batch: _Batch) -> Result:
        columns = {name: batch.columns[name] for name in self._keep}
        if not batch.size:
            return Result(0, no_rows(self._lanes.scorer), columns=columns)
        results = []
        for result in self._lanes.results([Chunk(0, batch.size, batch.columns)]):
            if result.bad and not self._skip_bad:
                row, reason = result.bad[0]
                raise ArgumentError(f"row {row} of the batch cannot be fed: {reason}")
            # All rows have a place in the results: the whole columns serve.
            results.append(result._replace(columns={}))
        whole = joined(results)
        outputs = {name: storable(array) for name, array in whole.outputs.items()}
        return whole._replace(outputs=outputs, columns=columns)


class _Batch(NamedTuple):
    """The rows of a batch."""

    kind: str
    size: int
    columns: dict[str, Any]


def _open(batch: Any) -> _Batch:
    if isinstance(batch, Mapping):
        columns = {name: arrays.plain(values, f"batch: column {name!r}") for name, values in batch.items()}
        sizes = {name: len(array) if array.ndim else None for name, array in columns.items()}
        if len(set(sizes.values())) > 1 or None in sizes.values():
            raise ShapeError(f"batch: its columns do not all have the same number of rows: {sizes}")
        return _Batch("numpy", next(iter(sizes.values()), 0) or 0, columns)
    # A batch of a package that nothing has imported does not exist.
    pyarrow, pandas = sys.modules.get("pyarrow"), sys.modules.get("pandas")
    if pyarrow is not None and isinstance(batch, pyarrow.Table):
        _check_names(batch.column_names)
        return _Batch("pyarrow", len(batch), {name: batch[name].combine_chunks() for name in batch.column_names})
    if pandas is not None and isinstance(batch, pandas.DataFrame):
        _check_names(batch.columns)
        return _Batch("pandas", len(batch), {name: _array(batch[name]) for name in batch.columns})
    raise wrong_type("batch", "a dict of numpy arrays, a pyarrow.Table or a pandas.DataFrame", batch)


def _check_names(names: Iterable[Any]) -> None:
    for name, count in Counter(names).items():
        if count > 1:
            raise ArgumentError(f"batch: {count} columns have the name {name!r}")


def _array(series: Any) -> Array:
    """A column of pandas, with None for its nulls where its type is not numpy's, which has none."""
    if isinstance(series.dtype, np.dtype):
        return np.asarray(series)
    objects = series.astype(object)
    return np.asarray(objects.where(series.notna(), None) if series.hasnans else series)


def _frame(result: Result, columns: dict[str, Any], index: Any, skip_bad: bool) -> Any:
    # Deferred: only pandas' batches need it.
    import pandas

    null = np.zeros(result.size, bool) if result.null is None else result.null
    for name, array in result.outputs.items():
        if array.ndim == 1 and result.null is None:
            columns[name] = array
        else:
            # Of arrays Ray makes a type of its own, but not where there are nulls: the types of batches would differ.
            values = _nested(array) if skip_bad and array.ndim > 1 else array
            rows = [None if without else row for without, row in zip(null, values, strict=True)]
            columns[name] = pandas.Series(rows, index, dtype=object)
    return pandas.DataFrame(columns, index)


def _nested(array: Array) -> list[Any]:
    """The array as lists of numpy's numbers, which keep their type."""
    return list(array) if array.ndim == 1 else [_nested(row) for row in array]


def _names(names: Any, subject: str) -> list[str]:
    """One name or several as a list."""
    return texts([names] if isinstance(names, str) else names, subject, "a str or a sequence of str")


def _given_cpus() -> int:
    """The CPUs that Ray gives to this actor; outside of Ray those that the process may use."""
    ray = sys.modules.get("ray")
    if ray is not None and ray.is_initialized():
        context = ray.get_runtime_context()
        if context.worker.mode == ray.WORKER_MODE:
            return max(1, int(context.get_assigned_resources().get("CPU", 1)))
    return cpu_limits.cpus()
