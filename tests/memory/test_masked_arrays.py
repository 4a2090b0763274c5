"""Masked arrays: refused wherever zrt takes an array, since ONNX Runtime would read what the mask hides."""

from __future__ import annotations

import numpy as np
import pytest

import zrt
from tests.support.arrays import f32
from zrt.errors import ArgumentError
from zrt.memory import arrays
from zrt.types import ElementType

MASKED = np.ma.masked_array(f32(1, 2, 3, 4), [False, True, False, False])
UNMASKED = np.ma.masked_array(f32(1, 2, 3, 4))
WORDS = np.ma.masked_array(np.array(["a", "b"], object), [False, True])
BYTES = np.ma.masked_array(np.zeros(2, np.uint8))


@pytest.mark.parametrize("feed", [MASKED, UNMASKED], ids=["masked", "unmasked"])
@pytest.mark.parametrize(
    "use",
    [
        lambda session, feed: session.run({"x": feed}),
        lambda session, feed: session.run([feed]),
        lambda session, feed: session.submit([feed]).result(),
        lambda session, feed: session.prepare([feed]),
        lambda session, feed: session.binding().bind_input("x", feed),
    ],
    ids=["run", "run-list", "submit", "prepare", "binding"],
)
def test_a_masked_feed_is_refused(relu, use, feed):
    with pytest.raises(ArgumentError, match=r"input 'x' is a masked array, .*: give array\.filled\(value\)"):
        use(relu, feed)
    use(relu, feed.filled(0))


def test_a_masked_feed_is_refused_after_a_plain_one(relu):
    assert relu.run([f32(-1, 2)])[0].tolist() == [0, 2]
    with pytest.raises(ArgumentError, match="input 'x' is a masked array"):
        relu.run([MASKED])


def test_a_masked_feed_of_strings_is_refused(load):
    session = load("(string[n] x) => (string[n] y) { y = Identity(x) }")
    with pytest.raises(ArgumentError, match="input 'x' is a masked array"):
        session.run([WORDS])
    assert session.run([WORDS.filled("-")])[0].tolist() == ["a", "-"]


def test_a_masked_output_is_refused(relu):
    with pytest.raises(ArgumentError, match="output 'y' is a masked array"):
        relu.binding().bind_output("y", MASKED)


@pytest.mark.parametrize(
    ("use", "subject"),
    [
        (lambda: zrt.Value.from_array(MASKED), "array"),
        (lambda: zrt.Value.from_packed(BYTES, ElementType.INT4, (4,)), "array"),
        (lambda: zrt.Value.from_strings(WORDS), "strings"),
        (lambda: zrt.Value.from_sequence([f32(1), MASKED]), "sequence, element 1"),
        (lambda: zrt.Value.from_sequence([WORDS], "string"), "sequence, element 0"),
        (lambda: zrt.Value.from_sparse(zrt.SparseTensor("coo", (9,), MASKED, np.arange(4))), "values"),
        (lambda: zrt.Value.from_sparse(zrt.SparseTensor("coo", (9,), f32(1, 2), BYTES)), "indices"),
        (lambda: zrt.from_dlpack(MASKED), "tensor"),
        (lambda: zrt.copy(MASKED, np.zeros(4, np.float32)), "copy 0"),
        (lambda: zrt.copy(np.zeros(4, np.float32), MASKED), "copy 0"),
        (lambda: zrt.Graph().initializer("w", MASKED), "initializer 'w': it"),
        (lambda: zrt.Graph().initializer("w", np.ma.zeros(400), borrow=True), "initializer 'w'"),
        (lambda: zrt.Graph().op("Constant", value=MASKED), "attribute 'value': it"),
        (lambda: zrt.save_lora_adapter("never.onnx_adapter", {"w": MASKED}), "parameter 'w'"),
    ],
)
def test_a_masked_array_is_refused(use, subject):
    with pytest.raises(ArgumentError, match=rf"{subject} is a masked array"):
        use()


def test_a_masked_weight_is_refused(build):
    model = build("(float[4] x) => (float[4] y) <float[4] w = {1, 2, 3, 4}> { y = Add(x, w) }")
    with pytest.raises(ArgumentError, match=r"'w'.* is a masked array"):
        zrt.Session(model, zrt.SessionOptions(initializers={"w": MASKED}))


def test_masked_arrays_of_other_libraries_are_refused():
    class Masked(np.ndarray):
        mask = None

        def filled(self, value):
            return np.asarray(self)

    with pytest.raises(ArgumentError, match="it is a masked array"):
        arrays.plain(f32(1).view(Masked), "it")


def test_other_subclasses_are_taken():
    assert type(arrays.plain(f32(1).view(np.recarray), "it")) is np.ndarray
