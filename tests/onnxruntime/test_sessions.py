"""`InferenceSession`: the same calls on the official package and on zrt's."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

from tests.onnxruntime.models import model

ONES = np.ones((1, 4), np.float32)
FEEDS = {"x": ONES, "y": ONES}


@pytest.fixture(scope="module")
def add(ort: Any) -> Any:
    return ort.InferenceSession(model(), providers=["CPUExecutionProvider"])


@pytest.mark.parametrize("names", [None, [], (), ["z"], ("z",)])
def test_run_returns_the_outputs(add: Any, names: Any) -> None:
    (z,) = add.run(names, FEEDS)
    assert z.dtype == np.float32
    assert z.tolist() == [[2, 2, 2, 2]]


def test_run_without_an_input_raises_value_error(add: Any) -> None:
    message = "Required inputs (['y']) are missing from input feed (['x'])."
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        add.run(None, {"x": ONES})


class Frame:
    """Columns by name, like those of a data frame: no `Mapping`, but with `keys`, `items` and `[]`."""

    def __init__(self, **columns: Any) -> None:
        self._columns = columns
        self.keys = columns.keys
        self.items = columns.items

    def __getitem__(self, name: str) -> Any:
        return self._columns[name]


def test_run_takes_feeds_from_an_object_with_items(add: Any) -> None:
    (z,) = add.run(None, Frame(**FEEDS))
    assert z.tolist() == [[2, 2, 2, 2]]
