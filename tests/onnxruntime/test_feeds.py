"""Feeds and results of `InferenceSession.run`: conversions and refusals as those of the official package."""

from __future__ import annotations

import collections
import gc
import re
import types
import weakref
from typing import Any

import numpy as np
import pytest

from tests.onnxruntime import models
from tests.onnxruntime.models import identity, model

ONES = np.ones((1, 4), np.float32)
LONGS = np.ones(2, np.float32)


@pytest.fixture
def add(load: Any) -> Any:
    return load(model())


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
def test_feed_is_converted(add: Any, name: str) -> None:
    for _ in range(2):
        (z,) = add.run(None, {"x": CONVERTED[name], "y": ONES})
        assert z.dtype == np.float32
        assert z.tolist() == [[2, 2, 2, 2]]


@pytest.mark.parametrize("name", CONVERTED)
def test_forms_of_feeds_may_change_from_run_to_run(add: Any, ort: Any, name: str) -> None:
    of_ort = ort.OrtValue.ortvalue_from_numpy(ONES)
    for feed in (ONES, CONVERTED[name], of_ort, CONVERTED[name], ONES, of_ort, ONES):
        (z,) = add.run(None, {"x": feed, "y": ONES})
        assert z.tolist() == [[2, 2, 2, 2]]


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
    "complex": (ONES.astype("c8"), "RuntimeError", "Numpy_type 14 can't be converted to MLDataType."),
    "dates": (ONES.astype("M8[s]"), "RuntimeError", "Numpy_type 21 can't be converted to MLDataType."),
}


@pytest.mark.parametrize("name", REFUSED)
def test_feed_is_refused_in_the_same_words(add: Any, state: Any, name: str) -> None:
    feed, kind, words = REFUSED[name]
    error = getattr(state, kind, RuntimeError)
    with pytest.raises(error, match=re.escape(words)) as caught:
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
    assert z.tolist() == [[2, 2, 2, 2]]


@pytest.mark.parametrize(
    "make",
    [
        types.MappingProxyType,
        collections.OrderedDict,
        lambda feeds: collections.defaultdict(list, feeds),
        collections.UserDict,
    ],
)
def test_feeds_may_be_another_mapping(add: Any, make: Any) -> None:
    assert add.run(None, make({"x": ONES, "y": ONES}))[0].tolist() == [[2, 2, 2, 2]]


@pytest.mark.parametrize("feeds", [[ONES, ONES], (ONES, ONES), None, ONES])
def test_feeds_that_are_no_mapping_are_refused(add: Any, feeds: Any) -> None:
    with pytest.raises(AttributeError, match="has no attribute 'keys'"):
        add.run(None, feeds)


def test_feed_of_unknown_name_is_refused(add: Any, state: Any) -> None:
    message = "[ONNXRuntimeError] : 2 : INVALID_ARGUMENT : Invalid input name: q"
    with pytest.raises(state.InvalidArgument, match=f"^{re.escape(message)}$"):
        add.run(None, {"x": ONES, "y": ONES, "q": ONES})
    with pytest.raises(TypeError, match=r"^run\(\): incompatible function arguments"):
        add.run(None, {"x": ONES, "y": ONES, 1: ONES})


def test_ort_value_is_a_feed(ort: Any, add: Any) -> None:
    value = ort.OrtValue.ortvalue_from_numpy(ONES)
    assert add.run(None, {"x": value, "y": ONES})[0].tolist() == [[2, 2, 2, 2]]


@pytest.mark.parametrize(
    ("feed", "expected"),
    [
        ([1, 2], [1, 2]),
        ([1.0, 2.7], [1, 2]),
        ([True, False], [1, 0]),
        (np.array([1, 2]), [1, 2]),
    ],
)
def test_list_is_converted_to_int64(load: Any, feed: Any, expected: list[int]) -> None:
    (z,) = load(identity("int64")).run(None, {"x": feed})
    assert z.dtype == np.int64
    assert z.tolist() == expected


@pytest.mark.parametrize("feed", [["a"], [2**70], [None]])
def test_list_that_is_no_int64_is_refused(load: Any, feed: Any) -> None:
    with pytest.raises(RuntimeError, match=r"^Could not create tensor from given input list$"):
        load(identity("int64")).run(None, {"x": feed})


