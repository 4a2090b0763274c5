"""Sequences and maps as values: from lists and dicts, and back to them."""

import gc
import subprocess
import sys
import threading
import weakref
from concurrent.futures import ThreadPoolExecutor

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from onnx import TensorProto, helper

import zrt
from tests.support import models, processes
from tests.support.bindings import bind
from zrt.errors import ArgumentError, DTypeError, UnsupportedError
from zrt.types import ElementType, ValueKind, pack

X = np.ones(1, np.float32)
# Element types of which ORT has sequences of tensors, also empty ones.
KINDS = [
    kind
    for kind in ElementType
    if kind.value <= ElementType.BFLOAT16 and not kind.refused and kind is not ElementType.STRING
]
SHAPES = hnp.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=4)
TEXT = st.text(st.characters(exclude_categories=["Cs"]) | st.just("\0"), max_size=6)
INT64 = st.integers(-(2**63), 2**63 - 1)
COLUMNS = {
    ElementType.STRING: TEXT,
    ElementType.INT64: INT64,
    ElementType.FLOAT: st.floats(width=32, allow_nan=False),
    ElementType.DOUBLE: st.floats(allow_nan=False),
}
MAPS = [(key, value) for key in (ElementType.STRING, ElementType.INT64) for value in COLUMNS]


def tensor_type(kind: ElementType):
    return helper.make_tensor_type_proto(kind.onnx_code, None)


def map_type(key: ElementType, value: ElementType):
    return helper.make_map_type_proto(key, helper.make_tensor_type_proto(value, []))


_sessions: dict[bytes, zrt.Session] = {}


def passing(kind) -> zrt.Session:
    """A session whose output is its input."""
    key = kind.SerializeToString()
    if key not in _sessions:
        _sessions[key] = zrt.Session(
            models.passing(kind), zrt.SessionOptions(intra_op_num_threads=1, log_severity_level="FATAL")
        )
    return _sessions[key]


@st.composite
def tensors(draw: st.DrawFn, kind: ElementType) -> np.ndarray:
    """Tensors of arbitrary bits, so that NaNs must be preserved as well."""
    shape = draw(SHAPES)
    if kind is ElementType.BOOL:
        return draw(hnp.arrays(np.bool_, shape))
    raw = draw(hnp.arrays(f"u{kind.bits // 8}", shape))
    return raw.view(kind.dtype) if raw.size else raw.astype(kind.dtype)


def same(left: list, right: list) -> bool:
    return [(a.dtype, a.shape, a.tobytes()) for a in left] == [(b.dtype, b.shape, b.tobytes()) for b in right]


