"""Strings as values: any UTF-8, any shape, unchanged through a model."""

import asyncio

import numpy as np
import onnx
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from onnx import TensorProto, helper

import zrt
from tests.support import models
from tests.support.bindings import bind
from zrt.errors import ArgumentError, DTypeError, ShapeError, UnsupportedError
from zrt.types import ElementType, ValueKind

# All characters but surrogates, which UTF-8 cannot encode; NULs are frequent.
TEXT = st.text(st.characters(exclude_categories=["Cs"]) | st.just("\0"), max_size=8)
SHAPES = hnp.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=4)


@st.composite
def texts(draw: st.DrawFn) -> np.ndarray:
    shape = draw(SHAPES)
    count = int(np.prod(shape))
    array = np.empty(count, object)
    array[:] = draw(st.lists(TEXT, min_size=count, max_size=count))
    return array.reshape(shape)


@pytest.fixture(scope="module")
def session(load) -> zrt.Session:
    """A session with the outputs x, which is its input, and y, a copy of it."""
    return load("(string[] x) => (string[] y, string[] x) { y = Identity(x) }")


def test_shape_that_numpy_has_not_raises():
    value = zrt.Value.from_strings([], (0, 2**40, 2**40))
    assert value.strings() == []
    with pytest.raises(ShapeError, match="numpy has no such array"):
        value.numpy()


class TestRoundTrip:
    @given(array=texts())
    def test_through_a_model(self, session, array):
        feeds = [array, zrt.Value.from_strings(array)]
        # A nested list cannot express every shape without elements.
        for feed in (*feeds, array.tolist()) if array.size else feeds:
            for result in session.run([feed]):
                assert result.dtype == object
                assert result.shape == array.shape
                assert result.tolist() == array.tolist()

    @given(array=texts())
    def test_without_a_model(self, array):
        value = zrt.Value.from_strings(array)
        assert (value.kind, value.element_type, value.shape) == (ValueKind.TENSOR, ElementType.STRING, array.shape)
        assert value.nbytes == sum(len(text.encode()) for text in array.reshape(-1))
        assert value.strings() == array.reshape(-1).tolist()
        assert value.numpy().shape == array.shape

    @given(array=texts().map(lambda array: array.astype("U")))
    def test_numpys_fixed_width_type(self, session, array):
        assert session.run([array.astype(array.dtype.newbyteorder())])[0].tolist() == array.tolist()
        assert session.run([array])[0].tolist() == array.tolist()
        assert session.run([array.T])[0].tolist() == array.T.tolist()

    @pytest.mark.skipif(not hasattr(np.dtypes, "StringDType"), reason="numpy has no StringDType")
    @given(array=texts())
    def test_numpys_variable_width_type(self, session, array):
        assert session.run([array.astype(np.dtypes.StringDType())])[0].tolist() == array.tolist()

    def test_many_strings(self, session):
        many = [f"{number} ☃" for number in range(20_000)]
        assert session.run([many])[0].tolist() == many

    @pytest.mark.parametrize(
        "array",
        [
            np.array(["a", "жук", "☃\0", "🐞"], object),
            np.array(["a", "жук", "☃", "🐞"]),
            np.array(["a", "жук", "☃", "🐞"]).astype(">U3"),
            np.array([b"a", b"bc", b"", b"\xc3\xa4"]),
            np.array(["жук".encode(), b"a\0b", b"", "c"], object),
            np.array(["a", "b", "c", "d", "e", "f", "g", "h"], object)[::2],
            np.array(["a", "b", "c", "d", "e", "f", "g", "h"])[::2],
            ["a", "b", "c", "d"],
        ],
        ids=[
            "objects",
            "fixed width",
            "byte-swapped",
            "bytes",
            "objects of bytes",
            "strided objects",
            "strided",
            "list",
        ],
    )
    def test_every_kind_of_array_in_turn(self, session, array):
        """The second run takes the path of known shapes."""
        expected = [text.decode() if isinstance(text, bytes) else str(text) for text in array]
        for _ in range(3):
            assert session.run({"x": array}, ["y"])[0].tolist() == expected
            assert session.run({"x": np.array(["1", "2", "3", "4"], object)}, ["y"])[0].tolist() == ["1", "2", "3", "4"]

    @pytest.mark.parametrize(
        ("wrong", "error", "message"),
        [
            (np.array(["a", "\ud800"], object), ArgumentError, r"input 'x': string 1, '\\ud800', is no UTF-8"),
            (np.array(["a", "\ud800"]), ArgumentError, r"input 'x': string 1, '\\ud800', is no UTF-8"),
            (np.array([b"a", b"\xff"]), ArgumentError, r"input 'x': string 1, b'\\xff', is no UTF-8"),
            (np.array([b"a", b"\xff"], object), ArgumentError, r"input 'x': string 1, b'\\xff', is no UTF-8"),
            (np.array(["a", None], object), DTypeError, "input 'x': element 1: expected a str or bytes, got NoneType"),
            (np.array(["a", 1], object), DTypeError, "input 'x': element 1: expected a str or bytes, got int"),
            (np.zeros(2), DTypeError, "input 'x': expected strings, got float64"),
            (np.zeros(2, [("a", "U1"), ("b", "O")]), DTypeError, "input 'x': expected strings"),
            ([1.5], DTypeError, "input 'x': element 0: expected a str or bytes, got float"),
            ([["a"]], ShapeError, r"input 'x': expected shape \[n\], got \[1, 1\]"),
            (zrt.Value.from_array(np.zeros(2)), DTypeError, "input 'x': expected string, got float64"),
        ],
    )
    def test_wrong_feeds_after_a_good_run(self, load, wrong, error, message):
        session = load("(string[n] x) => (string[n] y) { y = Identity(x) }")
        for _ in range(2):
            assert session.run([np.array(["a", "b"], object)])[0].tolist() == ["a", "b"]
            with pytest.raises(error, match=message):
                session.run([wrong])

    def test_all_ways_to_run(self, session):
        array = np.array(["a", "жук"], object)
        for _ in range(3):
            assert session.run([array], timeout=60)[0].tolist() == ["a", "жук"]
            assert session.run([array], None, zrt.RunOptions())[0].tolist() == ["a", "жук"]
            assert session.submit([array]).result()[0].tolist() == ["a", "жук"]
            assert asyncio.run(session.run_async([array]))[0].tolist() == ["a", "жук"]

    def test_subclasses_of_str_are_read_as_they_are(self, session):
        class Odd(str):
            def __str__(self):
                return "other"

            def encode(self, *arguments):
                return b"other"

        class OddBytes(bytes):
            def __len__(self):
                return 1000

        array = np.array([Odd("a"), OddBytes(b"b")], object)
        for _ in range(2):
            assert session.run([array])[0].tolist() == ["a", "b"]

    def test_strings_and_numbers_together(self, load):
        session = load("(string[n] x, int64[i] i) => (string[i] y) { y = Gather (x, i) }")
        for names in (["a", "b"], ["c", "d"]):
            feeds = {"x": np.array(names), "i": np.array([1, 0, 1])}
            assert session.run(feeds)[0].tolist() == [names[1], names[0], names[1]]
            assert session.run([feeds["x"], feeds["i"]])[0].tolist() == [names[1], names[0], names[1]]

    def test_prepared_run_and_io_binding(self, session):
        value = zrt.Value.from_strings(["a", "b"])
        assert session.prepare([value]).run()[0].tolist() == ["a", "b"]
        binding = bind(session, {"x": value}, "y")
        binding.run()
        assert binding.outputs()["y"].strings() == ["a", "b"]
        assert binding.numpy()["y"].tolist() == ["a", "b"]

    def test_results_belong_to_the_caller(self, session):
        _, passed = session.run([["a"]])
        passed[0] = "changed"
        assert session.run([["a"]])[1].tolist() == ["a"]