@pytest.mark.parametrize("feed", [[True, False], [1, 0], np.array([True, False])])
def test_list_is_converted_to_bool(load: Any, feed: Any) -> None:
    (z,) = load(identity("bool")).run(None, {"x": feed})
    assert z.dtype == np.bool_
    assert z.tolist() == [True, False]


def test_uint8_is_no_bool(load: Any, state: Any) -> None:
    with pytest.raises(state.InvalidArgument, match=r"\(tensor\(uint8\)\) , expected: \(tensor\(bool\)\)"):
        load(identity("bool")).run(None, {"x": np.ones(1, np.uint8)})


@pytest.mark.parametrize(
    ("feed", "expected"),
    [
        (["a", "b"], ["a", "b"]),
        (["a", 1], ["a", "1"]),
        (np.array(["a", "bé"]), ["a", "bé"]),
        (np.array(["a", "b"])[::-1], ["b", "a"]),
        (np.array(["a", 1.5], object), ["a", "1.5"]),
        (np.array(["a", None], object), ["a", "None"]),
    ],
)
def test_texts_are_converted(load: Any, feed: Any, expected: list[str]) -> None:
    (z,) = load(identity("string")).run(None, {"x": feed})
    assert z.dtype == object
    assert z.tolist() == expected
    assert all(type(text) is str for text in z)


def test_text_alone_is_no_feed(load: Any, state: Any) -> None:
    session = load(identity("string"))
    with pytest.raises(RuntimeError, match="Input must be a list of dictionaries"):
        session.run(None, {"x": "a"})
    with pytest.raises(state.InvalidArgument, match="Invalid rank for input: x Got: 0 Expected: 1"):
        session.run(None, {"x": np.array("a")})
    with pytest.raises(state.InvalidArgument, match=r"\(tensor\(int64\)\) , expected: \(tensor\(string\)\)"):
        session.run(None, {"x": np.array([1, 2])})


def test_scalar_is_an_array_without_dimensions(load: Any) -> None:
    session = load(identity("float", ""))
    (z,) = session.run(None, {"x": np.array(1, np.float32)})
    assert isinstance(z, np.ndarray)
    assert (z.shape, z.dtype, float(z)) == ((), np.float32, 1)
    with pytest.raises(RuntimeError, match=r"^Unable to handle object of type <class 'float'>$"):
        session.run(None, {"x": 1.0})


def test_empty_arrays_pass(add: Any) -> None:
    empty = np.ones((0, 4), np.float32)
    (z,) = add.run(None, {"x": empty, "y": empty})
    assert (z.shape, z.dtype) == ((0, 4), np.float32)


@pytest.fixture
def sequences(load: Any) -> Any:
    return load(
        model("agraph (seq(float[n]) s) => (int64 n, seq(float[n]) t) { n = SequenceLength(s) t = Identity(s) }")
    )


def test_sequence_is_a_list(sequences: Any) -> None:
    count, found = sequences.run(None, {"s": [LONGS, LONGS]})
    assert int(count) == 2
    assert type(found) is list
    assert [each.tolist() for each in found] == [[1, 1], [1, 1]]
    assert sequences.run(None, {"s": []})[1] == []


@pytest.mark.parametrize("feed", [[1.0, 2.0], [[1.0, 2.0]], [LONGS, None]])
def test_sequence_of_other_than_arrays_is_refused(sequences: Any, feed: Any) -> None:
    with pytest.raises(RuntimeError, match=r"^CreateSequenceOfTensors: Input is not a tensor$"):
        sequences.run(None, {"s": feed})


def test_sequence_of_another_type_is_refused(sequences: Any, state: Any) -> None:
    with pytest.raises(RuntimeError):
        sequences.run(None, {"s": [LONGS.astype("f8")]})
    with pytest.raises(state.InvalidArgument, match="but received a tensor"):
        sequences.run(None, {"s": LONGS})


@pytest.fixture
def optional(load: Any) -> Any:
    body = "{ b = OptionalHasElement(o) p = Identity(o) }"
    return load(model(f"agraph (optional(float[n]) o) => (bool b, optional(float[n]) p) {body}"))


