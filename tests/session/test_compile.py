"""Models compiled ahead of time: by the tests' own provider, and with none that compiles."""

import io
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import onnx
import pytest

import zrt
from tests.support import models, ort
from zrt._native import library
from zrt.errors import ArgumentError, CallbackError, ClosedError, DTypeError, UnsupportedError

TEXT = "(float[n] x) => (float[n] y) { t = Neg(x)  y = Relu(t) }"
locates = pytest.mark.skipif(not ort.COMPILES_WITH_A_LOCATOR, reason="ONNX Runtime 1.29 writes each node twice")
QUIET = zrt.SessionOptions(intra_op_num_threads=1, log_severity_level="FATAL")
X = np.array([-1, 2], np.float32)


def nodes(model: bytes | Path | None) -> dict[str, onnx.NodeProto]:
    assert model is not None
    proto = onnx.load_model_from_string(model) if isinstance(model, bytes) else onnx.load(model)
    return {node.op_type: node for node in proto.graph.node}


def attributes(node: onnx.NodeProto) -> dict[str, Any]:
    return {each.name: onnx.helper.get_attribute_value(each) for each in node.attribute}


@pytest.fixture
def weighty(tmp_path: Path) -> Path:
    """y = (x + w) * v, where w is large and v is small."""
    text = "(float[1000] x) => (float[1000] y) { t = Add(x, w) y = Mul(t, v) }"
    proto = models.parsed(text, w=np.arange(1000, dtype=np.float32), v=np.array(2, np.float32))
    path = tmp_path / "weighty.onnx"
    onnx.save(proto, path)
    return path


def answer(model: Any, **keywords: Any) -> np.ndarray:
    with zrt.Session(model, QUIET, **keywords) as session:
        return session.run([np.ones(1000, np.float32)])[0]


EXPECTED = (np.arange(1000, dtype=np.float32) + 1) * 2


class TestCompiled:
    """A provider compiles its nodes."""

    def test_compiled_data_in_the_model(self, build, plugin):
        compiled = zrt.compile(build(TEXT), None, QUIET, [plugin.own], embed_compiled_data_into_model=True)
        node = attributes(nodes(compiled)["EPContext"])
        assert (node["embed_mode"], node["ep_cache_context"], node["source"]) == (1, b"negate", b"ZrtTestProvider")
        session = zrt.Session(compiled, QUIET, [plugin.own])
        assert session.run([X])[0].tolist() == [1, 0]

    def test_compiled_data_in_files_beside_the_model(self, build, plugin, tmp_path):
        path = tmp_path / "compiled.onnx"
        assert zrt.compile(build(TEXT), path, QUIET, [plugin.own], error_if_no_nodes_compiled=True) is None
        node = attributes(nodes(path)["EPContext"])
        beside = tmp_path / node["ep_cache_context"].decode()
        assert node["embed_mode"] == 0
        assert beside.read_text() == "negate"
        assert set(tmp_path.iterdir()) == {path, beside}
        assert zrt.Session(path, QUIET, [plugin.own]).run([X])[0].tolist() == [1, 0]

    def test_compiled_data_in_files_for_a_model_in_memory(self, build, plugin, tmp_path):
        compiled = zrt.compile(build(TEXT), None, QUIET, [plugin.own], ep_context_binaries=(tmp_path, "mine.onnx"))
        [beside] = tmp_path.iterdir()
        assert beside.name.startswith("mine.onnx_")
        assert attributes(nodes(compiled)["EPContext"])["ep_cache_context"].decode() == beside.name

    def test_failed_compilation_keeps_existing_files(self, build, plugin, tmp_path):
        path = tmp_path / "compiled.onnx"
        path.write_bytes(b"precious")
        with pytest.raises(zrt.OrtError):
            zrt.compile(build("(float[n] x) => (float[n] y) { y = Nonesuch(x) }"), path, QUIET, [plugin.own])
        assert [each.read_bytes() for each in tmp_path.iterdir()] == [b"precious"]


