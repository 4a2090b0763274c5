"""Batches in memory that has more rows than they."""

import numpy as np
import pytest

from zrt.lanes.rows import padded_rows, write_rows


@pytest.mark.parametrize("sizes", [[1], [3], [5], [1, 2], [2, 1, 2]])
@pytest.mark.parametrize("dtype", ["f4", "O"])
def test_the_last_row_repeats(sizes: list[int], dtype: str) -> None:
    rows = np.arange(2 * sum(sizes)).astype(dtype).reshape(-1, 2)
    parts = np.split(rows, np.cumsum(sizes)[:-1])
    memory = np.zeros((5, 2), dtype)
    write_rows(memory, parts)
    for array in (memory, padded_rows(parts, 5)):
        assert array.dtype == rows.dtype
        np.testing.assert_array_equal(array[: len(rows)], rows)
        np.testing.assert_array_equal(array[len(rows) :], np.repeat(rows[-1:], 5 - len(rows), axis=0))


def test_a_scalar_is_copied() -> None:
    memory = np.zeros((), np.int64)
    write_rows(memory, [np.array(7)])
    assert memory == 7
