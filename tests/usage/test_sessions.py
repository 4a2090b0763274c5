"""How to use sessions: load a model, inspect it, run it. Each test shows one use.

These tests are examples to read; the other folders test edge cases and stability.
"""

from __future__ import annotations

import threading
from pathlib import Path

import ml_dtypes
import numpy as np
import onnx
import pytest

import zrt
from tests.support import models
from zrt.types import pack


@pytest.fixture
def model() -> onnx.ModelProto:
    """scores = softmax(image · weights), for any number of images of 4 pixels."""
    return onnx.parser.parse_model("""
        <ir_version: 10, opset_import: ["" : 21], producer_name: "example">
        classify (float[batch, 4] image) => (float[batch, 2] scores)
        <float[4, 2] weights = {1, 0, 0, 1, 1, 0, 0, 1}>
        {
            logits = MatMul(image, weights)
            scores = Softmax(logits)
        }
    """)


@pytest.fixture
def path(model: onnx.ModelProto, tmp_path: Path) -> Path:
    onnx.save(model, tmp_path / "classify.onnx")
    return tmp_path / "classify.onnx"


@pytest.fixture
def session(path: Path) -> zrt.Session:
    return zrt.Session(path)


@pytest.fixture
def image() -> np.ndarray:
    return np.array([[1, 0, 1, 0]], np.float32)


class TestLoading:
    def test_load_a_model_and_run_it(self, path, image):
        session = zrt.Session(path)
        (scores,) = session.run({"image": image})
        assert scores.shape == (1, 2)
        assert scores.argmax() == 0

    def test_run_a_model_once(self, path, image):
        (scores,) = zrt.infer(path, {"image": image})
        assert scores.argmax() == 0

    def test_load_from_memory(self, path, model, image):
        for source in (path.read_bytes(), model):
            (scores,) = zrt.Session(source).run({"image": image})
            assert scores.argmax() == 0

    def test_load_weights_that_lie_outside_the_model(self, model, image, tmp_path):
        onnx.save(model, tmp_path / "m.onnx", save_as_external_data=True, location="weights.bin", size_threshold=0)
        # Weights beside the path are found by default; for a model in memory give their folder.
        beside = zrt.Session(tmp_path / "m.onnx")
        named = zrt.Session((tmp_path / "m.onnx").read_bytes(), external_data_dir=tmp_path)
        assert beside.run([image])[0].tolist() == named.run([image])[0].tolist()

    def test_end_a_session_early(self, path, image):
        with zrt.Session(path) as session:
            (scores,) = session.run([image])
        assert scores.argmax() == 0
        with pytest.raises(zrt.errors.ClosedError):
            session.run([image])

    def test_set_options(self, path):
        options = zrt.SessionOptions(
            intra_op_num_threads=1,
            graph_optimization_level="ENABLE_EXTENDED",
            free_dimension_overrides={"batch": 8},
            config_entries={"session.disable_prepacking": "1"},
        )
        assert zrt.Session(path, options).inputs[0].shape == (8, 4)

    def test_choose_providers(self, path):
        # CUDA before the CPU execution provider if a GPU works here, else the CPU execution provider alone.
        session = zrt.Session(path, providers=zrt.prefer_gpu())
        assert session.providers[-1] == "CPUExecutionProvider"

    def test_list_available_providers(self):
        assert "CPUExecutionProvider" in zrt.available_providers()


class TestInspecting:
    def test_read_inputs_and_outputs(self, session):
        (image,), (scores,) = session.inputs, session.outputs
        assert (image.name, image.element_type.name, image.shape) == ("image", "FLOAT", ("batch", 4))
        assert (scores.name, scores.element_type.dtype, scores.symbolic_dimensions) == (
            "scores",
            np.float32,
            ("batch",),
        )
        assert str(image) == "image: float32[batch, 4]"

    def test_read_metadata(self, session):
        assert session.metadata.producer_name == "example"
        assert session.metadata.graph_name == "classify"