class TestCpu:
    """The CPU execution provider compiles nothing: the model stays unchanged."""

    def test_nodes_are_unchanged(self, build):
        compiled = zrt.compile(build(TEXT), options=QUIET)
        assert list(nodes(compiled)) == ["Neg", "Relu"]
        assert zrt.Session(compiled, QUIET).run([X])[0].tolist() == [1, 0]

    def test_graph_optimization_level(self, build):
        model = build("(float[n] x) => (float[n] y) { t = Identity(x)  u = Abs(t)  y = Abs(u) }")
        assert "Identity" in nodes(zrt.compile(model, options=QUIET))
        for level in (zrt.GraphOptimizationLevel.ENABLE_BASIC, "enable_all", 99):
            assert "Identity" not in nodes(zrt.compile(model, options=QUIET, graph_optimization_level=level))

    @pytest.mark.parametrize("form", ["path", "bytes", "proto", "graph"])
    def test_model_in_any_form(self, form, weighty):
        proto = onnx.load(weighty)
        forms = {"path": weighty, "bytes": weighty.read_bytes(), "proto": proto, "graph": zrt.Graph.from_onnx(proto)}
        np.testing.assert_array_equal(answer(zrt.compile(forms[form], options=QUIET)), EXPECTED)

    def test_weights_of_the_caller(self, weighty):
        options = zrt.SessionOptions(log_severity_level="FATAL", initializers={"w": np.zeros(1000, np.float32)})
        compiled = zrt.compile(weighty, options=options)
        np.testing.assert_array_equal(answer(compiled), np.full(1000, 2))

    def test_external_weights_are_stored_in_the_model(self, weighty, tmp_path):
        outside = tmp_path / "outside"
        outside.mkdir()
        onnx.save(
            onnx.load(weighty), outside / "model.onnx", save_as_external_data=True, location="w", size_threshold=9
        )
        bare = (outside / "model.onnx").read_bytes()
        path = tmp_path / "inside.onnx"
        zrt.compile(outside / "model.onnx", path, QUIET)
        for compiled in (path, zrt.compile(bare, options=QUIET, external_data_dir=outside)):
            np.testing.assert_array_equal(answer(compiled), EXPECTED)


class TestOutput:
    def test_function_receives_the_model_in_pieces(self):
        text = "(float[50000] x) => (float[50000] y) { y = Add(x, w) }"
        large = models.parsed(text, w=np.ones(50_000, np.float32))
        pieces: list[bytes] = []
        assert zrt.compile(large, pieces.append, QUIET) is None
        assert len(pieces) > 2
        assert b"".join(pieces) == zrt.compile(large, options=QUIET)
        stream = io.BytesIO()
        zrt.compile(large, stream.write, QUIET)
        assert stream.getvalue() == b"".join(pieces)

    def test_exception_of_the_function_is_the_cause(self, weighty):
        calls = []

        def full(piece: bytes) -> None:
            calls.append(len(piece))
            raise OSError("disk full")

        with pytest.raises(CallbackError, match=r"weighty\.onnx.*: output: OSError: disk full") as caught:
            zrt.compile(weighty, full, QUIET)
        assert isinstance(caught.value.__cause__, OSError)
        assert len(calls) == 1

    def test_interrupt_is_raised_unwrapped(self, weighty):
        def interrupted(_: bytes) -> None:
            raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            zrt.compile(weighty, interrupted, QUIET)

    def test_short_write_raises(self, weighty):
        with pytest.raises(CallbackError, match="it took 5 bytes of "):
            zrt.compile(weighty, lambda piece: 5, QUIET)

    def test_error_if_output_file_exists(self, weighty, tmp_path):
        path = tmp_path / "compiled.onnx"
        path.write_bytes(b"precious")
        with pytest.raises(ArgumentError, match=r"compiled\.onnx' is there already"):
            zrt.compile(weighty, path, QUIET, error_if_output_file_exists=True)
        assert path.read_bytes() == b"precious"
        zrt.compile(weighty, path, QUIET)
        np.testing.assert_array_equal(answer(path), EXPECTED)

    def test_error_if_a_link_or_a_file_of_weights_exists(self, weighty, tmp_path):
        path, weights = tmp_path / "compiled.onnx", tmp_path / "compiled.bin"
        weights.write_bytes(b"precious")
        new: dict[str, Any] = {"error_if_output_file_exists": True}
        with pytest.raises(ArgumentError, match=r"compiled\.bin' is there already"):
            zrt.compile(weighty, path, QUIET, external_initializers_file=weights.name, **new)
        assert weights.read_bytes() == b"precious"
        path.symlink_to("nowhere")
        with pytest.raises(ArgumentError, match=r"compiled\.onnx' is there already"):
            zrt.compile(weighty, path, QUIET, **new)
        assert path.is_symlink()


