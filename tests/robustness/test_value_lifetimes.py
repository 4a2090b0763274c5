"""Values of every kind are dropped in any order, used in several threads, and alive at the interpreter's end."""

from __future__ import annotations

import pytest

from tests.robustness.conftest import Child


@pytest.mark.slow
def test_values_dropped_in_any_order(child: Child) -> None:
    child("values/dropped.py")


def test_values_alive_at_the_end_of_the_interpreter(child: Child) -> None:
    child("values/left.py")


def test_values_used_in_several_threads(child: Child) -> None:
    child("values/threads.py")