class TestSequencesOfTensors:
    @pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
    @settings(max_examples=25)
    @given(data=st.data())
    def test_through_a_model(self, kind, data):
        given = data.draw(st.lists(tensors(kind), max_size=4))
        session = passing(helper.make_sequence_type_proto(tensor_type(kind)))
        for feed in (given, tuple(given), zrt.Value.from_sequence(given, kind)):
            result, _ = session.run([feed, X])
            assert type(result) is list
            assert same(result, given)

    def test_strings_by_name(self):
        assert zrt.Value.from_sequence([], "string").element_type is ElementType.STRING
        assert zrt.Value.from_sequence([["a"], ["b"]], "string").to_list() == [["a"], ["b"]]
        assert zrt.Value.from_map({"a": "b"}, "string", "string").to_dict() == {"a": "b"}
        assert zrt.Value.from_sequence([{"a": 1.0}], "float32", "string").to_list() == [{"a": 1.0}]

    @given(given=st.lists(st.lists(TEXT, max_size=3), max_size=4))
    def test_strings(self, given):
        session = passing(helper.make_sequence_type_proto(tensor_type(ElementType.STRING)))
        result, _ = session.run([given, X])
        assert [array.tolist() for array in result] == given

    @given(given=st.lists(hnp.arrays(np.float32, SHAPES), max_size=4), more=hnp.arrays(np.float32, SHAPES))
    def test_model_that_computes_a_sequence(self, load, given, more):
        session = load(
            "(seq(float[]) s, float[] t) => (seq(float[]) longer, int64 length) "
            "{ longer = SequenceInsert(s, t)  length = SequenceLength(longer) }"
        )
        longer, length = session.run([given, more])
        assert same(longer, [*given, more])
        assert length == len(given) + 1

    def test_arrays_are_borrowed(self):
        array = np.zeros(2, np.float32)
        value = zrt.Value.from_sequence([array])
        array[0] = 5
        assert value.to_list()[0].tolist() == [5, 0]

    def test_sequence_and_its_elements_keep_their_memory(self):
        array = np.arange(1000, dtype=np.float32).copy()
        tracked = zrt.Value.from_array(array)
        value = zrt.Value.from_sequence([tracked, zrt.Buffer((3,), np.float32)])
        tracked.close()
        gone = weakref.ref(array)
        del array, tracked
        gc.collect()
        assert gone() is not None
        elements = value.elements()
        value.close()
        del value
        gc.collect()
        assert gone() is None
        junk = [np.full(1000, 7, np.float32) for _ in range(20)]
        assert elements[0].numpy().tolist() == list(range(1000))
        view = elements[0].numpy()
        elements[0].close()
        assert view[999] == 999
        del junk

    def test_result_keeps_tensors_that_it_shares_with_the_feed(self, load):
        # SequenceInsert shares the tensors of its input.
        session = load("(seq(float[]) s, float[] t) => (seq(float[]) u) { u = SequenceInsert(s, t) }")
        array = np.arange(500, dtype=np.float32).copy()
        gone = weakref.ref(array)
        binding = bind(session, {"s": zrt.Value.from_sequence([array]), "t": X}, "u")
        binding.run()
        value = binding.outputs()["u"]
        binding.close()
        session.close()
        del array, binding, session
        gc.collect()
        junk = [np.full(500, 7, np.float32) for _ in range(20)]
        assert gone() is not None
        assert value.to_list()[0].tolist() == list(range(500))
        del junk

    def test_empty_sequences_are_independent(self):
        first, second = (zrt.Value.from_sequence([], "float32") for _ in range(2))
        first.close()
        assert second.to_list() == []

    @pytest.mark.parametrize(
        ("given", "kind", "error", "message"),
        [
            ([X], "float64", DTypeError, "element 0: expected a tensor of float64, got a tensor of float32"),
            ([np.zeros(2, ml_dtypes.int4)], None, DTypeError, "element 0: ONNX Runtime packs INT4"),
            (
                [zrt.Value.from_packed(pack(np.zeros(2, ml_dtypes.int4), "int4"), "int4", (2,))],
                None,
                UnsupportedError,
                "cannot read back sequences of int4",
            ),
            ([{"a": 1.5}], "float64", UnsupportedError, r"no sequence of a map\(string, float64\)"),
        ],
    )
    def test_refused(self, given, kind, error, message):
        with pytest.raises(error, match=message):
            zrt.Value.from_sequence(given, kind)

    @pytest.mark.parametrize("other", [np.ones(2), np.ones(2, np.int32), {"a": 1.0}], ids=["float64", "int32", "map"])
    def test_elements_of_other_types_are_refused(self, other):
        with pytest.raises(DTypeError, match="element 1: expected a tensor of float32"):
            zrt.Value.from_sequence([X, other])

    def test_element_without_an_array(self):
        model = "(float[2] x, int64[65] s) => (seq(float[]) y) { z = Reshape(x, s) y = SequenceConstruct(z) }"
        session = zrt.Session(models.parse(model))
        feeds = {"x": np.ones(2, np.float32), "s": np.array([1] * 64 + [2])}
        with pytest.raises(UnsupportedError, match="numpy has no array of 65 dimensions"):
            session.run(feeds)
        (value,) = session.run_values({name: zrt.Value.from_array(feed) for name, feed in feeds.items()})
        with pytest.raises(UnsupportedError, match="numpy has no array of 65 dimensions"):
            value.to_list()

    def test_process_without_a_session(self):
        code = (
            "import numpy as np, zrt\n"
            "print(zrt.Value.from_sequence([np.ones(1, np.float32)]).to_list()[0].tolist())\n"
            "print(zrt.Value.from_sequence([['a']], 'string').to_list()[0].tolist())"
        )
        done = subprocess.run(
            [sys.executable, "-c", code], env=processes.environment(), capture_output=True, text=True, check=False
        )
        assert (done.stdout, done.stderr, done.returncode) == ("[1.0]\n['a']\n", "", 0)

    @pytest.mark.parametrize("element", [{"a": 1.5}, X], ids=["maps", "tensors"])
    def test_list_is_whole_for_every_thread(self, element):
        """The garbage collector shows it to other threads before it is returned."""
        value, ended = zrt.Value.from_sequence([element] * 300, "float32"), threading.Event()

        def look() -> int:
            seen = 0
            while not ended.is_set():
                for each in gc.get_objects():
                    if type(each) is list and len(each) == 300:
                        seen += each[-1] is not None
            return seen

        with ThreadPoolExecutor(1) as pool:
            looking = pool.submit(look)
            for _ in range(100):
                assert len(value.to_list()) == 300
            ended.set()
            looking.result()

    def test_threads_read_one_sequence(self):
        value = zrt.Value.from_sequence([np.full(3, number, np.float32) for number in range(200)])
        with ThreadPoolExecutor(8) as pool:
            lists = [each.result() for each in [pool.submit(value.to_list) for _ in range(40)]]
        assert all([array[0] for array in each] == list(range(200)) for each in lists)

    def test_tensors_in_a_sequence_of_maps_are_refused(self):
        with pytest.raises(DTypeError, match=r"expected a map\(int64, float32\), got a tensor of float32"):
            zrt.Value.from_sequence([X], "float32", "int64")

    def test_float8(self):
        array = np.arange(4).astype(ml_dtypes.float8_e4m3fn)
        assert same(zrt.Value.from_sequence([array]).to_list(), [array])


