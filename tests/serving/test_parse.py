"""Requests are read as the protocol says; everything else is refused with a message that names the culprit."""

import json
import math
import struct
import tracemalloc
from collections.abc import Callable
from contextlib import suppress
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

import zrt
from tests.serving import wire
from zrt.serving.parse import parse, timeout
from zrt.serving.request_error import RequestError
from zrt.serving.signature import Signature
from zrt.types import ElementType, ValueKind
from zrt.values.type_info import ValueInfo

INT64 = ElementType.INT64
FLOAT = ElementType.FLOAT


def tensor_info(name: str, kind: ElementType, shape: tuple[Any, ...] | None) -> ValueInfo:
    return ValueInfo(name, ValueKind.TENSOR, kind, shape)


def signature(kind: ElementType = FLOAT, shape: tuple[Any, ...] | None = ("n", 2), more: Any = ()) -> Signature:
    inputs = {"x": tensor_info("x", kind, shape)}
    inputs.update({info.name: info for info in more})
    outputs = {name: tensor_info(name, FLOAT, ("n",)) for name in ("y", "z")}
    return Signature(inputs, outputs, True, True)


def written(*tensors: dict[str, Any], binary: bytes = b"", **more: Any) -> tuple[bytes, int]:
    text = json.dumps({"inputs": list(tensors), **more}).encode()
    return text + binary, len(text)


def x(data: Any = (1, 2), datatype: str = "FP32", shape: Any = (1, 2), **more: Any) -> dict[str, Any]:
    return {"name": "x", "datatype": datatype, "shape": shape, "data": data, **more}


def binary(size: Any, **more: Any) -> dict[str, Any]:
    return {"name": "x", "datatype": "FP32", "shape": [1, 2], "parameters": {"binary_data_size": size}, **more}


TYPES = {
    "BOOL": ElementType.BOOL,
    "FP16": ElementType.FLOAT16,
    "BF16": ElementType.BFLOAT16,
    "FP32": ElementType.FLOAT,
    "FP64": ElementType.DOUBLE,
    "BYTES": ElementType.STRING,
    **{name: ElementType[name] for name in wire.DTYPES if "INT" in name},
}

SHAPES = hnp.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=4)
TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)


@st.composite
def tensors(draw: st.DrawFn) -> tuple[str, np.ndarray[Any, Any]]:
    """A datatype and an array of it, without NaN and infinity, which JSON lacks."""
    datatype = draw(st.sampled_from(sorted(TYPES)))
    shape = draw(SHAPES)
    if datatype == "BYTES":
        return datatype, draw(hnp.arrays(object, shape, elements=TEXTS))
    if datatype == "BF16":
        return datatype, draw(hnp.arrays(np.float16, shape, elements=st.integers(-9, 9))).astype(wire.DTYPES["BF16"])
    dtype = wire.DTYPES[datatype]
    finite = {"allow_nan": False, "allow_infinity": False} if dtype.kind == "f" else {}
    return datatype, draw(hnp.arrays(dtype, shape, elements=hnp.from_dtype(dtype, **finite)))


