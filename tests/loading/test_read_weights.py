"""`read_weights` and `share_weights`: one copy of the weights for any number of sessions."""

import itertools
import os
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

import zrt
from benches import resident
from benches.models import build
from tests.support import models
from tests.support.lanes import run_on
from zrt import Runtime, Session, SessionOptions
from zrt.errors import ModelError
from zrt.loading.read_weights import trim_heap

ROOT = Path(__file__).parents[2]


def load(model: Any, weights: dict[str, zrt.Value], options: SessionOptions | None = None) -> Session:
    return Session(model, replace(options or SessionOptions(), initializers=weights))


def image(seed: int) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal((2, 1, 28, 28), np.float32)


class TestWeights:
    def test_large_weights_are_read(self):
        weights = zrt.read_weights(build.mlp(64, 2))
        assert list(weights) == ["layer0.w", "layer1.w"]
        assert sum(value.nbytes for value in weights.values()) == 2 * 64 * 64 * 4

    def test_model_without_large_weights(self):
        assert zrt.read_weights(models.add()) == {}
        x = np.ones(4, np.float32)
        (lane,) = Runtime.replicate(models.add(), share_weights=True)
        np.testing.assert_array_equal(lane.session.run([x, x])[0], x + x)

    @pytest.mark.parametrize("name", ["cnn", pytest.param("squeezenet", marks=pytest.mark.onnx_data("light"))])
    @pytest.mark.parametrize("level", ["DISABLE_ALL", "ENABLE_BASIC", "ENABLE_ALL"])
    def test_results_are_the_same_with_them(self, name, level):
        options = SessionOptions(graph_optimization_level=level, intra_op_num_threads=1)
        model = build.MODELS[name]()
        own, weights = Session(model, options), zrt.read_weights(model)
        shape = tuple(size if isinstance(size, int) else 2 for size in own.inputs[0].shape)
        x = [np.random.default_rng(3).standard_normal(shape, np.float32)]
        for _ in range(2):
            np.testing.assert_array_equal(load(model, weights, options).run(x)[0], own.run(x)[0])

    def test_every_type_and_place_of_an_initializer(self, tmp_path):
        """Shared, too small to share, packed, fed as an input, and in a subgraph: in the model or external."""
        import ml_dtypes
        from onnx import helper, numpy_helper

        row = np.arange(1024)
        weights = {
            "f32": row.astype(np.float32),
            "f64": row.astype(np.float64),
            "f16": (row % 8).astype(np.float16),
            "i64": row.astype(np.int64),
            "u8": (row % 256).astype(np.uint8),
            "flag": row % 2 == 0,
            "i4": (np.tile(row, 4) % 8).astype(ml_dtypes.int4).reshape(4, 1024),
            "small": np.array([3], np.float32),
        }
        casts = "\n".join(f"{name}_f = Cast <to = 1> ({name})" for name in weights)
        text = f"""(float[1] x, bool choice, float[1024] default) => (float[] y) {{
            {casts}
            total = Sum(x, default, {", ".join(f"{name}_f" for name in weights)})
            y = If (choice) <
                then_branch = a () => (float[] then) {{ then = Add(total, sub) }},
                else_branch = b () => (float[] other) {{ other = Identity(total) }}
            >
        }}"""
        model = models.parsed(text, **weights, default=row.astype(np.float32))
        branch = model.graph.node[-1].attribute[0].g
        branch.initializer.append(numpy_helper.from_array(row.astype(np.float32), "sub"))
        # In the typed fields of TensorProto, rather than raw_data.
        typed = next(tensor for tensor in model.graph.initializer if tensor.name == "f32")
        typed.CopyFrom(helper.make_tensor("f32", models.FLOAT, [1024], weights["f32"].tolist()))
        expected = sum(array.astype(np.float32) for array in weights.values()) + 2 * row + 1
        feeds = {"x": np.ones(1, np.float32), "choice": np.array(True)}
        copy = onnx.ModelProto()
        copy.CopyFrom(model)
        onnx.save_model(copy, tmp_path / "m.onnx", save_as_external_data=True, location="w", size_threshold=0)
        for form in (model, tmp_path / "m.onnx"):
            shared = zrt.read_weights(form)
            assert set(shared) == {"f32", "f64", "f16", "i64", "u8", "flag", "i4"}
            session = load(form, shared)
            np.testing.assert_array_equal(session.run(feeds)[0], expected)
            # A weight that may be fed is not read.
            fed = session.run({**feeds, "default": np.zeros(1024, np.float32)})[0]
            np.testing.assert_array_equal(fed, expected - row)

    def test_a_relative_path_and_a_change_of_folder(self, tmp_path, monkeypatch):
        build.with_external_weights(build.mlp(64, 2), tmp_path)
        monkeypatch.chdir(tmp_path)
        weights = zrt.read_weights("mlp.onnx")
        monkeypatch.chdir("/")
        session = load(tmp_path / "mlp.onnx", weights)
        assert session.run({"x": np.ones((1, 64), np.float32)})[0].shape == (1, 64)

    def test_weights_and_sessions_outlive_each_other(self):
        x = np.ones((1, 64), np.float32)
        expected = Session(build.mlp(64, 2)).run({"x": x})[0]
        for order in itertools.permutations(range(4)):
            runtime = Runtime.replicate(build.mlp(64, 2), 2, share_weights=True, shapes=[(1, 64)])
            view = runtime[0].outputs["y"]
            things = [*runtime, runtime.sessions[1], runtime]
            del runtime
            for index in order:
                live = next((thing for thing in things[:2] if thing is not None and not thing.closed), None)
                if live is not None:
                    np.testing.assert_array_equal(run_on(live, x=x)["y"], expected)
                things[index].close()
                things[index] = None
            assert view.shape == (1, 64)


