"""Feeds and results of `InferenceSession.run`: conversions and refusals as those of the official package."""

import collections
import gc
import re
import types
import weakref
from typing import Any

import numpy as np
import pytest

import zrt
from tests.onnxruntime import models
from tests.onnxruntime.models import FEEDS, ONES, TWOS, identity, model

LONGS = np.ones(2, np.float32)


def unaligned(array: Any) -> Any:
    return np.frombuffer(b"\0" + array.tobytes(), np.uint8)[1:].view(array.dtype).reshape(array.shape)


def read_only(array: Any) -> Any:
    array = array.copy()
    array.flags.writeable = False
    return array


CONVERTED = {
    "array": ONES,
    "list of ints": [[1, 1, 1, 1]],
    "list of floats": [[1.0, 1, 1, 1]],
    "list of bools": [[True, True, True, True]],
    "list of arrays": [ONES[0]],
    "list of numpy's numbers": [list(ONES[0])],
    "strided": np.ones((4, 2), np.float32).T[:1],
    "reversed": ONES[:, ::-1],
    "misaligned": unaligned(ONES),
    "read-only": read_only(ONES),
    "masked": np.ma.masked_array(ONES),
    "subclass": ONES.view(np.memmap),
}


@pytest.mark.parametrize("name", CONVERTED)
def test_feeds_are_converted_and_may_change_from_run_to_run(add: Any, ort: Any, name: str) -> None:
    of_ort, converted = ort.OrtValue.ortvalue_from_numpy(ONES), CONVERTED[name]
    for feed in (converted, converted, ONES, converted, of_ort, converted, ONES, of_ort, ONES):
        (z,) = add.run(None, {"x": feed, "y": ONES})
        assert z.dtype == np.float32
        assert z.tolist() == TWOS


def test_run_does_not_keep_its_ort_values(add: Any, ort: Any) -> None:
    feeds = {"x": ort.OrtValue.ortvalue_from_numpy(ONES), "y": ONES}
    add.run(None, feeds)
    kept = weakref.ref(feeds["x"])
    feeds.clear()
    gc.collect()
    assert kept() is None


