"""Trains the digit classifier that ships with zrt, in plain numpy, and writes it with digits it never saw.

The data are scikit-learn's `load_digits`: 1797 handwritten digits of 8 x 8 pixels with values 0..16. The net
is two 3x3 convolutions (1 -> 16 -> 32 channels), a 2x2 max pool and one dense layer. Running the script again
writes the same bytes:

    python -m benches.models.train_digits
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path
from typing import NamedTuple

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper

__all__ = ["Digits", "export", "predict", "split", "train"]

MODELS = Path(__file__).parents[2] / "zrt" / "models"
HELD_BACK = 360
SEED = 8
CHANNELS = (16, 32)
EPOCHS = 30
BATCH = 64
LEARNING_RATE = 2e-3
WEIGHT_DECAY = 1e-2

Floats = NDArray[np.float64]
Bytes = NDArray[np.uint8]
Parameters = dict[str, Floats]


class Digits(NamedTuple):
    """Handwritten digits: `images` uint8 [n, 8, 8] with values 0..16, and `labels` uint8 [n]."""

    images: Bytes
    labels: Bytes

    @property
    def pixels(self) -> Floats:
        """The images as the net reads them: [n, 1, 8, 8] with values 0..1."""
        return self.images[:, None].astype(np.float64) / 16


def split() -> tuple[Digits, Digits]:
    """The digits to train on and the held-back ones, in which each class has its share."""
    from sklearn.datasets import load_digits
    from sklearn.model_selection import train_test_split

    data = load_digits()
    images, labels = data.images.astype(np.uint8), data.target.astype(np.uint8)
    train_images, test_images, train_labels, test_labels = train_test_split(
        images, labels, test_size=HELD_BACK, stratify=labels, random_state=SEED
    )
    return Digits(train_images, train_labels), Digits(test_images, test_labels)


def train(digits: Digits) -> Parameters:
    """The net's weights after `EPOCHS` passes over `digits` with Adam and decaying steps."""
    source = np.random.default_rng(SEED)
    parameters = _initial(source)
    first = {name: np.zeros_like(value) for name, value in parameters.items()}
    second = {name: np.zeros_like(value) for name, value in parameters.items()}
    pixels = digits.pixels
    steps = EPOCHS * -(-len(pixels) // BATCH)
    step = 0
    for _ in range(EPOCHS):
        order = source.permutation(len(pixels))
        for start in range(0, len(order), BATCH):
            drawn = order[start : start + BATCH]
            gradients = _gradients(parameters, _jitter(pixels[drawn], source), digits.labels[drawn])
            rate = LEARNING_RATE * (1 + np.cos(np.pi * step / steps)) / 2
            step += 1
            for name, gradient in gradients.items():
                first[name] += 0.1 * (gradient - first[name])
                second[name] += 0.001 * (gradient**2 - second[name])
                mean, variance = first[name] / (1 - 0.9**step), second[name] / (1 - 0.999**step)
                decay = WEIGHT_DECAY if name.endswith(".w") else 0.0
                parameters[name] -= rate * (mean / (np.sqrt(variance) + 1e-8) + decay * parameters[name])
    return parameters


def predict(parameters: Parameters, pixels: Floats) -> Floats:
    """The probability of each class, [n, 10], for images [n, 1, 8, 8]."""
    return _forward(parameters, pixels).probabilities


def export(parameters: Parameters, accuracy: float) -> onnx.ModelProto:
    """The net as a model: `image` float32 [batch, 1, 8, 8] -> `probabilities` float32 [batch, 10]."""
    nodes = [
        helper.make_node("Conv", ["image", "conv1.w", "conv1.b"], ["conv1"], pads=[1, 1, 1, 1]),
        helper.make_node("Relu", ["conv1"], ["relu1"]),
        helper.make_node("Conv", ["relu1", "conv2.w", "conv2.b"], ["conv2"], pads=[1, 1, 1, 1]),
        helper.make_node("Relu", ["conv2"], ["relu2"]),
        helper.make_node("MaxPool", ["relu2"], ["pool"], kernel_shape=[2, 2], strides=[2, 2]),
        helper.make_node("Flatten", ["pool"], ["features"]),
        helper.make_node("Gemm", ["features", "dense.w", "dense.b"], ["logits"], transB=1),
        helper.make_node("Softmax", ["logits"], ["probabilities"]),
    ]
    describe = helper.make_tensor_value_info
    graph = helper.make_graph(
        nodes,
        "digits",
        [describe("image", TensorProto.FLOAT, ["batch", 1, 8, 8], "gray levels, 0..1")],
        [describe("probabilities", TensorProto.FLOAT, ["batch", 10], "one for each digit")],
        [numpy_helper.from_array(value.astype(np.float32), name) for name, value in parameters.items()],
    )
    model = helper.make_model(
        graph,
        ir_version=8,
        opset_imports=[helper.make_opsetid("", 17)],
        producer_name="zrt",
        doc_string="Reads handwritten digits of 8 x 8 pixels. Input: gray levels 0..1 (the data set's 0..16, "
        "divided by 16), ink bright on dark ground. Output: the probability of each digit.",
    )
    helper.set_model_props(
        model,
        {
            "description": "Handwritten digit classifier: two 3x3 convolutions, max pool, dense, softmax",
            "input": "image: float32 [batch, 1, 8, 8], pixels / 16, values 0..1",
            "classes": ",".join(str(digit) for digit in range(10)),
            "license": "Apache-2.0",
            "dataset": "Optical Recognition of Handwritten Digits, E. Alpaydin and C. Kaynak, UCI Machine "
            "Learning Repository, CC BY 4.0, doi:10.24432/C50P49; its test set, as scikit-learn carries it",
            "accuracy": f"{accuracy:.4f} on {HELD_BACK} held-back digits",
        },
    )
    onnx.checker.check_model(model, full_check=True)
    return model


class _Activations(NamedTuple):
    """The values of the forward pass that the backward pass needs."""

    columns1: Floats
    relu1: Floats
    columns2: Floats
    relu2: Floats
    pooled: Floats
    probabilities: Floats


def _initial(source: np.random.Generator) -> Parameters:
    """Random weights, scaled for ReLU (He), and no bias."""
    one, two = CHANNELS
    shapes = {"conv1": (one, 1, 3, 3), "conv2": (two, one, 3, 3), "dense": (10, two * 4 * 4)}
    parameters = {}
    for name, shape in shapes.items():
        parameters[f"{name}.w"] = source.standard_normal(shape) * np.sqrt(2 / np.prod(shape[1:]))
        parameters[f"{name}.b"] = np.zeros(shape[0])
    return parameters


def _jitter(pixels: Floats, source: np.random.Generator) -> Floats:
    """Moves each image by up to one pixel each way: the net then learns shapes, not places."""
    padded = np.pad(pixels, ((0, 0), (0, 0), (1, 1), (1, 1)))
    moves = source.choice(3, size=(len(pixels), 2), p=[0.2, 0.6, 0.2])
    return np.stack([image[:, y : y + 8, x : x + 8] for image, (y, x) in zip(padded, moves, strict=True)])


def _columns(images: Floats) -> Floats:
    """The 3x3 surroundings of every pixel as a row: [n, c, 8, 8] -> [n * 64, c * 9]."""
    count, channels = images.shape[:2]
    padded = np.pad(images, ((0, 0), (0, 0), (1, 1), (1, 1)))
    windows = np.lib.stride_tricks.sliding_window_view(padded, (3, 3), axis=(2, 3))
    return windows.transpose(0, 2, 3, 1, 4, 5).reshape(count * 64, channels * 9)


def _convolve(columns: Floats, weight: Floats) -> Floats:
    """[n * 64, c * 9] with weight [o, c, 3, 3] -> [n, o, 8, 8]."""
    rows = columns @ weight.reshape(len(weight), -1).T
    return rows.reshape(-1, 8, 8, len(weight)).transpose(0, 3, 1, 2)


def _forward(parameters: Parameters, pixels: Floats) -> _Activations:
    columns1 = _columns(pixels)
    relu1 = np.maximum(_convolve(columns1, parameters["conv1.w"]) + parameters["conv1.b"][:, None, None], 0)
    columns2 = _columns(relu1)
    relu2 = np.maximum(_convolve(columns2, parameters["conv2.w"]) + parameters["conv2.b"][:, None, None], 0)
    pooled = relu2.reshape(len(pixels), -1, 4, 2, 4, 2).max(axis=(3, 5))
    logits = pooled.reshape(len(pixels), -1) @ parameters["dense.w"].T + parameters["dense.b"]
    powers = np.exp(logits - logits.max(axis=1, keepdims=True))
    return _Activations(columns1, relu1, columns2, relu2, pooled, powers / powers.sum(axis=1, keepdims=True))


def _gradients(parameters: Parameters, pixels: Floats, labels: Bytes) -> Parameters:
    """The gradient of the mean cross entropy for each parameter."""
    seen = _forward(parameters, pixels)
    logits = (seen.probabilities - np.eye(10)[labels]) / len(labels)
    features = seen.pooled.reshape(len(labels), -1)

    pooled = (logits @ parameters["dense.w"]).reshape(seen.pooled.shape)
    # A pool's gradient goes to its largest pixel. Where all four are 0 they tie, and ReLU's mask drops them.
    largest = seen.relu2 == _enlarge(seen.pooled)
    conv2 = _enlarge(pooled) * largest * (seen.relu2 > 0)
    # The gradient of a convolution's input is a convolution with its weights turned round.
    turned = parameters["conv2.w"][:, :, ::-1, ::-1].transpose(1, 0, 2, 3)
    conv1 = _convolve(_columns(conv2), turned) * (seen.relu1 > 0)
    return {
        "conv1.w": _rows(conv1).T.dot(seen.columns1).reshape(parameters["conv1.w"].shape),
        "conv1.b": conv1.sum(axis=(0, 2, 3)),
        "conv2.w": _rows(conv2).T.dot(seen.columns2).reshape(parameters["conv2.w"].shape),
        "conv2.b": conv2.sum(axis=(0, 2, 3)),
        "dense.w": logits.T @ features,
        "dense.b": logits.sum(axis=0),
    }


def _enlarge(images: Floats) -> Floats:
    """[n, c, 4, 4] -> [n, c, 8, 8], every pixel twice each way."""
    return images.repeat(2, axis=2).repeat(2, axis=3)


def _rows(images: Floats) -> Floats:
    """[n, c, 8, 8] -> [n * 64, c], the order of `_columns`."""
    return images.transpose(0, 2, 3, 1).reshape(-1, images.shape[1])


def main() -> None:
    parser = argparse.ArgumentParser(description="Train the classifier; write digits.onnx and digits.npz.")
    parser.add_argument("--folder", type=Path, default=MODELS, help="where to write (default: zrt/models)")
    folder: Path = parser.parse_args().folder
    started = time.perf_counter()
    known, held_back = split()
    parameters = train(known)
    right = int((predict(parameters, held_back.pixels).argmax(axis=1) == held_back.labels).sum())
    accuracy = right / len(held_back.labels)
    print(f"{right} of {len(held_back.labels)} held-back digits right ({accuracy:.2%})", end="")
    print(f" after {time.perf_counter() - started:.0f} s")
    folder.mkdir(parents=True, exist_ok=True)
    onnx.save_model(export(parameters, accuracy), folder / "digits.onnx")
    np.savez_compressed(folder / "digits.npz", images=held_back.images, labels=held_back.labels)


if __name__ == "__main__":
    main()
