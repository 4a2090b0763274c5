"""The caller's weights at load: `SessionOptions.initializers`, files in memory, and `PrepackedWeights`."""

import gc
import itertools
import mmap
import shutil
import weakref
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import zrt
from benches.models import build
from tests.support import models, ort
from tests.support.bindings import bind
from zrt import Buffer, MappedFile, PrepackedWeights, Session, SessionOptions, Value
from zrt.errors import ArgumentError, DTypeError, UnknownNameError, UnsupportedError
from zrt.types import pack

LEVELS = ["DISABLE_ALL", "ENABLE_BASIC", "ENABLE_EXTENDED", "ENABLE_ALL"]
W = np.random.default_rng(1).random(1024, np.float32)


def options(**more: Any) -> SessionOptions:
    return SessionOptions(**{"intra_op_num_threads": 1, "log_severity_level": "FATAL", **more})


PLAIN = models.parsed(
    "(float[1024] x) => (float[1024] y) { y = Add(x, w) }", w=np.zeros(1024, np.float32)
).SerializeToString()
X = {"x": np.ones(1024, np.float32)}


def outside(folder: Path, data: bytes = PLAIN) -> Path:
    """The model with all of its weights in one file beside it."""
    return models.save_apart(data, folder / "m.onnx", "w.bin")


