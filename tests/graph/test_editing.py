"""Models opened for additions."""

import gc
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

import zrt
from tests.graph.conftest import QUIET
from tests.support import models
from tests.support.lanes import run_on
from tests.support.together import in_threads
from zrt.errors import ArgumentError, BusyError, ClosedError, Error, ModelError, UnknownNameError

FEEDS = {"x": np.arange(8, dtype=np.float32).reshape(2, 4)}


@pytest.fixture
def model(three_layers: Any) -> bytes:
    return bytes(three_layers().to_bytes())


@pytest.fixture
def path(model: bytes, tmp_path: Path) -> Path:
    where = tmp_path / "model.onnx"
    where.write_bytes(model)
    return where


@pytest.mark.parametrize("form", ["path", "bytes", "proto"])
def test_edit_takes_a_model_in_every_form(form: str, model: bytes, path: Path, reference: Any) -> None:
    source = {"path": path, "bytes": model, "proto": onnx.load_model_from_string(model)}[form]
    with zrt.edit(source, QUIET) as edit:
        assert edit.opset() == 21
        assert edit.opset("com.microsoft") == 1
        assert [value.name for value in edit.inputs] == ["x"]
        edit.output(edit.op("Neg", edit.outputs[0], outputs="minus"))
        edited = edit.to_onnx()
        session = edit.finalize()
    assert session.output_names == ("logits", "minus")
    assert session.outputs[1].shape == ("n", 3)
    results = session.run(FEEDS)
    np.testing.assert_array_equal(results[0], -results[1])
    np.testing.assert_allclose(results[0], reference(edited, FEEDS)[0], rtol=1e-5)


def test_edit_is_closed_after_finalize(model: bytes, tmp_path: Path) -> None:
    edit = zrt.edit(model, QUIET)
    edit.output(edit.op("Neg", edit.outputs[0]))
    session = edit.finalize()
    for use in (edit.finalize, edit.opset, lambda: edit.op("Neg", edit.outputs[0]), lambda: edit.input("y", "float32")):
        with pytest.raises(ClosedError, match="this GraphEdit is closed"):
            use()
    # The edited model can still be saved.
    edit.save(tmp_path / "edited.onnx")
    saved = zrt.Session(tmp_path / "edited.onnx", QUIET).run(FEEDS)
    np.testing.assert_array_equal(saved[1], session.run(FEEDS)[1])
    edit.close()


def test_all_kinds_of_changes_together(model: bytes) -> None:
    edit = zrt.edit(model, QUIET)
    logits = edit.value("logits")
    hidden = next(value for value in (edit.value(node.output[0]) for node in edit.to_onnx().graph.node))
    scale = edit.input("scale", "float32", (1,))
    weights = edit.initializer("weights", np.full((32, 2), 0.5, np.float32), borrow=True)
    edit.output(edit.op("MatMul", hidden, weights, outputs="second"), "float32", ("n", 2))
    edit.output(edit.op("Mul", logits, scale, outputs="scaled"), "float32", ("n", 3))
    edit.output(edit.op("Gelu", logits, domain="com.microsoft", outputs="gelu"), "float32", ("n", 3))
    edit.remove_output(logits)
    assert edit.engine.name == "editor"
    edited = edit.to_onnx()
    assert {entry.domain: entry.version for entry in edited.opset_import} == {"": 21, "com.microsoft": 1}
    session = edit.finalize()
    assert session.input_names == ("x", "scale")
    assert session.output_names == ("second", "scaled", "gelu")
    feeds = {**FEEDS, "scale": np.array([2], np.float32)}
    for result, want in zip(session.run(feeds), zrt.Session(edited, QUIET).run(feeds), strict=True):
        np.testing.assert_allclose(result, want, rtol=1e-5)


def test_names_of_new_symbolic_sizes() -> None:
    graph = zrt.Graph()
    graph.output(graph.op("Relu", graph.input("x", "float32", (4, "wide")), outputs="y"), "float32", (4, "wide"))
    # The model's own values keep the names of their sizes; the editor would mix up those of new values.
    edit = zrt.edit(graph.to_bytes(), QUIET)
    edit.output(edit.op("Size", edit.value("y")), "int64", ())
    assert edit.engine.name == "editor"
    assert edit.finalize().inputs[0].shape == (4, "wide")
    edit = zrt.edit(graph.to_bytes(), QUIET)
    edit.output(edit.op("Neg", edit.value("y")), "float32", (4, "wide"))
    assert any("mix up" in reason for reason in edit.engine.reasons)
    assert edit.finalize().outputs[1].shape == (4, "wide")