@pytest.mark.parametrize("feeds", [{}, {"o": None}])
def test_optional_may_be_absent(optional: Any, feeds: dict[str, Any]) -> None:
    there, found = optional.run(None, feeds)
    assert not there
    assert found is None


@pytest.mark.parametrize("feed", [LONGS, [1.0, 1.0]])
def test_optional_takes_its_content(optional: Any, state: Any, feed: Any) -> None:
    there, found = optional.run(None, {"o": feed})
    assert there
    assert found.tolist() == [1, 1]
    with pytest.raises(state.InvalidArgument, match=r"\(tensor\(double\)\) , expected: \(tensor\(float\)\)"):
        optional.run(None, {"o": LONGS.astype("f8")})


@pytest.mark.parametrize("feed", [{1: 2.0, 3: 4.0}, {1: 2, 3: 4}, {np.int64(1): np.float32(2), 3: 4.0}])
def test_map_is_a_dict(load: Any, feed: Any) -> None:
    assert load(models.vectorizer()).run(None, {"x": feed})[0].tolist() == [[2, 0, 4]]


def test_map_of_another_type_is_refused(load: Any, state: Any) -> None:
    session = load(models.vectorizer())
    words = "((map(string,tensor(float)))) , expected: ((map(int64,tensor(float))))"
    with pytest.raises(state.InvalidArgument, match=re.escape(words)):
        session.run(None, {"x": {"a": 1.0}})
    words = "((seq(map(int64,tensor(float))))) , expected: ((map(int64,tensor(float))))"
    with pytest.raises(state.InvalidArgument, match=re.escape(words)):
        session.run(None, {"x": ({1: 2.0},)})
    for feed in ({1: "a"}, {1.5: 2.0}, [{1: 2.0}]):
        with pytest.raises(RuntimeError):
            session.run(None, {"x": feed})


KEY = "Unexpected key type  <class '{}'>, it cannot be linked to C type int64_t"
VALUE = "Unexpected value type  <class '{}'>, it cannot be linked to C type {}"


@pytest.mark.parametrize(
    ("feed", "words"),
    [
        ({1: 2.0, "a": 3.0}, KEY.format("str")),
        ({2**70: 2.0}, KEY.format("int")),
        ({1.5: 2.0}, KEY.format("float")),
        ({1: "2"}, VALUE.format("str", "int64_t")),
        ({"a": None}, VALUE.format("NoneType", "string")),
        ({None: 2.0}, "Key type must be int or string (not <class 'NoneType'>)"),
    ],
)
def test_map_of_mixed_types_is_refused(load: Any, feed: Any, words: str) -> None:
    with pytest.raises(RuntimeError, match=f"^{re.escape(words)} for input 'x'.$"):
        load(models.vectorizer()).run(None, {"x": feed})


def test_map_takes_bools(load: Any) -> None:
    assert load(models.vectorizer()).run(None, {"x": {True: True}})[0].tolist() == [[1, 0, 0]]


def test_void_array_holds_texts_with_their_zeros(load: Any) -> None:
    session = load(identity("string"))
    (y,) = session.run(None, {"x": np.array([b"a\0", b"bc"], np.void)})
    assert y.tolist() == ["a\0", "bc"]


def test_result_of_maps_is_a_list_of_dicts(load: Any) -> None:
    (found,) = load(models.zip_map()).run(None, {"x": np.ones((2, 2), np.float32)})
    assert found == [{"a": 1.0, "b": 1.0}] * 2
    assert type(found[0]["a"]) is float


def test_sparse_result_is_a_sparse_tensor(load: Any, state: Any) -> None:
    (found,) = load(models.sparse_constant()).run(None, {})
    assert isinstance(found, state.SparseTensor)
    assert found.values().tolist() == [1, 2]


@pytest.mark.parametrize(
    ("element", "dtype"), [("float16", np.float16), ("double", np.float64), ("uint64", np.uint64), ("bool", np.bool_)]
)
def test_result_has_the_dtype_of_its_element_type(load: Any, element: str, dtype: Any) -> None:
    (z,) = load(identity(element)).run(None, {"x": np.ones(3, dtype)})
    assert (z.dtype, z.tolist()) == (dtype, [1, 1, 1])


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