class TestInitializers:
    @pytest.mark.parametrize("form", ["array", "value", "buffer", "allocated", "mapped"])
    @pytest.mark.parametrize("place", ["bytes", "path", "outside", "nowhere"])
    def test_every_form_of_weights_works_in_every_model(self, tmp_path, form, place):
        weight: Any = W.copy()
        if form == "value":
            weight = Value.from_array(weight)
        elif form == "buffer":
            weight = Buffer((1024,), np.float32)
            weight.array[...] = W
        elif form == "allocated":
            weight = Value.allocate((1024,), np.float32)
            weight.numpy()[...] = W
        elif form == "mapped":
            (tmp_path / "mine").write_bytes(bytes(64) + W.tobytes())
            weight = MappedFile(tmp_path / "mine").tensor("float32", (1024,), 64)
        model: Any = PLAIN
        if place != "bytes":
            model = tmp_path / "plain.onnx"
            model.write_bytes(PLAIN)
        if place in ("outside", "nowhere"):
            model = outside(tmp_path)
        if place == "nowhere":
            # ORT does not open the external file of a weight that the caller gives.
            (tmp_path / "w.bin").unlink()
        session = Session(model, options(initializers={"w": weight}))
        del weight
        gc.collect()
        np.testing.assert_array_equal(session.run(X)[0], W + 1)

    @pytest.mark.parametrize("place", ["bytes", "outside"])
    def test_weights_that_nothing_uses_are_checked_and_ignored(self, tmp_path, place):
        data = models.parsed(
            "(float[1024] x) => (float[1024] y) { y = Add(x, w) }", w=np.zeros(1024, np.float32), unused=W
        ).SerializeToString()
        model: Any = data if place == "bytes" else outside(tmp_path, data)
        session = Session(model, options(initializers={"w": W, "unused": W + 1}))
        np.testing.assert_array_equal(session.run(X)[0], W + 1)
        with pytest.raises(DTypeError, match="'unused'"):
            Session(model, options(initializers={"unused": W.astype(np.float64)}))

    def test_names_of_other_values_may_be_no_utf_8(self):
        text = "(float[1024] x) => (float[1024] y) { name = Add(x, w) y = Neg(name) }"
        model = models.parse(text, w=np.zeros(1024, np.float32)).replace(b"name", b"nam\xff")
        np.testing.assert_array_equal(Session(model, options(initializers={"w": W})).run(X)[0], -(W + 1))

    @pytest.mark.parametrize("embedded", [True, False])
    def test_session_borrows_the_memory(self, tmp_path, embedded):
        weight = W.copy()
        session = Session(PLAIN if embedded else outside(tmp_path), options(initializers={"w": weight}))
        # Allowed in this test only: it shows that the session reads this memory.
        weight[...] = 41
        np.testing.assert_array_equal(session.run(X)[0], np.full(1024, 42, np.float32))

    @pytest.mark.parametrize("level", LEVELS)
    @pytest.mark.parametrize("name", ["cnn", "mlp"])
    def test_optimizer_uses_the_given_weights(self, name, level):
        """Folded, fused and prepacked weights give the results of a model that contains them."""
        model = build.MODELS[name]() if name == "cnn" else build.mlp(64, 2)
        rng = np.random.default_rng(7)
        weights = {
            info.name: rng.random(info.shape, np.float32) - np.float32(0.5) for info in zrt.list_initializers(model)
        }
        expected = onnx.ModelProto()
        expected.CopyFrom(model)
        for tensor in expected.graph.initializer:
            tensor.CopyFrom(numpy_helper.from_array(weights[tensor.name], tensor.name))
        inside = Session(expected, options(graph_optimization_level=level))
        session = Session(model, options(graph_optimization_level=level, initializers=weights))
        shape = tuple(size if isinstance(size, int) else 2 for size in inside.inputs[0].shape or ())
        x = [rng.random(shape, np.float32)]
        np.testing.assert_array_equal(session.run(x)[0], inside.run(x)[0])

    def test_constant_folding_uses_the_given_weights(self):
        text = "(float[1024] x) => (float[1024] y) { minus = Neg(w) y = Add(x, minus) }"
        model = models.parsed(text, w=np.zeros(1024, np.float32))
        np.testing.assert_array_equal(Session(model, options(initializers={"w": W})).run(X)[0], 1 - W)

    def test_other_weights_come_from_the_model(self):
        model = build.mlp(64, 2)
        x = np.ones((1, 64), np.float32)
        own = Session(model, options()).run([x])[0]
        content = {tensor.name: numpy_helper.to_array(tensor) for tensor in model.graph.initializer}
        for count in range(len(content)):
            for names in itertools.combinations(content, count):
                weights = {name: content[name] for name in names}
                np.testing.assert_array_equal(Session(model, options(initializers=weights)).run([x])[0], own)

    def test_small_weights_resolve_shapes_at_load(self):
        text = "(float[6] x) => (float[?, ?] y) <int64[2] shape = {2, 3}> { y = Reshape(x, shape) }"
        model = models.parsed(text)
        session = Session(model, options(initializers={"shape": np.array([3, 2], np.int64)}))
        assert session.run([np.arange(6, dtype=np.float32)])[0].shape == (3, 2)

    @pytest.mark.parametrize(
        "dtype",
        [
            np.float64,
            np.float16,
            np.int64,
            np.int8,
            np.uint16,
            np.bool_,
            ml_dtypes.bfloat16,
            ml_dtypes.float8_e5m2,
            ml_dtypes.int4,
        ],
    )
    @pytest.mark.parametrize("count", [16, 4096])
    def test_every_element_type_works(self, dtype, count):
        content = (np.arange(count) % 2).astype(dtype)
        text = f"(float[{count}] x) => (float[{count}] y) {{ wide = Cast <to = 1> (w) y = Add(x, wide) }}"
        model = models.parsed(text, w=np.zeros_like(content))
        packed = dtype is ml_dtypes.int4
        weight = Value.from_packed(pack(content, "int4"), zrt.ElementType.INT4, (count,)) if packed else content
        session = Session(model, options(initializers={"w": weight}))
        x = np.zeros(count, np.float32)
        np.testing.assert_array_equal(session.run([x])[0], content.astype(np.float32))

    def test_overridable_weight_can_be_given(self):
        model = onnx.load_from_string(PLAIN)
        model.graph.input.append(helper.make_tensor_value_info("w", TensorProto.FLOAT, [1024]))
        session = Session(model, options(initializers={"w": W}))
        assert [info.name for info in session.initializers] == ["w"]
        np.testing.assert_array_equal(session.run(X)[0], W + 1)
        np.testing.assert_array_equal(session.run({**X, "w": X["x"]})[0], X["x"] * 2)

    def test_subgraph_keeps_its_own_weight_of_the_same_name(self):
        """ONNX forbids it; ONNX Runtime accepts it and would use the caller's weight in the subgraph too."""
        five = "() => (float[] {0}) <float[1] w = {{5}}> {{ {0} = Add(x, w) }}"
        text = f"""(float[1024] x, bool choice) => (float[1024] y, float[] z) {{
            y = Add(x, w)
            z = If (choice) <
                then_branch = outer () => (float[] c) {{
                    c = If (choice) <then_branch = first {five.format("a")}, else_branch = second {five.format("b")}>
                }},
                else_branch = third {five.format("d")}
            >
        }}"""
        model = models.parsed(text, w=np.zeros(1024, np.float32))
        session = Session(model, options(initializers={"w": W}))
        y, z = session.run({**X, "choice": np.array(True)})
        np.testing.assert_array_equal(y, W + 1)
        np.testing.assert_array_equal(z, np.full(1024, 6, np.float32))

    def test_other_external_weights_are_found_beside_the_path(self, tmp_path, monkeypatch):
        """Some weights are given, some are external, and the current folder changes before the load."""
        model = build.mlp(64, 2)
        own = Session(model, options()).run([np.ones((1, 64), np.float32)])[0]
        build.with_external_weights(build.mlp(64, 2), tmp_path)
        bias = next(numpy_helper.to_array(t) for t in model.graph.initializer if t.name == "layer0.b")
        monkeypatch.chdir(tmp_path)
        session = Session("mlp.onnx", options(initializers={"layer0.b": bias}))
        np.testing.assert_array_equal(session.run([np.ones((1, 64), np.float32)])[0], own)
        data = Path("mlp.onnx").read_bytes()
        monkeypatch.chdir("/")
        given = Session(data, options(initializers={"layer0.b": bias}), external_data_dir=tmp_path)
        np.testing.assert_array_equal(given.run([np.ones((1, 64), np.float32)])[0], own)

    def test_options_can_be_reused_and_compared(self):
        chosen = options(initializers={"w": W})
        for _ in range(3):
            np.testing.assert_array_equal(Session(PLAIN, chosen).run(X)[0], W + 1)
        assert chosen == options(initializers={"w": W.copy()})
        assert " initializers=" not in repr(chosen)

    @pytest.mark.gpu
    def test_weights_work_on_cuda(self):
        session = Session(PLAIN, options(initializers={"w": W}), ["CUDA"])
        np.testing.assert_array_equal(session.run(X)[0], W + 1)


