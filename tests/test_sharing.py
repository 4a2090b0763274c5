"""`SharedWeights`: weights in memory once, whatever the number of sessions."""

from __future__ import annotations

import itertools
import subprocess
import sys
import textwrap
from pathlib import Path

import numpy as np
import onnx
import pytest

import zrt
from benches.models import build
from tests import models
from zrt import Runtime, Session, SessionOptions
from zrt.errors import ModelError, UnsupportedError
from zrt.session import prepare_options
from zrt.sharing import SharedWeights, trim_heap

ROOT = Path(__file__).parents[1]


def load(weights: SharedWeights, options: SessionOptions | None = None) -> Session:
    return Session.adopt(weights.load(prepare_options(options, [])), [])


def image(seed: int) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal((2, 1, 28, 28), np.float32)


class TestWeights:
    def test_the_large_ones_are_shared(self):
        weights = SharedWeights(build.mlp(64, 2))
        assert weights.names == ("layer0.w", "layer1.w")
        assert weights.nbytes == 2 * 64 * 64 * 4

    def test_a_model_without_any(self):
        weights = SharedWeights(models.add())
        assert weights.names == ()
        x = np.ones(4, np.float32)
        np.testing.assert_array_equal(load(weights).run([x, x])[0], x + x)

    @pytest.mark.parametrize("name", ["cnn", "squeezenet"])
    @pytest.mark.parametrize("level", ["DISABLE_ALL", "ENABLE_BASIC", "ENABLE_ALL"])
    def test_the_numbers_are_the_same(self, name, level):
        options = SessionOptions(graph_optimization_level=level, intra_op_num_threads=1)
        model = build.MODELS[name]()
        own, weights = Session(model, options), SharedWeights(model)
        shape = tuple(size if isinstance(size, int) else 2 for size in own.inputs[0].shape)
        x = [np.random.default_rng(3).standard_normal(shape, np.float32)]
        for _ in range(2):
            np.testing.assert_array_equal(load(weights, options).run(x)[0], own.run(x)[0])

    def test_every_type_and_place_of_an_initializer(self, tmp_path):
        """Shared, too small to share, packed, fed as an input, and in a subgraph: in the model or outside of it."""
        import ml_dtypes
        from onnx import TensorProto, helper, numpy_helper

        row = np.arange(1024)
        weights = {
            "f32": row.astype(np.float32),
            "f64": row.astype(np.float64),
            "f16": (row % 8).astype(np.float16),
            "i64": row.astype(np.int64),
            "u8": (row % 256).astype(np.uint8),
            "flag": row % 2 == 0,
            "i4": (row % 8).astype(ml_dtypes.int4),
            "small": np.array([3], np.float32),
        }
        subgraph = helper.make_graph(
            [models.node("Add", ["total", "sub"], ["then"])],
            "branch",
            [],
            [models.tensor("then", models.FLOAT, [1024])],
            [numpy_helper.from_array(row.astype(np.float32), "sub")],
        )
        other = helper.make_graph(
            [models.node("Identity", ["total"], ["else"])], "other", [], [models.tensor("else", models.FLOAT, [1024])]
        )
        casts = [models.node("Cast", [name], [f"{name}_f"], to=models.FLOAT) for name in weights]
        model = onnx.load_from_string(
            models.build(
                [
                    *casts,
                    models.node("Sum", ["x", "default", *(f"{name}_f" for name in weights)], ["total"]),
                    models.node("If", ["choice"], ["y"], then_branch=subgraph, else_branch=other),
                ],
                [
                    models.tensor("x", models.FLOAT, [1]),
                    models.tensor("choice", TensorProto.BOOL, []),
                    models.tensor("default", models.FLOAT, [1024]),
                ],
                [models.tensor("y", models.FLOAT, [1024])],
                {**weights, "default": row.astype(np.float32)},
            )
        )
        # The package's own typed fields, rather than raw bytes.
        typed = next(tensor for tensor in model.graph.initializer if tensor.name == "f32")
        typed.CopyFrom(helper.make_tensor("f32", models.FLOAT, [1024], weights["f32"].tolist()))
        expected = sum(array.astype(np.float32) for array in weights.values()) + 2 * row + 1
        feeds = {"x": np.ones(1, np.float32), "choice": np.array(True)}
        copy = onnx.ModelProto()
        copy.CopyFrom(model)
        onnx.save_model(copy, tmp_path / "m.onnx", save_as_external_data=True, location="w", size_threshold=0)
        for form in (model, tmp_path / "m.onnx"):
            shared = SharedWeights(form)
            assert set(shared.names) == {"f32", "f64", "f16", "i64", "u8", "flag"}
            session = load(shared)
            np.testing.assert_array_equal(session.run(feeds)[0], expected)
            # What may be fed stays a matter of feeding.
            fed = session.run({**feeds, "default": np.zeros(1024, np.float32)})[0]
            np.testing.assert_array_equal(fed, expected - row)

    def test_a_relative_path_and_a_change_of_folder(self, tmp_path, monkeypatch):
        build.with_external_weights(build.mlp(64, 2), tmp_path)
        monkeypatch.chdir(tmp_path)
        weights = SharedWeights("mlp.onnx")
        monkeypatch.chdir("/")
        assert load(weights).run({"x": np.ones((1, 64), np.float32)})[0].shape == (1, 64)

    def test_outlive_each_other_in_any_order(self):
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
                    live.inputs["x"][...] = x
                    live.run()
                    np.testing.assert_array_equal(live.outputs["y"], expected)
                things[index].close()
                things[index] = None
            assert view.shape == (1, 64)