class TestTensors:
    @given(tensors(), st.booleans())
    def test_every_tensor_comes_back_as_it_was_sent(self, sent: Any, as_binary: bool) -> None:
        datatype, array = sent
        described, data = wire.tensor("x", datatype, array, as_binary)
        body, size = written(described, binary=data)
        open_shape = tuple(f"d{axis}" for axis in range(array.ndim))
        request = parse(body, size if as_binary else None, signature(TYPES[datatype], open_shape))
        got = request.feeds["x"]
        assert (got.shape, got.dtype) == (array.shape, array.dtype)
        assert got.tolist() == array.tolist()

    def test_nested_and_flat_data_are_the_same(self) -> None:
        for data in ([[1, 2], [3, 4]], [1, 2, 3, 4]):
            body, _ = written(x(data, shape=[2, 2]))
            assert parse(body, None, signature()).feeds["x"].tolist() == [[1, 2], [3, 4]]

    def test_null_is_nan(self) -> None:
        body, _ = written(x([None, 2.5]))
        assert np.array_equal(parse(body, None, signature()).feeds["x"], [[np.nan, 2.5]], equal_nan=True)

    def test_scalar_comes_bare_or_in_a_list(self) -> None:
        for data in (7, [7]):
            body, _ = written(x(data, "INT64", []))
            assert parse(body, None, signature(INT64, ())).feeds["x"].tolist() == 7

    def test_bytes_other_than_0_are_true(self) -> None:
        body, size = written(binary(2, datatype="BOOL"), binary=b"\0\xff")
        got = parse(body, size, signature(ElementType.BOOL)).feeds["x"]
        assert got.view(np.uint8).tolist() == [[0, 1]]

    def test_unsigned_numbers_beyond_int64_fit(self) -> None:
        body, _ = written(x([0, 2**64 - 1], "UINT64"))
        assert parse(body, None, signature(ElementType.UINT64)).feeds["x"].tolist() == [[0, 2**64 - 1]]

    def test_binary_and_plain_inputs_mix(self) -> None:
        more = [tensor_info("i", INT64, ("n",)), tensor_info("j", INT64, ("n",))]
        plain = {"name": "i", "datatype": "INT64", "shape": [1], "data": [5]}
        last = {"name": "j", "datatype": "INT64", "shape": [1], "parameters": {"binary_data_size": 8}}
        body, size = written(last, plain, binary(8), binary=struct.pack("<qff", 7, 1, 2))
        feeds = parse(body, size, signature(more=more)).feeds
        assert {name: feed.tolist() for name, feed in feeds.items()} == {"j": [7], "i": [5], "x": [[1, 2]]}


class TestRequest:
    def test_id_outputs_and_timeout_are_read(self) -> None:
        wanted = [{"name": "z", "parameters": {"binary_data": True}}, {"name": "y"}]
        body, _ = written(x(), id="a1", outputs=wanted, parameters={"timeout": 2500, "priority": 3})
        request = parse(body, None, signature())
        assert (request.id, request.outputs, request.timeout) == ("a1", {"z": True, "y": False}, 0.0025)

    def test_binary_data_output_holds_for_outputs_that_do_not_say(self) -> None:
        parameters = {"binary_data_output": True}
        body, _ = written(x(), parameters=parameters)
        assert parse(body, None, signature()).outputs == {"y": True, "z": True}
        wanted = [{"name": "y", "parameters": {"binary_data": False}}, {"name": "z"}]
        body, _ = written(x(), parameters=parameters, outputs=wanted)
        assert parse(body, None, signature()).outputs == {"y": False, "z": True}

    def test_body_without_json_is_the_only_input(self) -> None:
        request = parse(struct.pack("<ffff", 1, 2, 3, 4), 0, signature())
        assert request.feeds["x"].tolist() == [[1, 2], [3, 4]]
        assert request.outputs == {"y": True, "z": True}
        assert parse(b"text", 0, signature(ElementType.STRING, ("n",))).feeds["x"].tolist() == ["text"]

    @pytest.mark.parametrize(("given", "seconds"), [(None, None), (0, None), (1, 1e-6), (10**30, 2**53 / 1e6)])
    def test_timeout_is_in_microseconds(self, given: Any, seconds: Any) -> None:
        assert timeout(given) == seconds