class TestOptionalInitializers:
    def test_may_be_missing_in_the_model(self):
        settings = options(initializers={"w": W, "other": W}, optional_initializers=["other"])
        np.testing.assert_array_equal(Session(PLAIN, settings).run(X)[0], X["x"] + W)

    def test_replace_weights_that_the_model_has(self):
        settings = options(initializers={"w": W}, optional_initializers=("w", "nowhere"))
        np.testing.assert_array_equal(Session(PLAIN, settings).run(X)[0], X["x"] + W)

    def test_leave_the_model_as_it_is_where_it_has_none_of_them(self):
        settings = options(initializers={"other": W}, optional_initializers=["other"])
        np.testing.assert_array_equal(Session(PLAIN, settings).run(X)[0], X["x"])

    def test_do_not_excuse_other_names(self):
        with pytest.raises(UnknownNameError, match="the model has no weight 'v'"):
            Session(PLAIN, options(initializers={"v": W}, optional_initializers=["other"]))


class TestMistakes:
    @pytest.mark.parametrize("optional", [[], ["words"]])
    def test_weight_of_strings_is_refused(self, optional):
        words = numpy_helper.from_array(np.array(["a", "b"], object), "words")
        kinds = {"x": TensorProto.INT64, "y": TensorProto.STRING}
        infos = [helper.make_tensor_value_info(name, kind, [1]) for name, kind in kinds.items()]
        node = helper.make_node("Gather", ["words", "x"], ["y"])
        graph = helper.make_graph([node], "test", infos[:1], infos[1:], initializer=[words])
        model = helper.make_model(graph, ir_version=10, opset_imports=[helper.make_opsetid("", 21)])
        assert zrt.list_initializers(model) == ()
        mine = options(initializers={"words": Value.from_strings(["c", "d"])}, optional_initializers=optional)
        with pytest.raises(UnsupportedError, match=r"^initializer 'words' is not of numbers"):
            Session(model, mine)

    def test_value_that_is_no_tensor_of_numbers_raises(self):
        for weight, error, kind in (
            (Value.from_strings(["a", "b"]), DTypeError, "string"),
            (Value.from_sequence([W]), UnsupportedError, "is a sequence"),
        ):
            with pytest.raises(error, match=f"initializer 'w'.*{kind}"):
                Session(PLAIN, options(initializers={"w": weight}))

    def test_long_list_of_names_is_cut(self):
        model = onnx.load_from_string(PLAIN)
        for index in range(100):
            model.graph.initializer.append(numpy_helper.from_array(np.ones(1, np.float32), f"more{index}"))
        with pytest.raises(UnknownNameError, match=r"it has 'w', 'more0', .*'more18' and 81 more$"):
            Session(model, options(initializers={"v": W}))