def test_the_onnx_package_is_not_needed(monkeypatch):
    data = build.mlp(64, 2).SerializeToString()
    monkeypatch.setitem(sys.modules, "onnx", None)
    assert len(Runtime.replicate(data, 2, share_weights=True, shapes=[(1, 64)])) == 2


@pytest.mark.parametrize(
    ("location", "says"),
    [
        ("../mlp.weights", r"mlp\.weights', outside the model's folder"),
        ("a/../../mlp.weights", r"mlp\.weights', outside the model's folder"),
        ("/etc/hostname", "'/etc/hostname', outside the model's folder"),
        ("", "initializer 'layer0.w'"),
    ],
)
def test_external_weights_elsewhere_are_refused(tmp_path, location, says):
    (tmp_path / "a").mkdir()
    build.with_external_weights(build.mlp(64, 2), tmp_path)
    model = onnx.load(tmp_path / "mlp.onnx", load_external_data=False)
    models.move(model.graph.initializer[0], location=location)
    onnx.save(model, tmp_path / "other.onnx")
    with pytest.raises(ModelError, match=says) as caught:
        zrt.read_weights(tmp_path / "other.onnx")
    assert "other.onnx" in str(caught.value)
    with pytest.raises(ModelError, match=says):
        zrt.read_weights(model, tmp_path)


@pytest.mark.parametrize(
    ("offset", "says"),
    [
        (10**20, "external offset '100000000000000000000'"),
        (2**63 - 1, r"'mlp\.weights' ends 9223372036854775807 bytes too soon"),
        (4, r"'mlp\.weights' ends 4 bytes too soon"),
    ],
)
def test_weight_that_ends_behind_its_file_raises(tmp_path, offset, says):
    build.with_external_weights(build.mlp(64, 1), tmp_path)
    content = (tmp_path / "mlp.weights").read_bytes()
    model = onnx.load(tmp_path / "mlp.onnx", load_external_data=False)
    last = max(model.graph.initializer, key=lambda tensor: tensor.dims[0] if len(tensor.dims) == 2 else 0)
    models.move(last, offset=offset + (len(content) - 4 * 64 * 64 if offset == 4 else 0))
    with pytest.raises(ModelError, match=says):
        zrt.read_weights(model, tmp_path)
    with pytest.raises(ModelError, match=says):
        zrt.read_weights(model, tmp_path, {"mlp.weights": content})