WRONG: dict[str, tuple[Any, list[str]]] = {
    "no inputs": ({}, ["inputs"]),
    "inputs no list": ({"inputs": {}}, ["inputs"]),
    "input no object": ({"inputs": [1]}, ["'x'"]),
    "unknown input": ({"inputs": [x() | {"name": "q"}]}, ["'q'", "'x'"]),
    "name no string": ({"inputs": [x() | {"name": ["x"]}]}, ["'x'"]),
    "input twice": ({"inputs": [x(), x()]}, ["'x'", "twice"]),
    "missing input": ({"inputs": []}, ["'x'", "missing"]),
    "other datatype": ({"inputs": [x(datatype="FP64")]}, ["'x'", "FP32", "FP64"]),
    "no datatype": ({"inputs": [x(datatype=None)]}, ["'x'", "FP32"]),
    "no shape": ({"inputs": [x(shape=None)]}, ["'x'", "shape"]),
    "negative size": ({"inputs": [x(shape=[-1, 2])]}, ["'x'", "shape"]),
    "size true": ({"inputs": [x(shape=[True, 2])]}, ["'x'", "shape"]),
    "size of a float": ({"inputs": [x(shape=[1.0, 2])]}, ["'x'", "shape"]),
    "huge size": ({"inputs": [x(shape=[2**70, 2])]}, ["'x'", "shape"]),
    "product of sizes beyond 64 bits": ({"inputs": [x(shape=[2**62, 2])]}, ["'x'", "shape"]),
    "huge size beside 0": ({"inputs": [x([], shape=[2**62, 0])], "q": (2**62, 0)}, ["'x'"]),
    "other shape": ({"inputs": [x(shape=[1, 3])]}, ["'x'", "[n, 2]", "[1, 3]"]),
    "other rank": ({"inputs": [x(shape=[2])]}, ["'x'", "[n, 2]"]),
    "too few elements": ({"inputs": [x([1])]}, ["'x'", "2 elements", "got 1"]),
    "nested otherwise": ({"inputs": [x([[1], [2]])]}, ["'x'", "nested"]),
    "ragged": ({"inputs": [x([[1, 2], [3]], shape=[2, 2])]}, ["'x'"]),
    "strings for numbers": ({"inputs": [x(["1", "2"])]}, ["'x'", "numbers"]),
    "object for numbers": ({"inputs": [x([{}, 1])]}, ["'x'"]),
    "booleans for numbers": ({"inputs": [x([True, False])]}, ["'x'", "numbers"]),
    "no data": ({"inputs": [{"name": "x", "datatype": "FP32", "shape": [1, 2]}]}, ["'x'", "data"]),
    "parameters no object": ({"inputs": [x(parameters=3)]}, ["'x'", "parameters"]),
    "shared memory": ({"inputs": [x(parameters={"shared_memory_region": "r"})]}, ["'x'", "shared memory"]),
    "binary data beyond the body": ({"inputs": [binary(8)]}, ["'x'", "binary_data_size"]),
    "binary size no number": ({"inputs": [binary("8")]}, ["'x'", "binary_data_size"]),
    "binary size negative": ({"inputs": [binary(-8)]}, ["'x'", "binary_data_size"]),
    "id no string": ({"inputs": [x()], "id": 5}, ["id"]),
    "outputs no list": ({"inputs": [x()], "outputs": "y"}, ["outputs"]),
    "unknown output": ({"inputs": [x()], "outputs": [{"name": "q"}]}, ["'q'", "'y', 'z'"]),
    "output twice": ({"inputs": [x()], "outputs": [{"name": "y"}, {"name": "y"}]}, ["'y'", "twice"]),
    "output name no string": ({"inputs": [x()], "outputs": [{"name": []}]}, ["'y'"]),
    "classification": ({"inputs": [x()], "outputs": [{"name": "y", "parameters": {"classification": 3}}]}, ["'y'"]),
    "binary_data no flag": ({"inputs": [x()], "outputs": [{"name": "y", "parameters": {"binary_data": 1}}]}, ["'y'"]),
    "timeout no number": ({"inputs": [x()], "parameters": {"timeout": "1"}}, ["timeout"]),
    "timeout negative": ({"inputs": [x()], "parameters": {"timeout": -1}}, ["timeout"]),
    "no object": ([], ["object"]),
}


OPEN_RANK: dict[str, list[int]] = {
    "one size too many": [1] * 65,
    "227 large sizes": [2**63 - 1] * 227,
    "100,000 large sizes": [2**63 - 1] * 100_000,
    "64 large sizes": [2**63 - 1] * 64,
    "large sizes beside 0": [2**62, 2**62, 0],
}