class TestMaps:
    @pytest.mark.parametrize(("key", "value"), MAPS, ids=lambda kind: kind.name)
    @settings(max_examples=25)
    @given(data=st.data())
    def test_through_a_model(self, key, value, data):
        given = data.draw(st.dictionaries(COLUMNS[key], COLUMNS[value], max_size=5))
        session = passing(map_type(key, value))
        for feed in (given, zrt.Value.from_map(given, key, value)):
            assert session.run([feed, X])[0] == given

    def test_model_that_reads_a_map(self):
        model = models.build(
            [helper.make_node("DictVectorizer", ["v"], ["y"], domain="ai.onnx.ml", string_vocabulary=["a", "b", "c"])],
            [helper.make_value_info("v", map_type(ElementType.STRING, ElementType.FLOAT))],
            [models.tensor("y", TensorProto.FLOAT, None)],
            domains={"ai.onnx.ml": 1},
        )
        assert zrt.infer(model, [{"c": 3, "a": 1.5}])[0].tolist() == [[1.5, 0, 3]]

    @given(given=st.lists(st.dictionaries(INT64, COLUMNS[ElementType.FLOAT], max_size=3), max_size=3))
    def test_maps_in_sequences(self, given):
        session = passing(helper.make_sequence_type_proto(map_type(ElementType.INT64, ElementType.FLOAT)))
        assert session.run([given, X])[0] == given

    @given(given=st.lists(st.dictionaries(TEXT, COLUMNS[ElementType.FLOAT], max_size=3), max_size=3))
    def test_maps_of_strings_in_sequences(self, given):
        value = zrt.Value.from_sequence(given, "float32", "str")
        assert (value.kind, value.key_type, value.element_type) == (
            ValueKind.SEQUENCE,
            ElementType.STRING,
            ElementType.FLOAT,
        )
        assert value.to_list() == given

    @pytest.mark.parametrize("element", [{"a": 1.5, "b": 2.5}, X], ids=["maps", "tensors"])
    def test_reading_leaks_no_objects(self, element):
        value = zrt.Value.from_sequence([element] * 100, "float32")
        value.to_list()
        before = sys.getallocatedblocks()
        for _ in range(50):
            value.to_list()
        assert sys.getallocatedblocks() - before < 25

    def test_model_that_creates_maps(self):
        model = models.build(
            [helper.make_node("ZipMap", ["x"], ["z"], domain="ai.onnx.ml", classlabels_strings=["cat", "dog"])],
            [models.tensor("x", TensorProto.FLOAT, ["n", 2])],
            [
                helper.make_value_info(
                    "z", helper.make_sequence_type_proto(map_type(ElementType.STRING, ElementType.FLOAT))
                )
            ],
            domains={"ai.onnx.ml": 1},
        )
        (scores,) = zrt.infer(model, [np.array([[0.25, 0.75], [1, 0]], np.float32)])
        assert scores == [{"cat": 0.25, "dog": 0.75}, {"cat": 1, "dog": 0}]

    def test_types_are_inferred_as_by_numpy(self):
        for entries, key, value in (
            ({"a": 1}, "STRING", "INT64"),
            ({1: "b"}, "INT64", "STRING"),
            ({np.int64(1): 1.5}, "INT64", "DOUBLE"),
            ({"a": np.float32(1)}, "STRING", "FLOAT"),
            ({"a": 1, "b": 2.5}, "STRING", "DOUBLE"),
        ):
            mapped = zrt.Value.from_map(entries)
            assert (mapped.kind, mapped.key_type.name, mapped.element_type.name) == (ValueKind.MAP, key, value)
            assert mapped.to_dict() == entries

    def test_elements_of_a_map_are_its_keys_and_values(self):
        keys, values = zrt.Value.from_map({"b": 1, "a": 2}).elements()
        assert (keys.strings(), values.numpy().tolist()) == (["a", "b"], [2, 1])

    @pytest.mark.parametrize(
        ("given", "types", "error", "message"),
        [
            ({True: 1}, (None, None), UnsupportedError, "map, keys: .* no map of bool"),
            ({"a": np.int32(1)}, (None, None), UnsupportedError, "map, values: .* no map of int32"),
            ({1: 1, "a": 3}, (None, None), DTypeError, "map, keys: expected strings, or numbers .* of one kind"),
            ({"a": [1, 2]}, (None, None), DTypeError, "map, values: expected int64, got list"),
            ({"a": "b"}, (None, "float32"), DTypeError, "map, values: expected float32, got str 'b'"),
            ({"a": 1.5}, (None, "int64"), DTypeError, "map, values: expected int64, got float 1.5"),
            ({"a": True}, (None, "int64"), DTypeError, "map, values: expected int64, got bool True"),
            ({"a": 2**63}, (None, "int64"), ArgumentError, "map, values"),
            ({"a": np.uint64(2**63)}, (None, "int64"), ArgumentError, "map, values"),
            ({np.uint64(2**63): 1.5}, ("int64", None), ArgumentError, "map, keys"),
            ({"a": 1e300}, (None, "float32"), ArgumentError, r"map, values: 1e\+300 is too large for float32"),
            ({"a": np.inf, "b": -4e38}, (None, "float32"), ArgumentError, r"map, values: -4e\+38"),
            ({"a": np.longdouble("1e400")}, (None, "float64"), ArgumentError, r"map, values: .*1e\+400.* is too large"),
            ({"a": None}, (None, None), Exception, "map, values"),
            ({"a": 1}, ("float32", None), UnsupportedError, "map, keys: .* no map of float32"),
            ({"a": 1, b"a": 2}, (None, None), ArgumentError, "map, keys: 'a' occurs twice"),
        ],
    )
    def test_refused(self, given, types, error, message):
        with pytest.raises(error, match=message) as caught:
            zrt.Value.from_map(given, *types)
        assert isinstance(caught.value, zrt.Error)


