"""`zrt._native.cdata`: C data that owns all that it points to."""

import gc

import pytest

from zrt._native import ffi
from zrt._native.cdata import strings


@pytest.mark.parametrize("texts", [[], ["x"], ["", "é", "a b"], [b"raw", "text"], [f"name {n}" for n in range(1000)]])
def test_strings_are_the_texts_in_utf8(texts: list[str | bytes]) -> None:
    array = strings(texts)
    gc.collect()
    # Memory that the array did not own would be in use again by now.
    fill = [bytes(64) for _ in range(1000)]
    wanted = [text.encode() if isinstance(text, str) else text for text in texts]
    assert [ffi.string(text) for text in array] == wanted
    assert len(array) == len(texts)
    assert fill


def test_strings_in_a_reference_cycle_are_collected() -> None:
    for number in range(1000):
        cycle: list[object] = [strings([f"name {number}", "other"])]
        cycle.append(cycle)
        del cycle
    gc.collect()


def test_strings_take_a_generator() -> None:
    array = strings(text for text in ("a", "b"))
    assert ffi.string(array[1]) == b"b"