class TestWrong:
    @pytest.mark.parametrize("case", OPEN_RANK)
    @pytest.mark.parametrize("kind", [FLOAT, ElementType.STRING], ids=["numbers", "strings"])
    @pytest.mark.parametrize("in_json", [True, False], ids=["json", "binary"])
    def test_shape_of_open_rank_is_bounded(
        self, case: str, kind: ElementType, in_json: bool, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        factors = []

        def prod(sizes: Any) -> int:
            factors.append(len(sizes))
            return math.prod(sizes)

        monkeypatch.setattr("zrt.serving.parse.math", SimpleNamespace(prod=prod))
        shape, datatype = OPEN_RANK[case], "FP32" if kind is FLOAT else "BYTES"
        if in_json:
            body, size = written(x([], datatype, shape))[0], None
        else:
            body, size = written(binary(0, datatype=datatype, shape=shape))
        with pytest.raises(RequestError, match="input 'x': ") as caught:
            parse(body, size, signature(kind, None))
        assert (caught.value.status, len(str(caught.value)) < 3000) == (400, True)
        # A product of many large sizes takes minutes.
        assert all(number <= 64 for number in factors)

    def test_rank_64_is_read(self) -> None:
        body, _ = written(x([1], shape=[1] * 64))
        assert parse(body, None, signature(shape=None)).feeds["x"].ndim == 64

    def test_sequences_are_refused(self) -> None:
        """Each request would get an answer that knows nothing of those before it."""
        body, _ = written(x(), parameters={"sequence_id": 5, "sequence_start": True, "sequence_end": False})
        with pytest.raises(RequestError, match=r"sequence_id: .* sequence"):
            parse(body, None, signature())
        assert parse(written(x(), parameters={"sequence_id": 0})[0], None, signature()).id is None

    def test_deep_data_are_refused_before_numpy_reads_them(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """numpy takes 10 seconds for a million of these lists, in which no other thread of Python runs."""
        read = []
        array = np.array
        monkeypatch.setattr(np, "array", lambda data, *more: read.append(data) or array(data, *more))
        for shape in ([0], [3, 1, 1, 1, 0], [3]):
            body, _ = written(x([[[[[]]]]] * 3, shape=shape))
            if len(shape) == 5:
                assert parse(body, None, signature(shape=None)).feeds["x"].shape == (3, 1, 1, 1, 0)
                continue
            with pytest.raises(RequestError, match=r"'x'.*nested"):
                parse(body, None, signature(shape=None))
        assert read == [[]]

    @pytest.mark.parametrize("part", [b"[],", b"{},", b"[[[]]],"])
    def test_millions_of_lists_are_refused_before_they_are_made(self, part: bytes) -> None:
        """64 MiB of them held the GIL for 20 seconds and took 2.6 GB."""
        body = b'{"inputs":[' + part * 1_100_000 + b"1]}"
        tracemalloc.start()
        try:
            with pytest.raises(RequestError, match="1048576 lists and objects"):
                parse(body, None, signature())
            assert tracemalloc.get_traced_memory()[1] < 1 << 20
        finally:
            tracemalloc.stop()

    def test_strings_beyond_the_shape_are_not_read(self) -> None:
        data = bytes(4 * 1_000_000)
        body, size = written(binary(len(data), datatype="BYTES"), binary=data)
        tracemalloc.start()
        try:
            with pytest.raises(RequestError, match="has 2 elements, got more"):
                parse(body, size, signature(ElementType.STRING))
            assert tracemalloc.get_traced_memory()[1] < 1 << 20
        finally:
            tracemalloc.stop()

    @pytest.mark.parametrize("case", WRONG)
    def test_wrong_request_is_refused_by_name(self, case: str) -> None:
        document, words = WRONG[case]
        with pytest.raises(RequestError) as caught:
            parse(json.dumps(document).encode(), None, signature())
        assert caught.value.status == 400
        for word in words:
            assert word in str(caught.value)

    @pytest.mark.parametrize("text", [b"", b"{", b"\xff\xfe", b"[" * 100_000, b'{"inputs":' * 5000, b"9" * 5000])
    def test_text_that_is_no_json_is_refused(self, text: bytes) -> None:
        with pytest.raises(RequestError, match="JSON"):
            parse(text, None, signature())

    @pytest.mark.parametrize("size", [-1, 10**9])
    def test_size_of_the_json_beyond_the_body_is_refused(self, size: int) -> None:
        with pytest.raises(RequestError, match="Inference-Header-Content-Length"):
            parse(b"{}", size, signature())

    def test_binary_data_of_another_size_than_the_shape_are_refused(self) -> None:
        body, size = written(binary(4), binary=b"1234")
        with pytest.raises(RequestError, match=r"'x'.*8 bytes, got 4"):
            parse(body, size, signature())

    def test_binary_data_that_are_left_over_are_refused(self) -> None:
        body, size = written(binary(8), binary=b"12345678rest")
        with pytest.raises(RequestError, match="4 bytes of binary data belong to no input"):
            parse(body, size, signature())

    @pytest.mark.parametrize(
        ("datatype", "data", "words"),
        [
            ("INT64", [1.5, 2], "whole numbers"),
            ("INT64", [2**63, 2**63], "does not fit INT64"),
            ("UINT8", [256, 0], "256 does not fit UINT8"),
            ("UINT8", [-1, 0], "-1 does not fit UINT8"),
            ("UINT64", [2**64, 0], "does not fit UINT64"),
            ("UINT64", [2**64 - 1, -1], "'x'"),
            ("UINT64", [2**64 - 1, 0.5], "whole numbers"),
            ("INT32", [None, 1], "whole numbers"),
            ("BOOL", [1, 0], "true and false"),
            ("BYTES", [1, 2], "strings"),
            ("BYTES", ["\ud800", ""], "UTF-8"),
            ("FP32", [10**400, 1], "'x'"),
            ("FP32", ["1", "2"], "'x': expected numbers for FP32, got '1'"),
            ("INT32", [1, "2"], "'x': expected whole numbers for INT32, got '2'"),
            ("INT32", [1, ["2"]], "'x'.*nested"),
        ],
    )
    def test_numbers_that_do_not_fit_are_refused(self, datatype: str, data: Any, words: str) -> None:
        body, _ = written(x(data, datatype))
        with pytest.raises(RequestError, match=words):
            parse(body, None, signature(TYPES[datatype]))

    def test_long_string_among_numbers_takes_no_memory(self) -> None:
        """numpy would give each of them the room of the string: 400 MB."""
        for data in (["a" * 20_000, *[1] * 4999], [[1]] * 4999 + [["a" * 20_000]]):
            body, _ = written(x(data, shape=[2500, 2]))
            tracemalloc.start()
            try:
                with pytest.raises(RequestError, match="input 'x': "):
                    parse(body, None, signature())
                assert tracemalloc.get_traced_memory()[1] < 10 << 20
            finally:
                tracemalloc.stop()

    @pytest.mark.parametrize(
        ("data", "words"),
        [
            (b"\1\0", "within the length of string 0"),
            (struct.pack("<I", 5) + b"abc", "within string 0"),
            (struct.pack("<I", 1) + b"a", "has 2 elements, got 1"),
            (struct.pack("<I", 1) + b"\xff" + struct.pack("<I", 0), "string 0 is no UTF-8"),
        ],
    )
    def test_binary_strings_that_are_broken_are_refused(self, data: bytes, words: str) -> None:
        body, size = written(binary(len(data), datatype="BYTES"), binary=data)
        with pytest.raises(RequestError, match=words):
            parse(body, size, signature(ElementType.STRING))

    @pytest.mark.parametrize(
        ("of", "words"),
        [
            (signature(more=[tensor_info("i", INT64, ("n",))]), "one input"),
            (signature(shape=("n", "m")), "one open size"),
            (signature(shape=None), "one open size"),
        ],
        ids=["two inputs", "two open sizes", "open rank"],
    )
    def test_body_without_json_needs_one_input_and_one_open_size(self, of: Signature, words: str) -> None:
        with pytest.raises(RequestError, match=words):
            parse(b"12345678", 0, of)

    @given(st.binary(max_size=64), st.none() | st.integers(0, 80))
    def test_any_bytes_are_read_or_refused(self, body: bytes, size: int | None) -> None:
        # 64 bytes are no tensor of this shape.
        with pytest.raises(RequestError):
            parse(body, size, signature(shape=(5, 7)))

    @given(
        st.recursive(
            st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=4),
            lambda inner: (
                st.lists(inner, max_size=3)
                | st.dictionaries(
                    st.sampled_from(
                        [
                            "inputs",
                            "outputs",
                            "name",
                            "shape",
                            "datatype",
                            "data",
                            "parameters",
                            "binary_data_size",
                            "id",
                        ]
                    )
                    | st.text(max_size=2),
                    inner,
                    max_size=5,
                )
            ),
            max_leaves=20,
        ),
        st.sampled_from(sorted(TYPES)),
    )
    def test_any_document_is_read_or_refused(self, part: Any, datatype: str) -> None:
        of = signature(TYPES[datatype], ("n", None))
        for document in (part, {"inputs": part}, {"inputs": [x(part, datatype)]}, {"inputs": [x(shape=part)]}):
            with suppress(RequestError):
                parse(json.dumps(document).encode(), None, of)


class TestSignature:
    def test_metadata_have_the_words_of_the_protocol(self, load: Callable[..., zrt.Session]) -> None:
        session = load(
            "(float16[n, 3] x, string[m] s) => (float16[n, 3] y, string[m] t) { y = Neg(x) t = Identity(s) }"
        )
        signature = Signature.of(session, "m")
        assert signature.metadata("m", ["1", "2"]) == {
            "name": "m",
            "versions": ["1", "2"],
            "platform": "onnxruntime_onnx",
            "inputs": [
                {"name": "x", "datatype": "FP16", "shape": [-1, 3]},
                {"name": "s", "datatype": "BYTES", "shape": [-1]},
            ],
            "outputs": [
                {"name": "y", "datatype": "FP16", "shape": [-1, 3]},
                {"name": "t", "datatype": "BYTES", "shape": [-1]},
            ],
        }
        assert (signature.open_batch, signature.lanes) == (True, False)

    @pytest.mark.parametrize(
        ("text", "is_open"),
        [
            ("(float[n, 2] x) => (float[n, 2] y) { y = Relu(x) }", True),
            ("(float[2, n] x) => (float[2, n] y) { y = Relu(x) }", False),
            ("(float[n] x) => (int64[1, k] y) { y = NonZero(x) }", False),
            ("(float x) => (float y) { y = Relu(x) }", False),
            ("(float[n, 1] x, float[3] w) => (float[n, 3] y) { y = Mul(x, w) }", False),
        ],
    )
    def test_batch_is_open_where_every_first_axis_is(
        self, load: Callable[..., zrt.Session], text: str, is_open: bool
    ) -> None:
        assert Signature.of(load(text), "m").open_batch is is_open

    def test_input_that_the_protocol_lacks_is_refused(self, load: Callable[..., zrt.Session]) -> None:
        session = load("(seq(float[n]) x) => (float[n] y) <int64 at = {0}> { y = SequenceAt(x, at) }")
        with pytest.raises(zrt.errors.UnsupportedError, match=r"model 'm': input 'x' is seq\(float32\[n\]\)"):
            Signature.of(session, "m")

    def test_output_that_the_protocol_lacks_is_left_out(self, load: Callable[..., zrt.Session]) -> None:
        session = load("(float[n] x) => (seq(float[n]) s, float[n] y) { s = SequenceConstruct(x) y = Relu(x) }")
        assert list(Signature.of(session, "m").outputs) == ["y"]
        session = load("(float[n] x) => (seq(float[n]) s) { s = SequenceConstruct(x) }")
        with pytest.raises(zrt.errors.UnsupportedError, match="no output"):
            Signature.of(session, "m")