def test_weights_that_an_edit_still_reads_are_not_written(three_layers: Any, tmp_path: Path) -> None:
    """The edit computed with other weights afterwards, and a second save wrote those."""
    path = tmp_path / "model.onnx"
    three_layers().save(path, external_data=True, size_threshold=0)
    before = {file.name: file.read_bytes() for file in tmp_path.iterdir()}
    assert set(before) == {"model.onnx", "model.onnx.data"}
    edit = zrt.edit(path, QUIET)
    (tmp_path / "link.data").symlink_to(tmp_path / "model.onnx.data")
    for target, location in (("model.onnx", None), ("other.onnx", "model.onnx.data"), ("other.onnx", "link.data")):
        with pytest.raises(ArgumentError, match="is the same file as the input"):
            edit.save(tmp_path / target, external_data=True, location=location, size_threshold=0)
    assert {name: (tmp_path / name).read_bytes() for name in before} == before
    # With its weights inside, or in another file, the model may take the old one's place.
    edit.save(path, external_data=True, location="new.data", size_threshold=0)
    edit.save(path)
    wanted = zrt.Session(path, QUIET).run(FEEDS)[0]
    np.testing.assert_allclose(edit.finalize().run(FEEDS)[0], wanted, rtol=1e-5)


@pytest.mark.parametrize("engine", ["editor", "onnx"])
def test_external_weights(engine: str, three_layers: Any, tmp_path: Path) -> None:
    path = tmp_path / "model.onnx"
    three_layers().save(path, external_data=True, location="weights", size_threshold=0)
    wanted = zrt.Session(path, QUIET).run(FEEDS)[0]
    for source, folder in ((path, None), (path.read_bytes(), tmp_path), (path, tmp_path)):
        edit = zrt.edit(source, QUIET, external_data_dir=folder)
        edit.output(edit.op("Neg", edit.value("logits")))
        whole = edit.to_onnx()
        session = edit.finalize(engine=engine)
        np.testing.assert_allclose(session.run(FEEDS)[1], -wanted, rtol=1e-5)
        np.testing.assert_allclose(zrt.Session(whole, QUIET).run(FEEDS)[0], wanted, rtol=1e-5)


def test_external_weights_that_are_badly_described(three_layers: Any, tmp_path: Path) -> None:
    path = tmp_path / "model.onnx"
    three_layers().save(path, external_data=True, size_threshold=0)
    proto = onnx.load(path, load_external_data=False)
    proto.graph.initializer[0].external_data[1].value = "far"
    with pytest.raises(Error, match="far"):
        zrt.edit(proto, QUIET, external_data_dir=tmp_path).to_onnx()


@pytest.mark.parametrize("replaced", [True, False])
@pytest.mark.parametrize("engine", ["editor", "onnx"])
def test_external_weights_that_change_during_an_edit(
    engine: str, replaced: bool, three_layers: Any, tmp_path: Path
) -> None:
    """The edit would compute with other weights, or read beyond the end of their file."""
    path, weights, kept = tmp_path / "model.onnx", tmp_path / "weights", tmp_path / "kept"
    three_layers().save(path, external_data=True, location="weights", size_threshold=0)
    edit = zrt.edit(path, QUIET)
    edit.output(edit.op("Neg", edit.value("logits")))
    content = weights.read_bytes()
    if replaced:
        weights.rename(kept)
        weights.write_bytes(bytes(len(content)))
    else:
        weights.write_bytes(content[:-100])
    for action in (lambda: edit.finalize(engine=engine), edit.to_onnx, lambda: edit.save(tmp_path / "other.onnx")):
        with pytest.raises(ModelError, match=r"weights' has changed since the edit began"):
            action()
    if replaced:
        # The edit stays open, and goes on with the file that it began with.
        kept.rename(weights)
        assert len(edit.finalize(engine=engine).run(FEEDS)) == 2


def test_domains_of_onnx_runtime_in_a_subgraph(model: bytes) -> None:
    edit = zrt.edit(model, QUIET)
    logits, positive = edit.value("logits"), edit.input("positive", "bool", ())
    then, other = edit.subgraph("then"), edit.subgraph("other")
    then.output(then.op("Gelu", logits, domain="com.microsoft"), "float32", ("n", 3))
    other.output(other.op("Neg", logits))
    edit.output(edit.op("If", positive, then_branch=then, else_branch=other, outputs="y"), "float32", ("n", 3))
    first, chosen = edit.finalize().run({**FEEDS, "positive": np.array(False)})
    np.testing.assert_array_equal(chosen, -first)


def test_error_of_onnx_runtime_closes_the_edit(model: bytes) -> None:
    edit = zrt.edit(model, QUIET)
    edit.output(edit.op("Nothing", edit.value("logits"), domain="com.microsoft"), "float32")
    with pytest.raises(Error, match="Nothing"):
        edit.finalize()
    assert edit.closed
    assert edit.to_onnx().graph.node[-1].op_type == "Nothing"