class TestValue:
    def test_given_shape_replaces_the_found_one(self):
        value = zrt.Value.from_strings(["a", "b", "c", "d"], (2, 2))
        assert value.numpy().tolist() == [["a", "b"], ["c", "d"]]
        assert zrt.Value.from_strings([], (3, 0, 2)).numpy().shape == (3, 0, 2)
        assert zrt.Value.from_strings("alone").numpy()[()] == "alone"

    def test_value_outlives_its_source_and_its_session(self, load):
        session = load("(int64[n] x) => (string[n] y) { y = Cast <to = 8> (x) }")
        binding = bind(session, {"x": np.array([1, 22])}, "y")
        binding.run()
        value = binding.outputs()["y"]
        session.close()
        binding.close()
        assert value.strings() == ["1", "22"]

    def test_bytes_that_are_no_utf8_become_surrogate_escapes(self):
        model = models.build([models.node("Identity", ["c"], ["y"])], [], [models.tensor("y", TensorProto.STRING, [2])])
        proto = onnx.load_model_from_string(model)
        proto.graph.initializer.append(helper.make_tensor("c", TensorProto.STRING, [2], [b"\xff\xfe", "ж".encode()]))
        (result,) = zrt.infer(proto, {})
        assert result.tolist() == ["\udcff\udcfe", "ж"]
        assert result[0].encode(errors="surrogateescape") == b"\xff\xfe"


class TestRefusedFeeds:
    def test_array_of_strings_cannot_be_borrowed(self, session):
        for borrow in (lambda x: session.prepare([x]), lambda x: session.binding().bind_input("x", x)):
            with pytest.raises(UnsupportedError, match="input 'x' holds strings"):
                borrow(np.array(["a"]))

    def test_lanes_refuse_strings(self, session):
        with pytest.raises(UnsupportedError, match="input 'x' holds strings"):
            session.lane([(1,)])