REFUSED = {
    "float64": (ONES.astype("f8"), "InvalidArgument", "(tensor(double)) , expected: (tensor(float))"),
    "int64": (ONES.astype("i8"), "InvalidArgument", "(tensor(int64)) , expected: (tensor(float))"),
    "float16": (ONES.astype("f2"), "InvalidArgument", "(tensor(float16)) , expected: (tensor(float))"),
    "objects": (ONES.astype(object), "InvalidArgument", "(tensor(string)) , expected: (tensor(float))"),
    "texts": (np.array([["a"] * 4]), "InvalidArgument", "(tensor(string)) , expected: (tensor(float))"),
    "records": (np.zeros(3, "i4,f4"), "InvalidArgument", "(tensor(string)) , expected: (tensor(float))"),
    "dict": ({1: 2.0}, "InvalidArgument", "((map(int64,tensor(float)))) , expected: ((tensor(float)))"),
    "rank": (ONES[0], "InvalidArgument", "Invalid rank for input: x Got: 1 Expected: 2 Please fix either"),
    "scalar array": (ONES.sum(), "RuntimeError", "Unable to handle object of type <class 'numpy.flo"),
    "shape": (np.ones((1, 5), np.float32), "InvalidArgument", " index: 1 Got: 5 Expected: 4\n Please fix either"),
    "empty list": ([], "InvalidArgument", "Invalid rank for input: x Got: 1 Expected: 2"),
    "ragged list": ([[1.0, 2], [3]], "RuntimeError", "Could not create tensor from given input list"),
    "list of texts": ([["a"] * 4], "RuntimeError", "Could not create tensor from given input list"),
    "float": (1.0, "RuntimeError", "Unable to handle object of type <class 'float'>"),
    "int": (1, "RuntimeError", "Unable to handle object of type <class 'int'>"),
    "object": (object(), "RuntimeError", "Unable to handle object of type <class 'object'>"),
    "text": ("abc", "RuntimeError", "Input must be a list of dictionaries or a single numpy array for input 'x'."),
    "complex": (ONES.astype("c8"), "RuntimeError", "complex64"),
    "dates": (ONES.astype("M8[s]"), "RuntimeError", "datetime64"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_feed_is_refused_by_its_name_or_its_type(add: Any, state: Any, refused: Any, name: str) -> None:
    feed, kind, words = REFUSED[name]
    error = getattr(state, kind, RuntimeError)
    with refused(error, words) as caught:
        add.run(None, {"x": feed, "y": ONES})
    assert type(caught.value) is error
    if error is not RuntimeError:
        assert str(caught.value).startswith("[ONNXRuntimeError] : 2 : INVALID_ARGUMENT : ")


def test_kernel_that_fails_raises_fail(add: Any, state: Any) -> None:
    x, y = np.ones((2, 4), np.float32), np.ones((3, 4), np.float32)
    with pytest.raises(state.Fail, match=r"^\[ONNXRuntimeError\] : 1 : FAIL : Non-zero status code .* 2 by 3\n$"):
        add.run(None, {"x": x, "y": y})


def test_none_is_an_absent_feed(add: Any, state: Any) -> None:
    with pytest.raises(state.Fail, match="Missing Input: x"):
        add.run(None, {"x": None, "y": ONES})
    (z,) = add.run(None, {"x": ONES, "y": ONES, "other": None})
    assert z.tolist() == TWOS


@pytest.mark.parametrize(
    "make",
    [
        types.MappingProxyType,
        collections.OrderedDict,
        lambda feeds: collections.defaultdict(list, feeds),
        collections.UserDict,
    ],
)
def test_feeds_of_another_mapping_run_at_once(add: Any, make: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(zrt.Session, "run_values", None)
    assert add.run(None, make(FEEDS))[0].tolist() == TWOS


@pytest.mark.parametrize("feeds", [[ONES, ONES], (ONES, ONES), None, ONES])
def test_feeds_that_are_no_mapping_are_refused(add: Any, feeds: Any) -> None:
    with pytest.raises(AttributeError, match="has no attribute 'keys'"):
        add.run(None, feeds)


def test_feed_of_unknown_name_is_refused(add: Any, state: Any) -> None:
    message = "[ONNXRuntimeError] : 2 : INVALID_ARGUMENT : Invalid input name: q"
    with pytest.raises(state.InvalidArgument, match=f"^{re.escape(message)}$"):
        add.run(None, {"x": ONES, "y": ONES, "q": ONES})
    with pytest.raises(TypeError):
        add.run(None, {"x": ONES, "y": ONES, 1: ONES})


INT64, BOOL, STRING, SCALAR = identity("int64"), identity("bool"), identity("string"), identity("float", "")
MAP = models.vectorizer()
SEQUENCE = model("agraph (seq(float[n]) x) => (int64 n, seq(float[n]) t) { n = SequenceLength(x) t = Identity(x) }")

# A model, its feed x, and the type and the elements of the result.
RESULTS = [
    (INT64, [1, 2], np.int64, [1, 2]),
    (INT64, [1.0, 2.7], np.int64, [1, 2]),
    (INT64, [True, False], np.int64, [1, 0]),
    (INT64, np.array([1, 2]), np.int64, [1, 2]),
    (BOOL, [True, False], np.bool_, [True, False]),
    (BOOL, [1, 0], np.bool_, [True, False]),
    (BOOL, np.array([True, False]), np.bool_, [True, False]),
    (STRING, ["a", "b"], object, ["a", "b"]),
    (STRING, ["a", 1], object, ["a", "1"]),
    (STRING, np.array(["a", "bé"]), object, ["a", "bé"]),
    (STRING, np.array(["a", "b"])[::-1], object, ["b", "a"]),
    (STRING, np.array(["a", 1.5], object), object, ["a", "1.5"]),
    (STRING, np.array(["a", None], object), object, ["a", "None"]),
    (STRING, np.array([b"a\0", b"bc"], np.void), object, ["a\0", "bc"]),
    (MAP, {1: 2.0, 3: 4.0}, np.float32, [[2, 0, 4]]),
    (MAP, {1: 2, 3: 4}, np.float32, [[2, 0, 4]]),
    (MAP, {np.int64(1): np.float32(2), 3: 4.0}, np.float32, [[2, 0, 4]]),
    (MAP, {True: True}, np.float32, [[1, 0, 0]]),
    *(
        (identity(element), np.ones(3, dtype), dtype, [1, 1, 1])
        for element, dtype in (("float16", np.float16), ("double", np.float64), ("uint64", np.uint64))
    ),
]


@pytest.mark.parametrize(("data", "feed", "dtype", "expected"), RESULTS)
def test_feed_is_converted_to_the_declared_type(load: Any, data: bytes, feed: Any, dtype: Any, expected: Any) -> None:
    (z,) = load(data).run(None, {"x": feed})
    assert z.dtype == dtype
    assert z.tolist() == expected
    assert dtype is not object or all(type(text) is str for text in z)


NO_TENSOR = r"^Could not create tensor from given input list$"
NO_TENSORS = r"^CreateSequenceOfTensors: Input is not a tensor$"
EXPECTED = r"\({}\) , expected: \({}\)".format
MAP_EXPECTED = EXPECTED(r"\({}\)", r"\(map\(int64,tensor\(float\)\)\)").format

# A model, its feed x, and words of the `InvalidArgument`.
UNFIT = [
    (BOOL, np.ones(1, np.uint8), EXPECTED(r"tensor\(uint8\)", r"tensor\(bool\)")),
    (STRING, np.array("a"), "Invalid rank for input: x Got: 0 Expected: 1"),
    (STRING, np.array([1, 2]), EXPECTED(r"tensor\(int64\)", r"tensor\(string\)")),
    (SEQUENCE, LONGS, "but received a tensor"),
    (MAP, {"a": 1.0}, MAP_EXPECTED(r"map\(string,tensor\(float\)\)")),
    (MAP, ({1: 2.0},), MAP_EXPECTED(r"seq\(map\(int64,tensor\(float\)\)\)")),
]


@pytest.mark.parametrize(("data", "feed", "words"), UNFIT)
def test_feed_of_another_type_is_refused(load: Any, state: Any, data: bytes, feed: Any, words: str) -> None:
    with pytest.raises(state.InvalidArgument, match=words):
        load(data).run(None, {"x": feed})


# A model, its feed x, and words of the `RuntimeError`, of which some name the culprit.
INCONVERTIBLE = [
    *((INT64, feed, NO_TENSOR) for feed in (["a"], [2**70], [None])),
    (STRING, "a", "Input must be a list of dictionaries"),
    (SCALAR, 1.0, r"^Unable to handle object of type <class 'float'>$"),
    *((SEQUENCE, feed, NO_TENSORS) for feed in ([1.0, 2.0], [[1.0, 2.0]], [LONGS, None])),
    (SEQUENCE, [LONGS.astype("f8")], None),
    (MAP, [{1: 2.0}], None),
    (MAP, {1: "a"}, "(?s)(?=.*'str')(?=.*'x')"),
    (MAP, {1: 2.0, "a": 3.0}, "(?s)(?=.*'str')(?=.*'x')"),
    (MAP, {2**70: 2.0}, "(?s)(?=.*'int')(?=.*'x')"),
    (MAP, {1.5: 2.0}, "(?s)(?=.*'float')(?=.*'x')"),
    (MAP, {1: "2"}, "(?s)(?=.*'str')(?=.*'x')"),
    (MAP, {"a": None}, "(?s)(?=.*'NoneType')(?=.*'x')"),
    (MAP, {None: 2.0}, "(?s)(?=.*'NoneType')(?=.*'x')"),
]


@pytest.mark.parametrize(("data", "feed", "words"), INCONVERTIBLE)
def test_feed_that_cannot_be_converted_is_refused(load: Any, data: bytes, feed: Any, words: str | None) -> None:
    with pytest.raises(RuntimeError, match=words):
        load(data).run(None, {"x": feed})


def test_scalar_is_an_array_without_dimensions(load: Any) -> None:
    (z,) = load(SCALAR).run(None, {"x": np.array(1, np.float32)})
    assert isinstance(z, np.ndarray)
    assert (z.shape, z.dtype, float(z)) == ((), np.float32, 1)


def test_empty_arrays_pass(add: Any) -> None:
    empty = np.ones((0, 4), np.float32)
    (z,) = add.run(None, {"x": empty, "y": empty})
    assert (z.shape, z.dtype) == ((0, 4), np.float32)


def test_sequence_is_a_list(load: Any) -> None:
    sequences = load(SEQUENCE)
    count, elements = sequences.run(None, {"x": [LONGS, LONGS]})
    assert int(count) == 2
    assert type(elements) is list
    assert [each.tolist() for each in elements] == [[1, 1], [1, 1]]
    assert sequences.run(None, {"x": []})[1] == []


@pytest.fixture
def optional(load: Any) -> Any:
    body = "{ b = OptionalHasElement(o) p = Identity(o) }"
    return load(model(f"agraph (optional(float[n]) o) => (bool b, optional(float[n]) p) {body}"))


@pytest.mark.parametrize("feeds", [{}, {"o": None}])
def test_optional_may_be_absent(optional: Any, feeds: dict[str, Any]) -> None:
    there, content = optional.run(None, feeds)
    assert not there
    assert content is None


@pytest.mark.parametrize("feed", [LONGS, [1.0, 1.0]])
def test_optional_takes_its_content(optional: Any, state: Any, feed: Any) -> None:
    there, content = optional.run(None, {"o": feed})
    assert there
    assert content.tolist() == [1, 1]
    with pytest.raises(state.InvalidArgument, match=r"\(tensor\(double\)\) , expected: \(tensor\(float\)\)"):
        optional.run(None, {"o": LONGS.astype("f8")})


def test_result_of_maps_is_a_list_of_dicts(load: Any) -> None:
    (maps,) = load(models.zip_map()).run(None, {"x": np.ones((2, 2), np.float32)})
    assert maps == [{"a": 1.0, "b": 1.0}] * 2
    assert type(maps[0]["a"]) is float


def test_sparse_result_is_a_sparse_tensor(load: Any, state: Any) -> None:
    (tensor,) = load(models.sparse_constant()).run(None, {})
    assert isinstance(tensor, state.SparseTensor)
    assert tensor.values().tolist() == [1, 2]
    assert tensor.format == state.OrtSparseFormat.ORT_SPARSE_COO


@pytest.mark.parametrize(
    ("feed", "error"),
    [
        (np.array(["a", "\ud800"], object), UnicodeEncodeError),
        (["\ud800"], UnicodeEncodeError),
        (np.array([b"\xff"]), UnicodeDecodeError),
    ],
)
def test_text_that_is_no_utf8_raises_an_error_of_unicode(load: Any, refused: Any, feed: Any, error: Any) -> None:
    with refused(error, "input 'x'"):
        load(identity("string")).run(None, {"x": feed})


def test_result_of_float8_is_an_array_of_bytes(load: Any) -> None:
    text = "agraph (float[n] x) => (float8e4m3fn[n] z) { z = Cast<to = 17>(x) }"
    data = model(text).replace(b"\x10\x11", b"\x10\x13")
    (z,) = load(data).run(None, {"x": np.array([1, 2, 3], np.float32)})
    assert (z.dtype, z.tolist()) == (np.uint8, [56, 64, 68])


def test_output_that_is_an_input_is_a_copy(load: Any) -> None:
    session = load(model("agraph (float[n] x) => (float[n] x, float[n] y) { y = Identity(x) }"))
    x = np.ones(2, np.float32)
    first, second = session.run(None, {"x": x})
    first[0], second[0] = 8, 9
    assert x.tolist() == [1, 1]


def test_optional_output_that_is_an_input_is_the_callers(load: Any) -> None:
    """Also where the feed is a list."""
    session = load(
        model("agraph (optional(float[n]) x) => (bool b, optional(float[n]) x) { b = OptionalHasElement(x) }")
    )
    there, content = session.run(None, {"x": [1.0, 1.0]})
    content[0] = 8
    assert there
    assert content.tolist() == [8, 1]


def test_number_in_a_map_that_is_too_large_is_infinite(load: Any) -> None:
    (row,) = load(models.vectorizer()).run(None, {"x": {1: 1e300, 2: -1e300}})
    assert row.ravel().tolist() == [np.inf, -np.inf, 0]


def test_error_of_a_value_in_a_map_says_a_number_is_needed() -> None:
    session = zrt.onnxruntime.InferenceSession(models.vectorizer())
    with pytest.raises(RuntimeError, match="input 'x': a value of type <class 'str'> is no float"):
        session.run(None, {"x": {1: "2"}})


def test_initializer_may_be_overridden(load: Any, state: Any) -> None:
    session = load(model("agraph (float[2] x, float[2] w) => (float[2] z) <float[2] w = {5, 6}> { z = Add(x, w) }"))
    assert [each.name for each in session.get_inputs()] == ["x"]
    assert [each.name for each in session.get_overridable_initializers()] == ["w"]
    assert session.run(None, {"x": LONGS})[0].tolist() == [6, 7]
    assert session.run(None, {"x": LONGS, "w": LONGS})[0].tolist() == [2, 2]
    with pytest.raises(state.InvalidArgument, match=r"\(tensor\(double\)\) , expected: \(tensor\(float\)\)"):
        session.run(None, {"x": LONGS, "w": LONGS.astype("f8")})


def test_model_without_inputs_runs(load: Any) -> None:
    session = load(model("agraph () => (float z) { z = Constant<value_float = 1.0>() }"))
    assert float(session.run(None, {})[0]) == 1


@pytest.mark.parametrize("seed", [1, 2])
def test_random_feeds_return_or_raise(script: Any, seed: int) -> None:
    script("random_feeds.py", seed, 3000)