def test_error_of_the_model_loaded_anew_leaves_the_edit_open(model: bytes) -> None:
    edit = zrt.edit(model, QUIET)
    edit.output(edit.op("Nothing", edit.value("logits"), domain="com.microsoft", outputs="y"), "float32")
    with pytest.raises(Error, match="Nothing"):
        edit.finalize(engine="onnx")
    edit.remove_output("y")
    edit.close()


NEGATED_TWICE = models.parsed("(float[n] x) => (float[n] y) { z = Neg(x) y = Neg(z) }")
X = np.array([1, -2], np.float32)


@pytest.mark.parametrize("engine", [None, "onnx"])
def test_model_without_outputs_is_refused(engine: str | None) -> None:
    edited = zrt.edit(NEGATED_TWICE, QUIET)
    edited.remove_output("y")
    with pytest.raises(ModelError, match="has no outputs"):
        edited.finalize(engine=engine)
    edited.output(edited.value("z"), "float32", ("n",))
    assert edited.finalize().run([X])[0].tolist() == (-X).tolist()


@pytest.mark.parametrize("kind", ["initializer", "output"])
def test_last_input_may_become_another_value(kind: str) -> None:
    edited = zrt.edit(NEGATED_TWICE, QUIET)
    edited.remove_input("x")
    if kind == "initializer":
        edited.initializer("x", X)
    else:
        edited.op("Constant", value_floats=X.tolist(), outputs="x")
    assert edited.engine.reasons == ("all inputs were removed",)
    session = edited.finalize()
    assert session.input_names == ()
    assert session.run({})[0].tolist() == X.tolist()


def test_input_may_get_another_shape() -> None:
    edited = zrt.edit(NEGATED_TWICE, QUIET)
    edited.remove_input("x")
    edited.input("x", "float32", (2,))
    assert edited.engine.reasons == ("'x' has another type or shape than in the model",)
    assert edited.finalize().inputs[0].shape == (2,)


def test_output_without_a_type_may_stay() -> None:
    edited = zrt.edit(models.parsed("(float[n] x) => (y) { y = Neg(x) }"), QUIET)
    edited.output(edited.op("Neg", edited.value("y"), outputs="w"))
    assert edited.engine.reasons == ()
    assert edited.finalize().run([X])[1].tolist() == X.tolist()


def test_domain_may_have_an_older_opset_than_onnx_runtime_s() -> None:
    edited = zrt.edit(NEGATED_TWICE, QUIET)
    edited.import_opset("ai.onnx.ml", 3)
    y = edited.op("Binarizer", edited.value("y"), domain="ai.onnx.ml", threshold=0.5, outputs="w")
    edited.output(y, "float32", ("n",))
    assert "'ai.onnx.ml' is of another opset in ONNX Runtime" in edited.engine.reasons[0]
    assert edited.finalize().run([X])[1].tolist() == [1, 0]


def test_error_of_zrt_leaves_the_edit_open(model: bytes) -> None:
    edit = zrt.edit(model, QUIET)
    with pytest.raises(UnknownNameError):
        edit.op("Rleu", edit.value("logits"))
    edit.remove_input("x")
    with pytest.raises(Error, match="'x'"):
        edit.finalize()
    edit.input("x", "float32", ("n", 4))
    assert edit.finalize().run(FEEDS)[0].shape == (2, 3)


def test_edited_sessions_share_prepacked_weights(model: bytes) -> None:
    weights = np.full((3, 100), 0.5, np.float32)
    container = zrt.PrepackedWeights()
    options = zrt.SessionOptions(intra_op_num_threads=1, prepacked_weights=container)
    results = []
    for _ in range(2):
        edit = zrt.edit(model, options)
        edit.output(edit.op("MatMul", edit.value("logits"), edit.initializer("w", weights, borrow=True)))
        assert edit.engine.name == "editor"
        results.append(edit.finalize())
    container.close()
    np.testing.assert_array_equal(*(session.run(FEEDS)[1] for session in results))


@pytest.mark.parametrize("field", ["initializers", "external_initializer_files"])
@pytest.mark.parametrize("of_a_file", [False, True])
def test_weights_of_the_options_need_no_file(field: str, of_a_file: bool, tmp_path: Path) -> None:
    path = models.save_apart(models.weighted(), tmp_path / "m.onnx", "m.w")
    twice = 2 * np.arange(64, dtype=np.float32)
    given = {"initializers": {"w": twice}, "external_initializer_files": {"./m.w": twice.tobytes()}}[field]
    (tmp_path / "m.w").unlink()
    options = zrt.SessionOptions(intra_op_num_threads=1, **{field: given})
    feeds = {"x": np.zeros(64, np.float32)}
    edit = zrt.edit(path if of_a_file else path.read_bytes(), options)
    edit.output(edit.op("Neg", edit.value("z"), outputs="n"))
    np.testing.assert_array_equal(edit.finalize().run(feeds), [twice, -twice])
    if of_a_file:
        np.testing.assert_array_equal(zrt.Session(path, options).tap(["z"]).run(feeds), [twice])