class TestRunning:
    def test_feed_by_name_or_in_order(self, session, image):
        (by_name,) = session.run({"image": image})
        (in_order,) = session.run([image])
        assert by_name.tolist() == in_order.tolist()

    def test_ask_for_some_outputs(self, session, image):
        (scores,) = session.run([image], ["scores"])
        assert scores.shape == (1, 2)

    def test_feed_a_slice_of_a_larger_array(self, session):
        # An array that is not contiguous is copied for the run.
        images = np.zeros((4, 100), np.float32)[:, ::25]
        assert session.run([images])[0].shape == (4, 2)

    def test_keep_results(self, session, image):
        (first,) = session.run([image])
        (second,) = session.run([image[:, ::-1]])
        # Results belong to the caller: no later run writes into them.
        assert first.argmax() == 0
        assert second.argmax() == 1

    def test_errors_name_the_mistake(self, session, image):
        with pytest.raises(zrt.errors.UnknownNameError, match="no input 'picture'; it has 'image'"):
            session.run({"picture": image})
        with pytest.raises(zrt.errors.DTypeError, match="input 'image': expected float32, got float64"):
            session.run({"image": image.astype(np.float64)})
        with pytest.raises(zrt.errors.ShapeError, match=r"input 'image': expected shape \[batch, 4\], got \[4\]"):
            session.run({"image": image[0]})

    def test_run_over_the_same_arrays_again_and_again(self, session, image):
        prepared = session.prepare({"image": image})
        (before,) = prepared.run()
        image[...] = [0, 1, 0, 1]
        (after,) = prepared.run()
        assert (before.argmax(), after.argmax()) == (0, 1)

    def test_run_in_many_threads(self, session, image):
        results = []
        threads = [threading.Thread(target=lambda: results.append(session.run([image]))) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert [scores.argmax() for (scores,) in results] == [0] * 8

    def test_run_on_4_bit_numbers(self):
        session = zrt.Session(
            onnx.parser.parse_model("""
                <ir_version: 10, opset_import: ["" : 21]>
                widen (int4[n] x) => (float[n] y) { y = Cast <to = 1> (x) }
            """)
        )
        numbers = np.array([1, -2, 3], ml_dtypes.int4)
        value = zrt.Value.from_packed(pack(numbers, zrt.ElementType.INT4), zrt.ElementType.INT4, numbers.shape)
        assert session.run([value])[0].tolist() == [1, -2, 3]


class TestRunOptions:
    def test_end_a_run_from_another_thread(self, loop, endless):
        options = zrt.RunOptions(tag="request 17")
        threading.Timer(0.05, options.terminate).start()
        with pytest.raises(zrt.errors.TerminatedError):
            loop.run(endless, options=options)
        options.reset()
        (y,) = loop.run({"n": np.array(3), "x": np.ones(2, np.float32)}, options=options)
        assert y.tolist() == [8, 8]


class TestBinding:
    def test_write_results_into_an_array_of_your_own(self, session, image):
        scores = np.empty((1, 2), np.float32)
        binding = session.binding()
        binding.bind_input("image", image)
        binding.bind_output("scores", scores)
        binding.run()
        assert scores.argmax() == 0
        image[...] = [0, 1, 0, 1]
        binding.run()
        assert scores.argmax() == 1

    def test_let_onnx_runtime_allocate_results(self, session):
        binding = session.binding()
        binding.bind_output("scores")
        for batch in (1, 5):
            binding.bind_input("image", np.zeros((batch, 4), np.float32))
            binding.run()
            assert binding.numpy()["scores"].shape == (batch, 2)


def test_end_a_run_that_takes_too_long():
    session = zrt.Session(models.counting_loop(), zrt.SessionOptions(log_severity_level="FATAL"))
    feeds = {"turns": np.array(2**40), "start": np.zeros(2, np.float32)}

    with pytest.raises(zrt.errors.TimeoutError):  # the builtin TimeoutError, too
        session.run(feeds, timeout=0.05)

    feeds["turns"] = np.array(3)
    assert session.run(feeds, timeout=60)[0].tolist() == [3, 3]