def test_no_memory_is_taken_for_a_weight_that_is_not_there(tmp_path, monkeypatch):
    build.with_external_weights(build.mlp(64, 1), tmp_path)
    model = onnx.load(tmp_path / "mlp.onnx", load_external_data=False)
    tensor = next(tensor for tensor in model.graph.initializer if len(tensor.dims) == 2)
    tensor.dims[0] = 1 << 40
    kept = [entry for entry in tensor.external_data if entry.key != "length"]
    del tensor.external_data[:]
    tensor.external_data.extend(kept)
    monkeypatch.setattr("zrt.loading.external_weights.Buffer", pytest.fail)
    for given in ({}, {"mlp.weights": (tmp_path / "mlp.weights").read_bytes()}):
        with pytest.raises(ModelError, match=r"'mlp\.weights' ends .* bytes too soon"):
            zrt.read_weights(model, tmp_path, given)


def test_pipe_in_place_of_a_file_raises(tmp_path):
    build.with_external_weights(build.mlp(64, 2), tmp_path)
    (tmp_path / "mlp.weights").unlink()
    os.mkfifo(tmp_path / "mlp.weights")
    with pytest.raises(ModelError, match=r"initializer 'layer0\.w': file 'mlp\.weights' .*: Not a regular file"):
        zrt.read_weights(tmp_path / "mlp.onnx")


def test_what_the_caller_gives_is_kept(monkeypatch):
    """The caller's own weights take precedence over the model's, and the caller's container is used."""
    containers = []
    load = Session.__init__

    def noted(session, model, options, *arguments, **keywords):
        containers.append(options.prepacked_weights)
        load(session, model, options, *arguments, **keywords)

    model = build.mlp(64, 1)
    weight = np.eye(64, dtype=np.float32)
    container = zrt.PrepackedWeights()
    options = SessionOptions(initializers={"layer0.w": weight}, prepacked_weights=container)
    with monkeypatch.context() as patch:
        patch.setattr(Session, "__init__", noted)
        runtime = Runtime.replicate(model, 2, options, share_weights=True, shapes=[(1, 64)])
    assert containers == [container, container]
    container.close()
    x = np.ones((1, 64), np.float32)
    expected = Session(model, SessionOptions(initializers={"layer0.w": weight})).run([x])[0]
    for session in runtime.sessions:
        np.testing.assert_array_equal(session.run([x])[0], expected)


def test_a_heap_without_trim(monkeypatch):
    class Plain:
        """A C library without glibc's function."""

    monkeypatch.setattr("ctypes.CDLL", lambda _: Plain())
    trim_heap()


@pytest.mark.skipif(sys.platform != "linux", reason="reads Linux's /proc")
@pytest.mark.slow
def test_memory_falls(tmp_path):
    """Four sessions over 64 MiB of weights: without sharing, each session needs a copy; with sharing, they need one."""
    width, depth = 1024, 16
    onnx.save_model(build.mlp(width, depth), tmp_path / "mlp.onnx")
    apart, shared = (resident.measure(tmp_path / "mlp.onnx", 4, share, width) for share in (False, True))
    assert apart.result == shared.result
    weights = width * width * depth * 4 >> 20
    assert apart.mib > 4 * weights
    # The weights, their prepacked form, and the other memory of the sessions.
    assert shared.mib < 3 * weights


@pytest.mark.gpu
def test_with_a_device_the_numbers_are_the_same():
    own = Session(build.cnn(), providers=["CUDA"])
    (shared,) = zrt.Runtime.replicate(build.cnn(), 1, None, ["CUDA"], share_weights=True, shapes=[(2, 1, 28, 28)])
    logits = run_on(shared, image=image(0))["logits"]
    np.testing.assert_allclose(logits, own.run({"image": image(0)})[0], rtol=1e-3, atol=1e-3)