def test_initializers_of_the_options_are_used(model: bytes) -> None:
    replaced = np.zeros((32, 3), np.float32)
    options = zrt.SessionOptions(intra_op_num_threads=1, initializers={"w2": replaced})
    edit = zrt.edit(model, options)
    edit.output(edit.op("Neg", edit.value("logits")))
    assert any("options.initializers" in reason for reason in edit.engine.reasons)
    np.testing.assert_allclose(edit.finalize().run(FEEDS)[0], np.full((2, 3), 0.1), rtol=1e-5)


def test_finalize_in_eight_threads_succeeds_once(three_layers: Any) -> None:
    model = three_layers(sizes=(4, 512, 512, 3)).to_bytes()
    outcomes: list[object] = []
    edit = zrt.edit(model, QUIET)

    def finalize() -> None:
        try:
            outcomes.append(edit.finalize())
        except (BusyError, ClosedError) as error:
            outcomes.append(error)

    in_threads(*[finalize] * 8)
    assert len(outcomes) == 8
    [session] = [each for each in outcomes if isinstance(each, zrt.Session)]
    assert session.run(FEEDS)[0].shape == (2, 3)


def test_objects_of_an_edit_dropped_in_any_order(model: bytes) -> None:
    for keep in range(3):
        edit = zrt.edit(model, QUIET)
        value = edit.op("Neg", edit.value("logits"))
        parts: list[Any] = [edit, edit.output(value), edit.finalize() if keep else None]
        edit.close()
        del edit, value
        kept = parts.pop(keep % 3)
        del parts
        gc.collect()
        if isinstance(kept, zrt.Session):
            assert kept.run(FEEDS)[0].shape == (2, 3)


class TestTap:
    """`Session.tap`: intermediate values of a session as outputs."""

    def test_values_are_outputs_behind_the_models_own(self, path: Path) -> None:
        options = zrt.SessionOptions(log_severity_level="FATAL", intra_op_num_threads=1, memory="bounded", cache=False)
        session = zrt.Session(path, options)
        proto = onnx.load(path)
        names = [output for node in proto.graph.node for output in node.output]
        with session.tap([names[0], "logits", names[0]]) as tapped:
            assert tapped.output_names == ("logits", names[0])
            assert session.output_names == ("logits",)
            results = tapped.run(FEEDS)
            np.testing.assert_allclose(results[0], session.run(FEEDS)[0], rtol=1e-5)
            lane = tapped.lane({"x": FEEDS["x"].shape})
            np.testing.assert_allclose(run_on(lane, x=FEEDS["x"])[names[0]], results[1], rtol=1e-5)

    def test_first_layer_has_its_values(self, tmp_path: Path) -> None:
        graph = "(float[2] x) => (float[2] y) { twice = Add(x, x) less = Neg(twice) y = Abs(less) }"
        (tmp_path / "m.onnx").write_bytes(models.parsed(graph).SerializeToString())
        tapped = zrt.Session(tmp_path / "m.onnx", QUIET).tap(["twice", "less"])
        assert [each.tolist() for each in tapped.run([np.array([1, 2], np.float32)])] == [[2, 4], [2, 4], [-2, -4]]

    def test_relative_folder_of_weights_is_found_from_another_folder(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        text = "(float[4] x) => (float[4] y) { t = Add(x, w) y = Neg(t) }"
        content = models.parse(text, w=np.ones(4, np.float32))
        models.save_apart(content, tmp_path / "m.onnx", "w.bin")
        (tmp_path / "parts").mkdir()
        (tmp_path / "w.bin").rename(tmp_path / "parts" / "w.bin")
        monkeypatch.chdir(tmp_path)
        session = zrt.Session("m.onnx", QUIET, external_data_dir="parts")
        monkeypatch.chdir("/")
        y, tapped = session.tap(["t"]).run([np.zeros(4, np.float32)])
        assert (y.tolist(), tapped.tolist()) == ([-1] * 4, [1] * 4)

    def test_model_in_memory_is_refused(self, model: bytes) -> None:
        with pytest.raises(zrt.errors.UnsupportedError, match=r"came from memory; zrt\.edit"):
            zrt.Session(model, QUIET).tap(["logits"])

    def test_other_model_in_the_file_is_refused(self, path: Path) -> None:
        session = zrt.Session(path, QUIET)
        other = models.parsed("(float[2] x) => (float[2] y) { middle = Neg(x) y = Abs(middle) }")
        path.write_bytes(other.SerializeToString())
        with pytest.raises(ModelError, match="has another model by now"):
            session.tap(["middle"])
