"""The error of a failed load holds itself, and its frames hold the caller's memoryview."""

from __future__ import annotations

import gc

import zrt
from tests.robustness.prologue import ADD


def fail(model):
    try:
        zrt.Session(model)
    except zrt.Error as error:
        error.me = error
    else:
        raise AssertionError


for content in (b"", b"no model", ADD):
    for number in range(4):
        fail(
            (
                memoryview(content[:-1]),
                memoryview(bytearray(content[:-1])),
                memoryview(content)[::2],
                memoryview(content[:-1]).cast("b"),
            )[number]
        )
        gc.collect()
released = memoryview(b"no model")
released.release()
fail(released)
