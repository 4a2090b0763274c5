"""The arrays that ONNX Runtime can use as they are, those that must be copied, and masked ones, which are refused."""

import re

import ml_dtypes
import numpy as np
import pytest

import zrt
from tests.support import models
from tests.support.arrays import f32
from zrt.errors import ArgumentError, DTypeError, ShapeError
from zrt.memory import arrays
from zrt.types import ElementType

MASKED = np.ma.masked_array(f32(1, 2, 3, 4), [False, True, False, False])
UNMASKED = np.ma.masked_array(f32(1, 2, 3, 4))
WORDS = np.ma.masked_array(np.array(["a", "b"], object), [False, True])
BYTES = np.ma.masked_array(np.zeros(2, np.uint8))


class TestNative:
    def test_usable_array_is_not_copied(self):
        for array in (np.ones(3), np.ones((0, 3)), np.array(1.0), np.ones((1, 3)).T, np.zeros(3, ml_dtypes.bfloat16)):
            assert arrays.native(array) is array
            assert arrays.needs_copy(array) is None

    @pytest.mark.parametrize(
        ("array", "reason"),
        [
            (np.arange(6).reshape(2, 3).T, "is not C-contiguous"),
            (np.arange(6)[::2], "is not C-contiguous"),
            (np.arange(6)[::-1], "is not C-contiguous"),
            (np.broadcast_to(np.arange(2), (3, 2)), "is not C-contiguous"),
            (np.arange(6, dtype=">i8"), r"is in the other byte order \(>i8\)"),
            (np.arange(6, dtype=">i8")[::2], "is in the other byte order"),
            (np.arange(8, dtype=ml_dtypes.bfloat16)[::2], "is not C-contiguous"),
            (np.frombuffer(bytes(9), np.float32, offset=1), r"begins at 0x[0-9a-f]+, no multiple of its elements' 4"),
        ],
    )
    def test_unusable_array_is_copied(self, array, reason):
        assert re.match(reason, arrays.needs_copy(array))
        right = arrays.native(array)
        assert right.flags.c_contiguous
        assert right.dtype.isnative
        assert right.tolist() == array.tolist()
        assert not np.shares_memory(right, array)
        assert arrays.needs_copy(right) is None


def test_unknown_dtype_raises_with_subject():
    assert arrays.element_type_of(np.zeros(1, ">f4"), "x") is ElementType.FLOAT
    with pytest.raises(DTypeError, match="input 'x': ONNX has no element type"):
        arrays.element_type_of(np.zeros(1, "m8[s]"), "input 'x'")


def test_views_of_a_buffer_and_of_its_value_share_memory():
    buffer = zrt.Buffer((3,), np.float32)
    view = zrt.Value.from_buffer(buffer).numpy()
    buffer.array[...] = [1, 2, 3]
    assert view.tolist() == [1, 2, 3]
    assert arrays.address_of(view) == buffer.address


def test_empty_shape_that_numpy_cannot_have_raises_a_shape_error() -> None:
    with pytest.raises(ShapeError, match="numpy has no such array"):
        zrt.Buffer([0, 2, 2**62], np.float32)


# Masked arrays are refused wherever zrt takes an array: ONNX Runtime would read what the mask hides.
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
        (lambda: zrt.Session(models.add()).binding().bind_output("z", MASKED), "output 'z'"),
        (lambda: zrt.Session(models.weighted(), zrt.SessionOptions(initializers={"w": MASKED})), "'w'.*"),
        (lambda: zrt.save_lora_adapter("never.onnx_adapter", {"w": MASKED}), "parameter 'w'"),
    ],
)
def test_a_masked_array_is_refused(use, subject):
    with pytest.raises(ArgumentError, match=rf"{subject} is a masked array"):
        use()


def test_masked_arrays_of_other_libraries_are_refused():
    class Masked(np.ndarray):
        mask = None

        def filled(self, value):
            return np.asarray(self)

    with pytest.raises(ArgumentError, match="it is a masked array"):
        arrays.plain(f32(1).view(Masked), "it")


def test_other_subclasses_are_taken():
    assert type(arrays.plain(f32(1).view(np.recarray), "it")) is np.ndarray


def test_lists_without_a_common_shape_are_refused_by_name():
    with pytest.raises(DTypeError, match=r"column 'x': .*inhomogeneous"):
        arrays.plain([[1.0], [1.0, 2.0]], "column 'x'")