def test_without_the_onnx_package_the_error_says_so(monkeypatch):
    data = models.add()
    monkeypatch.setitem(sys.modules, "onnx", None)
    with pytest.raises(UnsupportedError, match=r"share_weights reads the model with the onnx package: pip install"):
        Runtime.replicate(data, 2, share_weights=True)
    # Sessions of their own need no such package.
    assert len(Runtime.replicate(data, 2)) == 2


def test_a_model_that_cannot_be_read_is_named(tmp_path):
    path = tmp_path / "broken.onnx"
    path.write_bytes(b"\xff\xff broken")
    with pytest.raises(ModelError, match=r"model '.*broken\.onnx' cannot be read"):
        SharedWeights(path)
    with pytest.raises(ModelError, match="model in memory cannot be read"):
        SharedWeights(b"\xff\xff broken")


def test_an_error_of_the_engines_names_the_model(tmp_path):
    model = onnx.load_from_string(models.add())
    model.ir_version = 99
    path = tmp_path / "new.onnx"
    path.write_bytes(model.SerializeToString())
    with pytest.raises(ModelError, match=r"model '.*new\.onnx' is written in a newer form"):
        load(SharedWeights(path))


def test_a_heap_without_trim(monkeypatch):
    class Plain:
        """A C library without glibc's function."""

    monkeypatch.setattr("ctypes.CDLL", lambda _: Plain())
    trim_heap()


@pytest.mark.skipif(sys.platform != "linux", reason="reads Linux's /proc")
def test_memory_falls(tmp_path):
    """Four sessions over 64 MiB of weights: apart, each takes as much and more; sharing, they take it once."""
    width, depth = 1024, 16
    onnx.save_model(build.mlp(width, depth), tmp_path / "mlp.onnx")
    code = """
        import resource, sys
        import numpy as np
        import onnx, zrt

        def resident():
            with open("/proc/self/statm") as file:
                return int(file.read().split()[1]) * resource.getpagesize() >> 20

        before = resident()
        runtime = zrt.Runtime.replicate(
            sys.argv[1], 4, zrt.SessionOptions(intra_op_num_threads=1), share_weights=sys.argv[2] == "True",
            shapes=[(1, int(sys.argv[3]))],
        )
        runtime.prime()
        grown = resident() - before
        for lane in runtime:
            lane.inputs["x"][...] = 1
            lane.run()
        assert all(np.array_equal(lane.outputs["y"], runtime[0].outputs["y"]) for lane in runtime)
        print(grown, float(runtime[0].outputs["y"].sum()))
    """

    def measure(share: bool) -> tuple[int, float]:
        done = subprocess.run(
            [sys.executable, "-c", textwrap.dedent(code), str(tmp_path / "mlp.onnx"), str(share), str(width)],
            capture_output=True,
            text=True,
            cwd=ROOT,
            timeout=120,
        )
        assert done.returncode == 0, done.stderr
        grown, numbers = done.stdout.split()
        return int(grown), float(numbers)

    weights = width * width * depth * 4 >> 20
    (apart, one), (shared, other) = measure(False), measure(True)
    assert one == other
    assert apart > 4 * weights
    # The weights, their prepacked form, and all that the sessions take besides.
    assert shared < 3 * weights


@pytest.mark.gpu
def test_with_a_device_the_numbers_are_the_same():
    own = Session(build.cnn(), providers=["CUDA"])
    (shared,) = zrt.Runtime.replicate(build.cnn(), 1, None, ["CUDA"], share_weights=True, shapes=[(2, 1, 28, 28)])
    shared.inputs["image"][...] = image(0)
    shared.run()
    np.testing.assert_allclose(shared.outputs["logits"], own.run({"image": image(0)})[0], rtol=1e-3, atol=1e-3)