class TestFilesInMemory:
    @pytest.mark.parametrize("form", ["bytes", "bytearray", "memoryview", "array", "mmap", "MappedFile"])
    def test_every_form_of_bytes_works(self, tmp_path, form):
        path = outside(tmp_path, build.mlp(64, 2).SerializeToString())
        x = [np.ones((1, 64), np.float32)]
        own = Session(path, options()).run(x)[0]
        other = (tmp_path / "w.bin").rename(tmp_path / "other")
        content = other.read_bytes()
        with open(other, "rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as mapped:
            data = {
                "bytes": content,
                "bytearray": bytearray(content),
                "memoryview": memoryview(content),
                "array": np.frombuffer(content, np.uint8),
                "mmap": mapped,
                "MappedFile": MappedFile(other).array(),
            }[form]
            for model in (path.read_bytes(), path):
                session = Session(model, options(external_initializer_files={"w.bin": data}))
                np.testing.assert_array_equal(session.run(x)[0], own)

    def test_session_that_borrows_the_files_keeps_them_alive(self, tmp_path):
        """ONNX Runtime borrows them since 1.31, and ignores the entry before."""
        path = outside(tmp_path)
        data = W.copy()
        entries = {"session.use_external_initializer_file_buffers_directly": "1"}
        session = Session(path, options(external_initializer_files={"w.bin": data}, config_entries=entries))
        np.testing.assert_array_equal(session.run(X)[0], W + 1)
        data[:] = 0
        assert (session.run(X)[0] == 1).all() == ort.BORROWS_FILES_IN_MEMORY
        kept = weakref.ref(data)
        del data
        gc.collect()
        assert kept() is not None
        session.close()
        gc.collect()
        assert kept() is None

    def test_ort_copies_the_files(self, tmp_path):
        path = outside(tmp_path)
        data = bytearray(W.tobytes())
        session = Session(path, options(external_initializer_files={"w.bin": data}))
        # The session neither owns nor reads them.
        data[:] = bytes(len(data))
        data.append(0)
        np.testing.assert_array_equal(session.run(X)[0], W + 1)

    @pytest.mark.parametrize("location", ["w.bin", "./w.bin", ".//w.bin", "parts/w.bin", "parts/../w.bin"])
    def test_files_have_the_names_in_the_model(self, tmp_path, location):
        model = onnx.load(outside(tmp_path), load_external_data=False)
        models.move(model.graph.initializer[0], location=location)
        for name in {location, str(Path(location)), "w.bin" if "parts/w" not in location else location}:
            session = Session(model, options(external_initializer_files={name: W.tobytes()}))
            np.testing.assert_array_equal(session.run(X)[0], W + 1)

    def test_files_and_initializers_work_together(self, tmp_path):
        model = build.mlp(64, 2)
        path = outside(tmp_path, model.SerializeToString())
        x = [np.ones((1, 64), np.float32)]
        first = model.graph.initializer[0]
        changed = numpy_helper.to_array(first) + 1
        settings = options(
            initializers={first.name: changed},
            external_initializer_files={"w.bin": (tmp_path / "w.bin").read_bytes()},
        )
        (tmp_path / "w.bin").unlink()
        first.CopyFrom(numpy_helper.from_array(changed, first.name))
        expected = Session(model, options()).run(x)[0]
        np.testing.assert_array_equal(Session(path, settings).run(x)[0], expected)

    def test_missing_file_raises(self, tmp_path):
        model = onnx.load(outside(tmp_path, build.mlp(64, 2).SerializeToString()), load_external_data=False)
        models.move(model.graph.initializer[0], location="first.bin")
        with pytest.raises(ArgumentError, match=r"external_initializer_files: 'first\.bin' is missing"):
            Session(model, options(external_initializer_files={"w.bin": bytes(1 << 20)}))


class TestPrepackedWeights:
    def test_results_are_the_same_with_prepacked_weights(self):
        model = build.mlp(64, 2)
        weights = zrt.read_weights(model)
        container = PrepackedWeights()
        x = [np.random.default_rng(0).random((4, 64), np.float32)]
        own = Session(model, options()).run(x)[0]
        shared = options(initializers=weights, prepacked_weights=container)
        sessions = [Session(form, shared) for form in (model, model.SerializeToString(), model)]
        container.close()
        del container, shared
        gc.collect()
        for session in sessions:
            np.testing.assert_array_equal(session.run(x)[0], own)

    def test_several_models_and_threads_share_them(self):
        container = PrepackedWeights()

        def same(width: int) -> bool:
            model = build.mlp(width, 2)
            shared = options(initializers=zrt.read_weights(model), prepacked_weights=container)
            x = [np.ones((1, width), np.float32)]
            return np.array_equal(Session(model, shared).run(x)[0], Session(model, options()).run(x)[0])

        with ThreadPoolExecutor(4) as pool:
            assert all(pool.map(same, (32, 32, 64, 64)))

    def test_sessions_without_initializers_accept_them(self, tmp_path):
        (tmp_path / "m.onnx").write_bytes(PLAIN)
        for model in (PLAIN, tmp_path / "m.onnx"):
            session = Session(model, options(prepacked_weights=PrepackedWeights()))
            np.testing.assert_array_equal(session.run(X)[0], X["x"])


@pytest.mark.parametrize("order", range(6))
def test_weights_outlive_everything_over_them(tmp_path, order):
    """Objects over the weights are freed in any order: the last one unmaps the memory."""
    shutil.copy(outside(tmp_path), tmp_path / "kept.onnx")
    (tmp_path / "mine").write_bytes(W.tobytes())
    file = MappedFile(tmp_path / "mine")
    weight = file.tensor("float32", (1024,))
    session = Session(tmp_path / "kept.onnx", options(initializers={"w": weight}, prepacked_weights=PrepackedWeights()))
    lane = session.lane()
    lane.inputs["x"][...] = 1
    binding = bind(session, X, "y")
    things: dict[str, Any] = {"file": file, "weight": weight, "session": session, "lane": lane, "binding": binding}
    # In a cycle, so that the GC frees them.
    circle: list[Any] = [things]
    circle.append(circle)
    del file, weight, session, lane, binding
    names = list(itertools.permutations(["file", "weight", "session"]))[order]
    for name in names:
        del things[name]
        gc.collect()
        things["lane"].run()
        np.testing.assert_array_equal(things["lane"].outputs["y"], W + 1)
        things["binding"].run()
        np.testing.assert_array_equal(things["binding"].numpy()["y"], W + 1)
    output = things["lane"].outputs["y"]
    del things, circle
    gc.collect()
    np.testing.assert_array_equal(output, W + 1)


def test_outputs_that_are_weights_are_copies(tmp_path):
    """A graph may output a weight directly, or through operators that only forward their input."""
    text = """(float[1024] x, bool choice) => (float[] w, float[] same, float[] flat, float[] chosen) {
        same = Identity(w)
        flat = Flatten(w)
        chosen = If (choice) <
            then_branch = a () => (float[] then) { then = Identity(w) },
            else_branch = b () => (float[] other) { other = Identity(x) }
        >
    }"""
    model = models.parsed(text, w=np.zeros(1024, np.float32))
    (tmp_path / "mine").write_bytes(W.tobytes())
    weight = MappedFile(tmp_path / "mine").tensor("float32", (1024,))
    session = Session(model, options(initializers={"w": weight}))
    results = session.run({**X, "choice": np.array(True)})
    del weight, session
    gc.collect()
    for result in results:
        np.testing.assert_array_equal(result.reshape(-1), W)
