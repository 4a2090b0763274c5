"""`ModelMetadata` and `ValueInfo`: the declarations of a loaded model."""

import copy
import dataclasses
import pickle

import onnx
import pytest
from onnx import helper

import zrt
from zrt.errors import ModelNotFoundError, UnsupportedError
from zrt.loading import model_source
from zrt.types import ElementType, ValueKind
from zrt.values.type_info import ValueInfo, format_shape, type_name


@pytest.fixture
def model(build) -> onnx.ModelProto:
    return build("(float[n] x) => (float[n] y) { y = Neg(x) }", opset=17)


class TestModelMetadata:
    def test_all_fields(self, model):
        model.producer_name = "a producer"
        model.domain = "com.example"
        model.doc_string = "a description"
        model.model_version = 42
        model.graph.name = "a graph"
        model.graph.doc_string = "a graph's description"
        helper.set_model_props(model, {"license": "Apache-2.0", "empty": "", "ключ": "значение ☃"})
        metadata = zrt.Session(model).metadata
        assert dataclasses.asdict(metadata) == {
            "producer_name": "a producer",
            "graph_name": "a graph",
            "domain": "com.example",
            "description": "a description",
            "graph_description": "a graph's description",
            "version": 42,
            "custom_metadata_map": {"license": "Apache-2.0", "empty": "", "ключ": "значение ☃"},
        }

    @pytest.mark.parametrize("kept", [True, False], ids=["small", "large"])
    @pytest.mark.parametrize("form", ["path", "bytes", "bytearray", "proto"])
    def test_opsets_are_those_that_the_model_imports(self, model, tmp_path, monkeypatch, form, kept):
        model.opset_import.append(helper.make_opsetid("ai.onnx.ml", 2))
        model.doc_string = "" if kept else "long" * model_source.COPIED
        monkeypatch.chdir(tmp_path)
        onnx.save(model, "m.onnx")
        data = bytearray(model.SerializeToString())
        session = zrt.Session({"path": "m.onnx", "bytes": bytes(data), "bytearray": data, "proto": model}[form])
        data.clear()
        (tmp_path / "elsewhere").mkdir()
        monkeypatch.chdir(tmp_path / "elsewhere")
        session.close()
        metadata = session.metadata
        assert metadata.opsets == {"": 17, "ai.onnx.ml": 2}
        for again in (copy.copy(metadata), copy.deepcopy(metadata), pickle.loads(pickle.dumps(metadata))):
            assert again == metadata
            assert again.opsets == metadata.opsets

    def test_opsets_by_the_other_name_of_onnx(self, model):
        model.opset_import[0].domain = "ai.onnx"
        assert zrt.Session(model).metadata.opsets == {"": 17}

    def test_opsets_that_cannot_be_read_raise(self, model, tmp_path):
        onnx.save(model, tmp_path / "m.onnx")
        session = zrt.Session(tmp_path / "m.onnx")
        (tmp_path / "m.onnx").unlink()
        with pytest.raises(ModelNotFoundError, match="there is no such file"):
            _ = session.metadata.opsets
        assert "graph_name='test'" in repr(session.metadata)
        zrt.save_optimized(model, tmp_path / "m.ort")
        for source in (tmp_path / "m.ort", (tmp_path / "m.ort").read_bytes()):
            with pytest.raises(UnsupportedError, match="ONNX Runtime's own format"):
                _ = zrt.Session(source).metadata.opsets

    def test_metadata_of_ones_own_has_no_opsets(self):
        assert zrt.ModelMetadata("p", "g", "d", "", "", 1).opsets == {}

    def test_closed_session_still_has_it_and_missing_fields_are_empty(self, model):
        session = zrt.Session(model)
        session.close()
        metadata = session.metadata
        assert metadata is session.metadata
        assert (metadata.producer_name, metadata.domain, metadata.description) == ("", "", "")
        assert metadata.custom_metadata_map == {}
        # ONNX Runtime reports this version for a model without one.
        assert metadata.version == 2**63 - 1

    def test_many_entries(self, model):
        entries = {f"key {i}": "v" * i for i in range(500)}
        helper.set_model_props(model, entries)
        assert zrt.Session(model).metadata.custom_metadata_map == entries