class TestWeights:
    def test_release_that_writes_each_node_twice_raises(self, weighty, tmp_path, monkeypatch):
        monkeypatch.setattr(library, "_library", library.library()._replace(version="1.29.0"))
        with pytest.raises(UnsupportedError, match="then writes each node twice"):
            zrt.compile(weighty, tmp_path / "a.onnx", QUIET, get_initializer_location_func=lambda info, read: None)
        assert not (tmp_path / "a.onnx").exists()

    def test_weights_in_a_file_beside_the_model(self, weighty, tmp_path):
        path = tmp_path / "split.onnx"
        zrt.compile(weighty, path, QUIET, external_initializers_file="split.bin")
        assert (tmp_path / "split.bin").stat().st_size == 4000
        assert {info.name: info.location for info in zrt.list_initializers(path)} == {"w": "split.bin", "v": None}
        np.testing.assert_array_equal(answer(path), EXPECTED)
        zrt.compile(
            weighty, path, QUIET, external_initializers_file="split.bin", external_initializers_size_threshold=4001
        )
        assert {info.location for info in zrt.list_initializers(path)} == {None}

    @locates
    def test_weights_where_the_function_places_them(self, weighty, tmp_path):
        stream = io.BytesIO(bytes(64))
        seen = {}

        def place(info: Any, read: Callable[[], np.ndarray]) -> tuple[str, int] | None:
            seen[info.name] = (info.element_type, info.shape, info.nbytes, info.location)
            if info.name == "v":
                return None
            array = read()
            assert array.shape == info.shape
            offset = stream.seek(0, io.SEEK_END)
            stream.write(array.tobytes())
            return "mine.bin", offset

        path = tmp_path / "placed.onnx"
        zrt.compile(weighty, path, QUIET, get_initializer_location_func=place)
        (tmp_path / "mine.bin").write_bytes(stream.getvalue())
        floats = zrt.ElementType.FLOAT
        assert seen == {"w": (floats, (1000,), 4000, None), "v": (floats, (), 4, None)}
        outside = {info.name: (info.location, info.offset) for info in zrt.list_initializers(path) if info.location}
        assert outside == {"w": ("mine.bin", 64)}
        np.testing.assert_array_equal(answer(path), EXPECTED)

    @locates
    def test_packed_weight_is_read_as_bytes(self, build):
        text = "(float[3] x) => (float[3] y) <float s = {2}> { t = DequantizeLinear(w, s) y = Add(x, t) }"
        model = build(text, w=np.array([1, -2, 3], ml_dtypes.int4))
        read = {}
        zrt.compile(
            model,
            options=QUIET,
            get_initializer_location_func=lambda info, get: read.update({info.name: (info.shape, get().tolist())}),
        )
        assert read["w"] == ((3,), [0xE1, 0x03])

    @locates
    @pytest.mark.parametrize(
        ("place", "cause"),
        [
            ("here", DTypeError),
            (("w.bin", "0"), DTypeError),
            (("w.bin", -1), ArgumentError),
            (("", 0), ArgumentError),
        ],
        ids=str,
    )
    def test_invalid_place_raises(self, weighty, place, cause):
        with pytest.raises(CallbackError, match="weight 'v'") as caught:
            zrt.compile(weighty, options=QUIET, get_initializer_location_func=lambda info, read: place)
        assert isinstance(caught.value.__cause__, cause)

    def test_exception_of_an_operator_comes_out(self, build):
        """Of `infer_shapes`: not every release makes kernels here, for which it would call `create`."""

        def fail(self: Any, context: Any) -> None:
            raise ZeroDivisionError("by me")

        ports = {"inputs": ["float32"], "outputs": ["float32"]}
        own = type("Own", (zrt.CustomOp,), {**ports, "compute": fail, "infer_shapes": fail})
        options = replace(QUIET, custom_ops=[zrt.CustomOpDomain("my.ops", [own()])])
        with pytest.raises(CallbackError, match="ZeroDivisionError: by me") as caught:
            zrt.compile(build("(float[n] x) => (float[n] y) { y = my.ops.Own(x) }"), options=options)
        assert isinstance(caught.value.__cause__, ZeroDivisionError)

    @locates
    def test_weight_can_be_read_during_the_call_only(self, weighty):
        kept = []
        zrt.compile(weighty, options=QUIET, get_initializer_location_func=lambda info, read: kept.append(read))
        with pytest.raises(ClosedError, match="weight 'v' can be read during the call"):
            kept[0]()

    @locates
    def test_string_weight_raises(self, build):
        model = build('(string[1] x) => (string[1] y) <string[1] s = {"a"}> { y = StringConcat(x, s) }')
        assert zrt.compile(model, options=QUIET)
        with pytest.raises(CallbackError, match="weight 's' holds strings") as caught:
            zrt.compile(model, options=QUIET, get_initializer_location_func=lambda info, read: None)
        assert isinstance(caught.value.__cause__, UnsupportedError)