class TestFeeds:
    def test_errors_name_the_input(self):
        sequence = passing(helper.make_sequence_type_proto(tensor_type(ElementType.FLOAT)))
        mapping = passing(map_type(ElementType.STRING, ElementType.INT64))
        for session, feed, error, message in (
            (sequence, [np.ones(1)], DTypeError, "input 'v', element 0: expected a tensor of float32"),
            (sequence, X, DTypeError, "input 'v': expected a list, got ndarray"),
            (sequence, None, DTypeError, "input 'v': expected a list, got NoneType"),
            (sequence, zrt.Value.from_array(X), DTypeError, r"input 'v': expected seq\(float32.*, got a tensor"),
            (
                sequence,
                zrt.Value.from_sequence([np.ones(1)]),
                DTypeError,
                r"expected seq\(float32.*got Value\(seq\(float64",
            ),
            (mapping, {"a": 1.5}, DTypeError, "input 'v', values: expected int64, got float 1.5"),
            (mapping, {1: 1}, DTypeError, "input 'v', keys: expected string, got int 1"),
            (mapping, zrt.Value.from_map({1: 1}), DTypeError, r"expected map\(string, int64\), got Value\(map\(int64"),
            (mapping, [1], DTypeError, "input 'v': expected a dict, got list"),
        ):
            with pytest.raises(error, match=message):
                session.run([feed, X])

    def test_only_values_can_be_borrowed(self):
        session = passing(helper.make_sequence_type_proto(tensor_type(ElementType.FLOAT)))
        prepared = session.prepare([zrt.Value.from_sequence([X]), X])
        assert same(prepared.run()[0], [X])
        with pytest.raises(UnsupportedError, match="input 'v' is a sequence: without a copy"):
            session.prepare([[X], X])
        with pytest.raises(UnsupportedError, match="input 'v' is a sequence: a lane binds tensors"):
            session.lane()


@pytest.mark.gpu
def test_sequence_on_a_device_cannot_be_read():
    session = zrt.Session(
        models.to_sequence(), zrt.SessionOptions(log_severity_level="FATAL"), providers=["cuda", "cpu"]
    )
    binding = bind(session, {"x": np.zeros(2, np.float32)}, y=zrt.MemoryInfo.cuda())
    binding.run()
    with pytest.raises(UnsupportedError, match="lies on Cuda:0"):
        binding.outputs()["y"].to_list()