class TestValueInfos:
    def test_shapes(self, load):
        session = load("""(float[batch, 3, ?, 0] a, float b, float[] c)
                          => (float[batch, 3, ?, 0] x, float y, float[] z) { x = Neg(a)  y = Neg(b)  z = Neg(c) }""")
        assert [info.shape for info in session.inputs] == [("batch", 3, None, 0), (), None]
        assert [info.shape for info in session.outputs] == [("batch", 3, None, 0), (), None]

    @pytest.mark.parametrize(
        "kind", [kind for kind in ElementType if kind.bits and not kind.refused], ids=lambda kind: kind.name
    )
    def test_every_element_type(self, load, kind):
        name = kind.onnx_name
        session = load(f"({name}[n] x, float f) => ({name}[n] x, float g) {{ g = Neg(f) }}", opset=25)
        for info in (session.inputs[0], session.outputs[0]):
            assert (info.name, info.kind, info.element_type, info.shape) == ("x", ValueKind.TENSOR, kind, ("n",))

    def test_strings_and_sequences(self, load):
        session = load("""(string[n] s, seq(float[n]) q) => (string[n] t, int64 l)
                          { t = Identity(s)  l = SequenceLength(q) }""")
        strings, sequence = session.inputs
        assert strings.element_type is ElementType.STRING
        assert (sequence.kind, sequence.element_type, sequence.shape) == (ValueKind.SEQUENCE, ElementType.FLOAT, None)
        assert not sequence.is_tensor
        assert str(sequence.element) == "q: float32[n]"
        assert str(sequence) == "q: seq(float32[n])"

    def test_names_that_are_not_ascii(self, model):
        model.graph.input[0].name = model.graph.node[0].input[0] = "вход"
        model.graph.input[0].type.tensor_type.shape.dim[0].dim_param = "размер"
        (info,) = zrt.Session(model).inputs
        assert (info.name, info.shape) == ("вход", ("размер",))

    def test_dimension_overrides_change_the_declaration(self, build):
        model = build("(float[batch, n] x) => (float[batch, n] y) { y = Neg(x) }")
        session = zrt.Session(model, zrt.SessionOptions(free_dimension_overrides={"batch": 4}))
        assert session.inputs[0].shape == (4, "n")
        assert session.outputs[0].shape == (4, "n")


class TestValueInfo:
    def test_symbolic_dimensions_and_static_shape(self):
        def info(shape):
            return ValueInfo("x", ValueKind.TENSOR, ElementType.FLOAT, shape)

        assert info(("a", 1, None, "b")).symbolic_dimensions == ("a", "b")
        assert info(("a", 1)).static_shape is None
        assert info((2, None)).static_shape is None
        assert info((2, 0)).static_shape == (2, 0)
        assert info(()).static_shape == ()
        assert info(None).static_shape is None
        assert info(None).symbolic_dimensions == ()

    @pytest.mark.parametrize(
        ("shape", "written"), [(None, "[...]"), ((), "[]"), (("n", 1, None), "[n, 1, ?]")], ids=str
    )
    def test_format_of_shapes(self, shape, written):
        assert format_shape(shape) == written
        assert str(ValueInfo("x", ValueKind.TENSOR, ElementType.INT64, shape)) == f"x: int64{written}"

    @pytest.mark.parametrize(
        ("kind", "name"),
        [
            (ElementType.FLOAT, "float32"),
            (ElementType.BOOL, "bool"),
            (ElementType.BFLOAT16, "bfloat16"),
            (ElementType.INT4, "int4"),
            (ElementType.STRING, "string"),
        ],
    )
    def test_types_have_numpys_names(self, kind, name):
        assert type_name(kind) == name
