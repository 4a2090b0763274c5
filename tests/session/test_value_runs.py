"""`Session.run_values` and `Session.submit_values`: values in, values out, and ONNX Runtime's own checks."""

import gc
import weakref
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import zrt
from zrt.errors import InvalidArgumentError, UnsupportedError
from zrt.session import value_feeds

ONES = np.ones(3, np.float32)


def fed(array: Any = ONES) -> dict[str, zrt.Value]:
    return {"x": zrt.Value.from_array(array), "y": zrt.Value.from_array(ONES)}


def numbers(values: list[zrt.Value | None]) -> list[Any]:
    return [None if value is None else value.numpy().tolist() for value in values]


def test_run_values_returns_a_value_for_each_output(add: zrt.Session) -> None:
    assert numbers(add.run_values(fed())) == [[2, 2, 2]]
    assert numbers(add.run_values(fed(), ["z", "z"])) == [[2, 2, 2]] * 2


def test_run_values_takes_other_shapes_from_run_to_run(add: zrt.Session) -> None:
    for size in (1, 3, 2):
        feeds = {name: zrt.Value.from_array(np.ones(size, np.float32)) for name in "xy"}
        assert numbers(add.run_values(feeds)) == [[2] * size]


def test_run_values_without_feeds_serves_no_run_of_arrays(load: Callable[..., zrt.Session], add: zrt.Session) -> None:
    session = load("() => (float[2] a, float[2] b) <float[2] w = {1, -2}> { a = Neg(w) b = Abs(w) }")
    assert numbers(session.run_values({}, ["b"])) == [[1, 2]]
    for results in (session.run({}), session.run([]), session.submit({}).result()):
        assert [result.tolist() for result in results] == [[-1, 2], [1, 2]]
    with pytest.raises(zrt.Error):
        add.run_values({})
    with pytest.raises(zrt.errors.ArgumentError, match="'x', 'y'"):
        add.run({})


def test_run_values_leaves_the_fast_path_of_run_alone(add: zrt.Session) -> None:
    feeds = {"x": ONES, "y": ONES}
    first = add.run(feeds)
    add.run_values(fed())
    assert add.run(feeds)[0].tolist() == first[0].tolist()


def test_error_has_the_words_of_onnx_runtime_alone(add: zrt.Session) -> None:
    with pytest.raises(InvalidArgumentError) as caught:
        add.run_values(fed(np.ones(3)))
    words = "Unexpected input data type. Actual: (tensor(double)) , expected: (tensor(float))"
    assert str(caught.value) == caught.value.ort_message == words


def test_error_with_a_subject_keeps_the_words_of_onnx_runtime() -> None:
    with pytest.raises(zrt.errors.InvalidProtobufError) as caught:
        zrt.Session(b"junk" * 10)
    assert caught.value.ort_message == "Failed to load model because protobuf parsing failed."
    assert str(caught.value).startswith("model in memory: ")


def test_submit_values_returns_the_values_in_a_future(add: zrt.Session) -> None:
    assert numbers(add.submit_values(fed()).result(60)) == [[2, 2, 2]]
    with pytest.raises(InvalidArgumentError, match="Invalid input name: q"):
        add.submit_values({"q": zrt.Value.from_array(ONES)}).result(60)


def test_output_that_is_an_input_keeps_the_feed_alive(load: Callable[..., zrt.Session]) -> None:
    session = load("(float[n] x) => (float[n] x, float[n] y) { y = Neg(x) }")
    array = np.ones(1000, np.float32)
    kept = weakref.ref(array)
    value = zrt.Value.from_array(array)
    first, other = session.run_values({"x": value})
    assert first is not None
    assert first.address == value.address
    del array, value, other
    gc.collect()
    assert first.numpy().sum() == 1000
    del first
    gc.collect()
    assert kept() is None


def test_computed_output_does_not_keep_the_feeds_alive(relu: zrt.Session) -> None:
    array = np.ones(1000, np.float32)
    kept = weakref.ref(array)
    results = relu.run_values({"x": zrt.Value.from_array(array)})
    del array
    gc.collect()
    assert kept() is None
    assert numbers(results) == [[1] * 1000]


def test_containers_come_as_values(load: Callable[..., zrt.Session]) -> None:
    session = load("(seq(float[n]) s) => (seq(float[n]) t, int64 n) { t = Identity(s)  n = SequenceLength(s) }")
    sequence, length = session.run_values({"s": zrt.Value.from_sequence([ONES, ONES])})
    assert sequence is not None
    assert length is not None
    assert [each.tolist() for each in sequence.to_list()] == [[1, 1, 1]] * 2
    assert length.numpy() == 2


def test_absent_optional_is_none(load: Callable[..., zrt.Session]) -> None:
    session = load("(optional(float[n]) o) => (optional(float[n]) p) { p = Identity(o) }")
    assert session.run_values({}) == [None]
    assert numbers(session.run_values({"o": zrt.Value.from_array(ONES)})) == [[1, 1, 1]]


def test_run_values_needs_no_device_value(add: zrt.Session, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: Any) -> None:
        raise UnsupportedError("input 'x' lies elsewhere")

    monkeypatch.setattr(value_feeds, "check_reach", refuse)
    with pytest.raises(UnsupportedError, match="elsewhere"):
        add.run_values(fed())


class Odd(dict[str, Any]):
    """Its names come in another order than its items, which leave out one of them."""

    def __iter__(self) -> Any:
        return iter(sorted(self.keys(), reverse=True))

    def items(self) -> Any:
        return [(name, value) for name, value in super().items() if value is not None]


@pytest.mark.parametrize("submitted", [False, True])
def test_mapping_is_read_once(load: Callable[..., zrt.Session], submitted: bool) -> None:
    session = load("(float[n] x, float[n] y) => (float[n] z) { z = Sub(x, y) }")

    def run(**feeds: Any) -> list[Any]:
        given = Odd(feeds)
        return numbers(session.submit_values(given).result(60) if submitted else session.run_values(given))

    one, two = (zrt.Value.from_array(np.full(3, number, np.float32)) for number in (1, 2))
    assert run(x=two, y=one) == [[1, 1, 1]]
    assert run(x=two, y=one, z=None) == [[1, 1, 1]]
