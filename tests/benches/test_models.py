"""The models of the benches compute correct results; the shipped classifier reads digits that it was not trained on."""

from importlib import resources
from pathlib import Path

import numpy as np
import onnx
import pytest
from numpy.typing import NDArray
from onnx.reference import ReferenceEvaluator

from benches.models import build, train_digits

onnxruntime = pytest.importorskip(
    "onnxruntime", exc_type=ImportError, reason="the results are compared with the official package"
)

Array = NDArray[np.float32]
SHIPPED = resources.files("zrt.models")


def infer(model: onnx.ModelProto | Path, feeds: dict[str, Array]) -> Array:
    """The first output of `model`, computed by the official package on the CPU."""
    source = str(model) if isinstance(model, Path) else model.SerializeToString()
    session = onnxruntime.InferenceSession(source, providers=["CPUExecutionProvider"])
    result: Array = session.run(None, feeds)[0]
    return result


def reference(model: onnx.ModelProto, feeds: dict[str, Array]) -> Array:
    """The first output of `model`, computed by onnx's reference evaluator."""
    results = ReferenceEvaluator(model).run(None, feeds)
    assert isinstance(results, list)
    first: Array = results[0]
    return first


def noise(*shape: int, seed: int = 0) -> Array:
    return np.random.default_rng(seed).random(shape, np.float32)


def held_back() -> train_digits.Digits:
    with resources.as_file(SHIPPED / "digits.npz") as path, np.load(path) as file:
        return train_digits.Digits(file["images"], file["labels"])


def shipped_model() -> onnx.ModelProto:
    return onnx.load_model_from_string((SHIPPED / "digits.onnx").read_bytes())


@pytest.mark.parametrize("name", build.MODELS)
def test_model_is_valid_and_always_the_same(name):
    model, again = build.MODELS[name](), build.MODELS[name]()
    onnx.checker.check_model(model, full_check=True)
    assert model.ir_version == 10
    assert model.SerializeToString(deterministic=True) == again.SerializeToString(deterministic=True)


def test_add_adds():
    x, y = noise(4), noise(4, seed=1)
    np.testing.assert_array_equal(infer(build.add(), {"x": x, "y": y}), x + y)


@pytest.mark.parametrize("nbytes", [4, 256 * build.KIB])
def test_relay_adds_one(nbytes):
    x = noise(nbytes // 4)
    np.testing.assert_array_equal(infer(build.relay(nbytes), {"x": x}), x + 1)


@pytest.mark.parametrize("nbytes", [0, -4, 6])
def test_relay_needs_whole_floats(nbytes):
    with pytest.raises(ValueError, match="multiple of 4"):
        build.relay(nbytes)


@pytest.mark.parametrize(("batch", "images"), [("batch", 3), (2, 2)])
def test_cnn_agrees_with_the_reference(batch, images):
    model, feeds = build.cnn(batch), {"image": noise(images, 1, 28, 28)}
    result = infer(model, feeds)
    assert result.shape == (images, 10)
    np.testing.assert_allclose(result, reference(model, feeds), rtol=1e-4, atol=1e-5)


def test_mlp_agrees_with_numpy():
    model = build.mlp(width=32, depth=3, seed=5)
    expected = x = noise(2, 32)
    weights = {tensor.name: onnx.numpy_helper.to_array(tensor) for tensor in model.graph.initializer}
    for layer in range(3):
        expected = np.maximum(expected @ weights[f"layer{layer}.w"] + weights[f"layer{layer}.b"], 0)
    np.testing.assert_allclose(infer(model, {"x": x}), expected, rtol=1e-4, atol=1e-5)
    assert sum(weight.nbytes for weight in weights.values()) == 4 * 32 * 33 * 3


@pytest.mark.onnx_data("light")
@pytest.mark.parametrize("name", ["squeezenet", "shufflenet"])
def test_real_architecture_depends_on_its_image(name):
    model = build.real_architecture(name)
    (image,) = (value.name for value in model.graph.input)
    one, other = (infer(model, {image: noise(1, 3, 224, 224, seed=seed)}) for seed in (0, 1))
    assert np.isfinite(one).all()
    assert one.sum() == pytest.approx(1, abs=1e-4)
    assert np.abs(one - other).max() > 1e-4


def test_unknown_architecture_is_named():
    with pytest.raises(ValueError, match=r"'lenet'.*squeezenet"):
        build.real_architecture("lenet")


def test_external_weights_do_not_change_the_model(tmp_path):
    model = build.mlp(width=64, depth=2)
    before = model.SerializeToString(deterministic=True)
    path = build.with_external_weights(model, tmp_path)
    size = path.with_suffix(".weights").stat().st_size
    assert size >= 4 * 64 * 64 * 2 > path.stat().st_size
    build.with_external_weights(model, tmp_path)
    assert path.with_suffix(".weights").stat().st_size == size
    assert model.SerializeToString(deterministic=True) == before
    x = noise(1, 64)
    np.testing.assert_array_equal(infer(path, {"x": x}), infer(model, {"x": x}))


def test_shipped_model_reads_the_held_back_digits():
    model, digits = shipped_model(), held_back()
    onnx.checker.check_model(model, full_check=True)
    probabilities = infer(model, {"image": digits.pixels.astype(np.float32)})
    np.testing.assert_allclose(probabilities.sum(axis=1), 1, atol=1e-5)
    accuracy = float((probabilities.argmax(axis=1) == digits.labels).mean())
    assert accuracy >= 0.97
    properties = {entry.key: entry.value for entry in model.metadata_props}
    assert properties["accuracy"].startswith(f"{accuracy:.4f} ")
    assert properties["classes"] == "0,1,2,3,4,5,6,7,8,9"


def test_shipped_files_are_small():
    assert len((SHIPPED / "digits.onnx").read_bytes()) < 100_000
    assert len((SHIPPED / "digits.npz").read_bytes()) < 30_000


def test_held_back_digits_are_complete_and_unique():
    digits = held_back()
    assert digits.images.shape == (360, 8, 8)
    assert digits.images.dtype == digits.labels.dtype == np.uint8
    assert digits.images.max() == 16
    assert np.bincount(digits.labels, minlength=10).min() >= 30
    assert len(np.unique(digits.images.reshape(360, 64), axis=0)) == 360


def test_no_held_back_digit_is_training_data():
    pytest.importorskip("sklearn", reason="the training data come from scikit-learn")
    trained, kept = train_digits.split()
    shipped = held_back()
    np.testing.assert_array_equal(kept.images, shipped.images)
    np.testing.assert_array_equal(kept.labels, shipped.labels)
    seen = {image.tobytes() for image in trained.images}
    assert not any(image.tobytes() in seen for image in shipped.images)
