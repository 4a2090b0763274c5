"""Batches in memory that has more rows than they: the last row repeats to the end."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np

Array: TypeAlias = "np.ndarray[Any, Any]"


def write_rows(memory: Array, parts: Sequence[Array]) -> None:
    """Writes the rows of `parts`, which are one or more, behind each other into a lane's input."""
    if len(parts) == 1 and parts[0].shape == memory.shape:
        # The array may be a scalar, which has no rows.
        memory[...] = parts[0]
        return
    count = sum(map(len, parts))
    np.concatenate(parts, out=memory[:count])
    memory[count:] = memory[count - 1]


def padded_rows(parts: Sequence[Array], size: int) -> Array:
    """The rows of `parts` in an array of `size` rows, for a session that runs without a lane."""
    array = np.empty((size, *parts[0].shape[1:]), parts[0].dtype)
    write_rows(array, parts)
    return array
